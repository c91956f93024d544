"""Event times that can be: one record from the year 9999 would move the watermark there, and make all others late."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from holdfast.errors import InvalidStep
from holdfast.model.time.timestamps import Duration, Timestamp

__all__ = ["EventTime", "read_time"]

Time = Timestamp | datetime | Decimal | float | str
_DAY = re.compile(r"\d{4}-\d\d-\d\d")


@dataclass(frozen=True)
class EventTime:
    """The column of a source that says when something happened, and which times it can have.

    A record whose time is missing, before `earliest`, or later than `ahead` after the time of the micro-batch, is malformed.
    The time of a micro-batch is Spark's `current_timestamp()`, which is the same when the micro-batch comes again.
    """

    column: str
    earliest: Time | None = None
    ahead: Duration | timedelta | Decimal | float | str | None = "1 day"

    def __post_init__(self) -> None:
        problems = [*self._problems()]
        if problems:
            raise InvalidStep.of("EventTime", problems)

    @property
    def earliest_micros(self) -> int | None:
        return None if self.earliest is None else read_time(self.earliest).micros

    @property
    def ahead_micros(self) -> int | None:
        return None if self.ahead is None else Duration.of(self.ahead).micros

    def _problems(self) -> Iterator[str]:
        if not isinstance(self.column, str) or not self.column:
            yield f"The column is {self.column!r}; give the name of a column of timestamps."
        try:
            _ = self.earliest_micros
        except (TypeError, ValueError):
            yield f"earliest is {self.earliest!r}; give a time such as '2020-01-01' or '2020-01-01T00:00:00Z'."
        try:
            if (self.ahead_micros or 0) < 0:
                raise ValueError
        except (TypeError, ValueError):
            yield f"ahead is {self.ahead!r}; give a duration that is not negative, such as '1 day'."


def read_time(given: Any) -> Timestamp:
    """A time as users write it; a day is its beginning in UTC. Raises ValueError or TypeError."""
    if not isinstance(given, str):
        return Timestamp.of(given)
    return Timestamp.from_rfc3339(f"{given}T00:00:00Z" if _DAY.fullmatch(given) else given)
