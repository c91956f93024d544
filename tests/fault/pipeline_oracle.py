"""What the pipeline must write for some micro-batches, computed in plain Python, without Holdfast and without Spark; and
what it has written.

A micro-batch's watermark is the latest time in those before it, less the delay. In each step a key's elements come first,
then its timers that the watermark has reached.
"""

from __future__ import annotations

import datetime
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from deltalake import DeltaTable

from .events import Event

__all__ = ["SINKS", "Rows", "differences", "expected_sinks", "read_written"]

WATERMARK_SECONDS = 10
FORGET_SECONDS = 25
ACCEPTED_MAX = 2
LARGE_MIN = 500

SINKS = {
    "deduplicated": ("id", "user", "amount", "at"),
    "accepted": ("id", "user", "amount", "minute", "n"),
    "large": ("user", "id", "amount"),
    "dead": ("step", "id", "user", "amount", "error"),
    "minutes": ("user", "minute", "n"),
}
"""The columns of each, in the order in which they are written."""
_NO_KEY = "InputError: An element has no key: its key is None."
_IN_PARQUET = ("deduplicated", "dead")

Rows = list[tuple[Any, ...]]


def expected_sinks(batches: list[list[Event]]) -> dict[str, Rows]:
    """The rows of each sink, in any order."""
    pipeline = _Pipeline()
    latest: int | None = None
    for content in batches:
        pipeline.take(content, None if latest is None else latest - WATERMARK_SECONDS)
        latest = max([*(event.at for event in content), *([] if latest is None else [latest])])
    return {**pipeline.written, "large": list(pipeline.large.values())}


class _Pipeline:
    """All that is remembered, and all that has been written."""

    def __init__(self) -> None:
        self.written: dict[str, Rows] = {name: [] for name in SINKS}
        self.large: dict[str, tuple[Any, ...]] = {}
        self._forget: dict[str, int] = {}
        """The ids that have been seen, with the time at which each is forgotten."""
        self._counts: Counter[tuple[str, int]] = Counter()

    def take(self, content: Iterable[Event], watermark: int | None) -> None:
        new = list(self._deduplicated(content))
        users = [user for _, user, _, _ in new]
        if len(set(users)) < len(users):
            raise ValueError("two ids of one user in a micro-batch: what is right depends on their order")
        for event in new:
            self._limit(*event)
        if watermark is not None:
            self._pass(watermark)

    def _deduplicated(self, content: Iterable[Event]) -> Iterator[tuple[str, str, int, int]]:
        for event in content:
            if event.id is None:
                self._bury("dedup", "", event.user, event.amount, _NO_KEY)
            elif event.id not in self._forget:
                if event.amount == "?":
                    self._bury("dedup", event.id, event.user, event.amount, "ValueError: no amount: ?")
                    continue
                self._forget[event.id] = event.at + FORGET_SECONDS
                row = (event.id, event.user, int(event.amount), event.at)
                self.written["deduplicated"].append(row)
                yield row

    def _limit(self, id: str, user: str, amount: int, at: int) -> None:
        if amount < 0:
            self._bury("limit", id, user, str(amount), f"ValueError: a refund: {amount}")
            return
        minute = at // 60
        self._counts[user, minute] += 1
        n = self._counts[user, minute]
        if n <= ACCEPTED_MAX:
            self.written["accepted"].append((id, user, amount, minute, n))
            if amount >= LARGE_MIN:
                self.large[user] = (user, id, amount)

    def _bury(self, *letter: str) -> None:
        self.written["dead"].append(letter)

    def _pass(self, watermark: int) -> None:
        """Time goes on: ids are forgotten, and minutes are over."""
        self._forget = {id: due for id, due in self._forget.items() if due > watermark}
        for user, minute in [place for place in self._counts if (place[1] + 1) * 60 <= watermark]:
            self.written["minutes"].append((user, minute, self._counts.pop((user, minute))))


def read_written(output: Path, sink: str) -> Rows:
    """The rows of a sink, without Holdfast and without Spark."""
    columns = SINKS[sink]
    if sink in _IN_PARQUET:
        rows = [
            row
            for file in sorted((output / sink).glob("batch_id=*/part-*.parquet"))
            for row in pq.ParquetFile(file).read(columns=list(columns)).to_pylist()
        ]
        return [tuple(_plain(row[column]) for column in columns) for row in rows]
    if (output / sink / "_delta_log").is_dir():
        table = DeltaTable(output / sink).to_pyarrow_table(columns=list(columns))
        return [tuple(_plain(row[column]) for column in columns) for row in table.to_pylist()]
    with closing(sqlite3.connect(output / "rows.sqlite")) as database:
        return [tuple(map(_plain, row)) for row in database.execute(f"SELECT {', '.join(columns)} FROM {sink}")]


def _plain(value: Any) -> Any:
    if isinstance(value, datetime.datetime):
        return int(value.timestamp())
    return "" if value is None else value


def differences(rows: Rows, expected: Rows) -> dict[str, int]:
    """How many rows are lost, doubled and invented."""
    have, want = Counter(rows), Counter(expected)
    too_many = have - want
    return {
        "lost": (want - have).total(),
        "doubled": sum(count for row, count in too_many.items() if row in want),
        "invented": sum(count for row, count in too_many.items() if row not in want),
    }
