"""How far behind a job is: the records that are in its topics and have not been read, by Spark's reports."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["source_lags"]


def source_lags(report: Any) -> dict[str, int]:
    """The number of records by which each source was behind after the micro-batch of a report; for those that say so, which
    are Kafka's."""
    lags: dict[str, int] = {}
    for source in () if report is None else report.sources:
        behind = _behind(_offsets(source.endOffset), _offsets(source.latestOffset))
        if behind is not None:
            lags[source.description] = lags.get(source.description, 0) + behind
    return lags


def _offsets(text: Any) -> Any:
    try:
        return json.loads(text) if isinstance(text, str) else text
    except ValueError:
        return None


def _behind(read: Any, latest: Any) -> int | None:
    """The difference of two maps of offsets by topic and partition. A partition that has not been read yet counts whole."""
    if not isinstance(read, dict) or not isinstance(latest, dict):
        return None
    try:
        behind = [
            max(0, int(end) - int(read.get(topic, {}).get(partition, 0)))
            for topic, partitions in latest.items()
            for partition, end in partitions.items()
        ]
    except (AttributeError, TypeError, ValueError):
        # Another kind of source, whose offsets mean something else.
        return None
    return sum(behind)
