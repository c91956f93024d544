"""Trying again while trouble may pass."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from typing import TypeVar

from holdfast.errors import HoldfastError
from holdfast.model.functions.options import DurationLike
from holdfast.model.time.timestamps import Duration

__all__ = ["retried", "retry_seconds"]

Given = TypeVar("Given")
Trouble = TypeVar("Trouble", bound=Exception)

_PAUSE_SECONDS_MIN = 0.1
_PAUSE_SECONDS_MAX = 5.0


def retried(
    attempt: Callable[[], Given],
    trouble: type[Trouble],
    may_pass: Callable[[Trouble], bool],
    seconds: float,
    what: str,
) -> Given:
    """What `attempt` returns. If it raises `trouble` that may pass, it is called again, with growing pauses between, until
    so many seconds after the first time; then the trouble is raised."""
    pause, deadline = _PAUSE_SECONDS_MIN, None
    while True:
        try:
            return attempt()
        except trouble as error:
            now = time.monotonic()
            deadline = deadline or now + seconds
            if not may_pass(error) or now + pause > deadline:
                raise
            said = str(error).strip().partition("\n")[0]
        logging.getLogger("holdfast").warning("%s could not be written, trying again: %s", what, said)
        # Drivers that fell out of a server together do not come back together.
        time.sleep(pause * random.uniform(0.5, 1))
        pause = min(2 * pause, _PAUSE_SECONDS_MAX)


def retry_seconds(retry_for: DurationLike, problems: list[str]) -> float:
    """A span as seconds; what speaks against it is added to the problems."""
    try:
        seconds = Duration.of(retry_for).micros / 1_000_000
    except (HoldfastError, TypeError, ValueError) as error:
        problems.append(f"retry_for is {retry_for!r}: {error}")
        return 0.0
    if seconds < 0:
        problems.append(f"retry_for is {retry_for!r}; it cannot be negative.")
    return seconds
