"""Time to live: how long a cell lives without being touched."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

from holdfast.errors import HoldfastError, InvalidStep
from holdfast.model.time.timestamps import Duration

__all__ = ["Ttl"]

_LUMPS = 256
_MILLISECOND = 1_000

Refresh = Literal["write", "read"]
Expired = Literal["never", "until_cleaned"]
TtlTime = Literal["processing", "event"]

_CHOICES = {"refresh": get_args(Refresh), "expired": get_args(Expired), "time": get_args(TtlTime)}
# What Flink and Spark call them.
_ELSEWHERE = {
    "OnCreateAndWrite": "refresh='write'",
    "OnReadAndWrite": "refresh='read'",
    "NeverReturnExpired": "expired='never'",
    "ReturnExpiredIfNotCleanedUp": "expired='until_cleaned'",
    "ProcessingTime": "time='processing'",
    "EventTime": "time='event'",
}


@dataclass(frozen=True)
class Ttl:
    """How long the cell of a key lives after it was last touched.

    `refresh`: whether only a write counts as a touch ("write"), or a read as well ("read"). `expired`: whether an expired
    value is "never" returned, or returned "until_cleaned". `time`: "processing" or "event". In event time a touch happens
    at the time of its element or timer, or at the watermark if that is later, and the cell expires by the watermark.

    A cell expires as a whole: all entries of a bag or map together. Touches are recorded to the millisecond, rounded up.
    The clocks of a runtime are no finer, so this prolongs nothing there, and it makes stored times much shorter.
    """

    duration: Duration | int | float | str
    refresh: Refresh = "write"
    expired: Expired = "never"
    time: TtlTime = "processing"

    @property
    def micros(self) -> int:
        return Duration.of(self.duration).micros

    @property
    def grain(self) -> int:
        """The precision of a recorded touch, in microseconds; 1 if the duration is not in whole milliseconds."""
        return 1 if self.micros % _MILLISECOND else _MILLISECOND

    @property
    def in_event_time(self) -> bool:
        return self.time == "event"

    def __post_init__(self) -> None:
        problems = [*self._problems()]
        if problems:
            raise InvalidStep.of("Ttl", problems)

    def _problems(self) -> Iterator[str]:
        try:
            if self.micros <= 0:
                yield f"its time to live is {self.duration!r}; it must be longer than zero."
        except (HoldfastError, TypeError, ValueError) as refused:
            yield f"its time to live is not a duration: {refused}"
        for name, choices in _CHOICES.items():
            given = getattr(self, name)
            if given not in choices:
                here = _ELSEWHERE.get(given) if isinstance(given, str) else None
                meant = f" {given} is {here} here." if here else ""
                yield f"{name} is {given!r}; it can be {' or '.join(map(repr, choices))}.{meant}"

    def describe(self) -> dict[str, int | str]:
        return {"micros": self.micros, "refresh": self.refresh, "expired": self.expired, "time": self.time}


def lump(time: int, micros: int) -> int:
    """The start of the lump that a time falls into. A time to live of `micros` has 256 lumps."""
    return time - time % lump_width(micros)


def lump_width(micros: int) -> int:
    return max(1, micros // _LUMPS)
