"""Real Spark: stored checkpoints are opened by real jobs."""

from __future__ import annotations

import pytest

from holdfast.testing.spark_runtime import scripted_session


@pytest.fixture(scope="session")
def spark():
    return scripted_session()
