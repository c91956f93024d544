"""Real services for the tests that concern them: each is started by a fixture, on loopback, with its data in a temporary
directory.

Where one cannot be had, its tests are left out, and the end of the run says which and why. With HOLDFAST_REQUIRE_SERVICES=1
that is a failure instead.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from typing import Any, NoReturn

import pytest

__all__ = ["leave_out", "left_out"]

_LEFT_OUT = "left out, "


def leave_out(service: str, reason: str) -> NoReturn:
    """Leaves out the test that needs a service, or fails it if services are required."""
    what = f"{service}: {reason}"
    if os.environ.get("HOLDFAST_REQUIRE_SERVICES") == "1":
        pytest.fail(f"HOLDFAST_REQUIRE_SERVICES is 1, but there is no {what}", pytrace=False)
    pytest.skip(_LEFT_OUT + what)


def left_out(skipped: Iterable[Any]) -> list[str]:
    """A line for each service that tests were left out for, from pytest's reports of those that were skipped."""
    reasons = [str(report.longrepr[2]).removeprefix("Skipped: ") for report in skipped if isinstance(report.longrepr, tuple)]
    counted = Counter(reason.removeprefix(_LEFT_OUT) for reason in reasons if reason.startswith(_LEFT_OUT))
    return [f"{number} tests left out, no {reason}" for reason, number in sorted(counted.items())]
