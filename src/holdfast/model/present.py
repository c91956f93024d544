"""What is known while a bundle runs: its clocks, and where the function's own metrics go."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from holdfast.model.metrics import UserMetrics

__all__ = ["BundleClocks", "bundle_present", "current_clocks", "current_metrics", "current_time_micros"]


class BundleClocks(Protocol):
    """The times of a bundle, in microseconds."""

    @property
    def late(self) -> int:
        """The watermark that decides which elements are late."""

    @property
    def watermark(self) -> int: ...

    @property
    def now(self) -> int: ...

    @property
    def final(self) -> bool:
        """Whether the input has ended, which makes everything due."""


_clocks: ContextVar[BundleClocks | None] = ContextVar("holdfast_clocks", default=None)
_metrics: ContextVar[UserMetrics | None] = ContextVar("holdfast_metrics", default=None)


@contextlib.contextmanager
def bundle_present(clocks: BundleClocks, metrics: UserMetrics) -> Iterator[None]:
    """Inside this context, `Timestamp.now()` is the bundle's time, and metrics are counted for the bundle."""
    clocks_token, metrics_token = _clocks.set(clocks), _metrics.set(metrics)
    try:
        yield
    finally:
        _clocks.reset(clocks_token)
        _metrics.reset(metrics_token)


def current_time_micros() -> int | None:
    """The processing time of the running bundle, if any."""
    clocks = _clocks.get()
    return None if clocks is None else clocks.now


def current_clocks() -> BundleClocks | None:
    """The clocks of the running bundle, if any."""
    return _clocks.get()


def current_metrics() -> UserMetrics | None:
    """The metrics of the running bundle, if any."""
    return _metrics.get()
