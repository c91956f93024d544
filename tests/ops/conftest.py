"""One session, and real checkpoints: of a job that ran to its end, with savepoints that were taken while it ran."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.testing.spark_runtime import scripted_session

sys.path.insert(0, str(Path(__file__).parent.parent))


@pytest.fixture(scope="session")
def spark():
    return scripted_session()


@pytest.fixture(scope="session")
def history(spark, tmp_path_factory):
    """What a job left that was never interrupted. Nothing in it may be altered."""
    from ops.checkpoints import make_history

    return make_history(spark, tmp_path_factory.mktemp("history"))


@pytest.fixture
def checkpoint(history, tmp_path):
    """A copy of the job's checkpoint, at another path."""
    from ops.checkpoints import moved_copy

    return moved_copy(history.checkpoint, tmp_path / "checkpoint")


@pytest.fixture
def small_disk(tmp_path):
    """A file system with room for little."""
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", place], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("a small file system cannot be mounted here")
    yield place
    subprocess.run(["umount", "--lazy", place], check=True)
