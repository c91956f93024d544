"""Where reading a topic begins, as Spark's options say it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

from holdfast.model.time.timestamps import Timestamp
from holdfast.spark.sources.event_time import read_time

__all__ = ["Start", "start_options", "start_problems"]

Start = str | Timestamp | datetime | Decimal | float | Mapping[str, Mapping[int, int]]
"""`"earliest"`, `"latest"`, a time, or the offset of each partition of each topic."""

_ENDS = ("earliest", "latest")
_PLACES = {"earliest": -2, "latest": -1}


def start_options(start: Start) -> dict[str, str]:
    """Spark's options. From a partition that has nothing since a time, only what comes is read."""
    if isinstance(start, str) and start in _ENDS:
        return {"startingOffsets": start}
    if isinstance(start, Mapping):
        offsets = {topic: {str(number): _offset(at) for number, at in places.items()} for topic, places in start.items()}
        return {"startingOffsets": json.dumps(offsets)}
    millis = -(-read_time(start).micros // 1000)
    return {"startingTimestamp": str(millis), "startingOffsetsByTimestampStrategy": "latest"}


def start_problems(start: Any, topics: list[str]) -> Iterator[str]:
    """What is wrong with a start, in sentences."""
    if isinstance(start, Mapping):
        yield from _offset_problems(start, topics)
        return
    try:
        start_options(start)
    except (TypeError, ValueError):
        yield (
            f"start is {start!r}; it is 'earliest', 'latest', a time such as '2026-03-01T00:00:00Z', or the offsets of all "
            "partitions: {'topic': {0: 17, 1: 'earliest'}}."
        )


def _offset_problems(start: Mapping[Any, Any], topics: list[str]) -> Iterator[str]:
    if sorted(map(str, start)) != sorted(topics):
        yield f"start has the offsets of {', '.join(map(str, start)) or 'no topic'}; what is read is {', '.join(topics)}."
    for topic, places in start.items():
        if not isinstance(places, Mapping) or not places or not all(_is_place(*place) for place in places.items()):
            yield f"The offsets of {topic!r} are {places!r}; give one for each partition: {{0: 17, 1: 'earliest'}}."


def _is_place(number: Any, at: Any) -> bool:
    fits = at in _ENDS if isinstance(at, str) else type(at) is int and at >= 0
    return type(number) is int and number >= 0 and fits


def _offset(at: Any) -> int:
    return _PLACES[at] if isinstance(at, str) else int(at)
