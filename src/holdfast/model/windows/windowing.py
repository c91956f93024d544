"""The windowing of a step."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from holdfast.model.time.timestamps import Duration
from holdfast.model.time.units import MAX_MICROS
from holdfast.model.windows.ready import GlobalWindows, WindowFn

__all__ = ["Windowing"]


@dataclass(frozen=True)
class Windowing:
    """How elements are assigned to windows, and how long after its end a window still accepts them."""

    window_fn: WindowFn = field(default_factory=GlobalWindows)
    allowed_lateness: Duration = field(default_factory=Duration)

    def expiry(self, end: int) -> int:
        """When the watermark ends a window with this end, both in microseconds. The end of time ends all of them."""
        return min(end + self.allowed_lateness.micros, MAX_MICROS)

    def describe(self) -> dict[str, Any]:
        return {
            "window_fn": self.window_fn.describe(),
            "allowed_lateness_micros": self.allowed_lateness.micros,
        }
