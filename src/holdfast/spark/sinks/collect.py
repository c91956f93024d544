"""A list in memory."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Iterator
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from holdfast.errors import SinkError
from holdfast.spark.sinks.base import BatchInfo, Sink
from holdfast.spark.sinks.upsert import Upsert

__all__ = ["Collect"]


class Collect(Sink):
    """Keeps all rows in memory, for tests and small demonstrations. Exactly-once, for as long as the process lives.

    Append: a micro-batch that comes again replaces itself. Several queries may write; each has its own micro-batches. If a
    checkpoint was rolled back, its later micro-batches are removed.

    Upsert: the same, and `rows` has the newest row of each key. All micro-batches are kept, so if the checkpoint was rolled
    back, old values return. Only one query may write, with one key: across queries no row is the newest.
    """

    evaluates_all = True

    def __init__(self) -> None:
        self._held = _Held()
        self._upsert: Upsert | None = None

    def upserting(self, upsert: Upsert) -> Collect:
        same = copy.copy(self)
        same._upsert = upsert
        return same

    def open(self, spark: SparkSession, schema: StructType, query_id: str | None) -> None:
        self._held.check(self._upsert, query_id)

    @property
    def place(self) -> Hashable:
        return "memory", id(self._held)

    def __repr__(self) -> str:
        return f"Collect({len(self.rows)} rows)"

    def write_batch(self, rows: DataFrame, info: BatchInfo) -> None:
        self._held.check(self._upsert, info.query_id)
        self._held.put(rows.collect(), info, self._upsert)

    @property
    def rows(self) -> list[Any]:
        """All rows in micro-batch order, one query after the other; of those that were upserted, the newest of each key."""
        return self._held.rows()


class _Held:
    """What a `Collect` holds, and so do its copies that upsert."""

    def __init__(self) -> None:
        self._batches: dict[str, dict[int, list[Any]]] = {}
        """By query and micro-batch."""
        self._upsert: Upsert | None = None
        """How all of them were written."""

    def check(self, upsert: Upsert | None, query_id: str | None) -> None:
        """Raises SinkError if what is held and what comes do not go together."""
        if not self._batches:
            return
        if upsert != self._upsert:
            raise _other_mode(self._upsert, upsert)
        if upsert is not None and query_id not in self._batches:
            raise SinkError(
                "This hf.sinks.Collect() has the rows of another query; across queries no row of a key is the newest.",
                todo="give each job, and each new checkpoint, an hf.sinks.Collect() of its own",
            )

    def put(self, rows: list[Any], info: BatchInfo, upsert: Upsert | None) -> None:
        if upsert is not None:
            for row in rows:
                _slot(row, upsert)  # Refuses rows without a key before anything changes.
        self._upsert = upsert
        batches = self._batches.setdefault(info.query_id, {})
        for later in [batch for batch in batches if batch > info.batch_id]:
            # The checkpoint was rolled back: what comes now replaces these.
            del batches[later]
        batches[info.batch_id] = rows

    def rows(self) -> list[Any]:
        if self._upsert is None:
            return list(self._all())
        newest: dict[Hashable, Any] = {}
        for row in self._all():
            slot = _slot(row, self._upsert)
            newest.pop(slot, None)
            newest[slot] = row
        return list(newest.values())

    def _all(self) -> Iterator[Any]:
        for batches in self._batches.values():
            for batch in sorted(batches):
                yield from batches[batch]


def _slot(row: Any, upsert: Upsert) -> Hashable:
    return upsert.slot(row[name] for name in upsert.key)


def _other_mode(before: Upsert | None, now: Upsert | None) -> SinkError:
    was, comes = ("appended" if mode is None else f"upserted by {mode}" for mode in (before, now))
    return SinkError(
        f"This hf.sinks.Collect() has rows that were {was}; now they would be {comes}.",
        todo="give an hf.sinks.Collect() of its own",
    )
