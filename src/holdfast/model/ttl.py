"""Time to live: how long a cell keeps what nobody touches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.model.timestamps import Duration

__all__ = ["Ttl"]

_LUMPS = 256
_MILLISECOND = 1_000
_CHOICES = {"refresh": ("write", "read"), "expired": ("never", "until_cleaned"), "time": ("processing", "event")}


@dataclass(frozen=True)
class Ttl:
    """How long the cell of a key lives after it was last touched.

    `refresh`: whether only a write counts as a touch ("write"), or a read as well ("read"). `expired`: whether a value
    whose time is up is "never" returned, or "until_cleaned". `time`: whether it is "processing" time, or "event" time:
    then what counts is the time of the element or timer that touched it (or the watermark, if that is later), and the
    watermark now.

    A cell lives and dies as a whole: of a bag or a map all entries. Touches are noted to the millisecond, rounded up. The
    clocks of a runtime go no finer, so nothing lives longer for it there, and stored times are much shorter.
    """

    duration: Any
    refresh: str = "write"
    expired: str = "never"
    time: str = "processing"

    @property
    def micros(self) -> int:
        return Duration.of(self.duration).micros

    @property
    def grain(self) -> int:
        """To how many microseconds a touch is noted; 1 if the duration itself is not of whole milliseconds."""
        return 1 if self.micros % _MILLISECOND else _MILLISECOND

    @property
    def in_event_time(self) -> bool:
        return self.time == "event"

    @staticmethod
    def of(given: Any) -> Ttl | None:
        """What a spec was given: None, a Ttl, or a duration."""
        return given if given is None or isinstance(given, Ttl) else Ttl(given)

    def problems(self, cell: str) -> Iterator[str]:
        """What is wrong with it, in sentences."""
        try:
            if self.micros <= 0:
                yield f"The TTL of the cell {cell!r} is {self.duration!r}; it must be longer than nothing."
        except (HoldfastError, TypeError, ValueError) as refused:
            yield f"The TTL of the cell {cell!r} is not a duration: {refused}"
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                given = getattr(self, name)
                yield f"The TTL of the cell {cell!r} has {name}={given!r}; it can be {' or '.join(map(repr, choices))}."

    def describe(self) -> dict[str, Any]:
        return {"micros": self.micros, "refresh": self.refresh, "expired": self.expired, "time": self.time}


def lump(time: int, micros: int) -> int:
    """The beginning of the lump that a time belongs to: 256 lumps make a time to live of so many microseconds."""
    return time - time % lump_width(micros)


def lump_width(micros: int) -> int:
    return max(1, micros // _LUMPS)
