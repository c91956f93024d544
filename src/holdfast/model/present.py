"""What is known while a bundle runs: its processing time, and where the function's own metrics go."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.model.metrics import UserMetrics

__all__ = ["bundle_present", "current_metrics", "current_time_micros"]

_time: ContextVar[int | None] = ContextVar("holdfast_time", default=None)
_metrics: ContextVar[UserMetrics | None] = ContextVar("holdfast_metrics", default=None)


@contextlib.contextmanager
def bundle_present(time_micros: int, metrics: UserMetrics) -> Iterator[None]:
    """While this is open, `Timestamp.now()` is the bundle's time, and metrics are counted for it."""
    time_token, metrics_token = _time.set(time_micros), _metrics.set(metrics)
    try:
        yield
    finally:
        _time.reset(time_token)
        _metrics.reset(metrics_token)


def current_time_micros() -> int | None:
    """The processing time of the bundle that is running, if one is."""
    return _time.get()


def current_metrics() -> UserMetrics | None:
    """Where the bundle that is running counts, if one is."""
    return _metrics.get()
