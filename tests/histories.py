"""Histories of jobs, made up: a healthy one with all that healthy jobs do, and what can be wrong with it."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from holdfast.watch.history import History
from holdfast.watch.records import (
    BatchRecord,
    EventRecord,
    GroupsRecord,
    KeyCount,
    OperatorRecord,
    SourceRecord,
    StepRecord,
    WorkerRecord,
)

T0 = 1_760_000_000_000
"""When the stories begin."""
MB = 1 << 20


@dataclass
class Story:
    """A job of ten minutes, a micro-batch every two seconds, unless told otherwise. It is healthy: its first micro-batch is
    slow, some later ones are too, some have no input, its state grows and then stays as it is."""

    seed: int = 1
    batches: int = 300
    interval_ms: int = 2_000
    rows: int = 2_000
    keys: int = 50_000
    """How many keys there are in the end."""
    levels_off_at: float = 0.4
    key_bytes: int = 60
    groups: int = 16
    run: str = "run 1"
    checkpoint_ms: float = 60
    duration_ms: float = 700
    open_ms: float = 0.2
    commit_ms: float = 0.8
    growth: float = 0.0
    """Keys that come and stay, of all rows."""
    bytes_factor: float = 1.0
    """By how much the values of a key grow with each micro-batch."""
    hot_share: float = 0.0
    hot_group_share: float = 0.0
    watermark_stands: bool = False
    idle_source: bool = False
    lag_grows: float = 0.0
    late_share: float = 0.0
    memory_bytes: int = 600 * MB
    events: list[EventRecord] = field(default_factory=list)

    def history(self) -> History:
        chance = random.Random(self.seed)
        records = [self._batch(number, chance) for number in range(self.batches)]
        begun = EventRecord("started", T0 - 5_000, run=self.run, job="payments")
        return History(records, [begun, *self.events])

    def _batch(self, number: int, chance: random.Random) -> BatchRecord:
        at = T0 + number * self.interval_ms
        rows = 0 if chance.random() < 0.1 else max(int(self.rows * chance.uniform(0.5, 1.5)), 1)
        slow = 12 if number == 0 else 6 if chance.random() < 0.05 else 1
        parts = chance.uniform(0.7, 1.3) * slow
        bundles = self.groups if rows else 0
        checkpoint = self.checkpoint_ms * parts
        source = SourceRecord("Kafka[payments]", rows, int(self.lag_grows * number * self.rows) if self.lag_grows else 0)
        sources = [source, SourceRecord("Kafka[cards]", 0 if self.idle_source else rows // 10, 0)]
        event = at - chance.randrange(500) if rows else None
        moved = T0 if self.watermark_stands else at
        return BatchRecord(
            batch=number,
            at_ms=at,
            run=self.run,
            duration_ms=int(self.duration_ms * parts + checkpoint),
            phases_ms={
                "addBatch": int(self.duration_ms * parts),
                "walCommit": int(checkpoint * 0.4),
                "commitOffsets": int(checkpoint * 0.3),
                "queryPlanning": 20,
            },
            interval_ms=self.interval_ms,
            rows=rows,
            watermark_ms=0 if number == 0 else moved - 10_000,
            event_ms_max=event,
            sources=sources,
            operators=[OperatorRecord(commit_ms=int(checkpoint * 0.3 * 4), remove_ms=40, partitions=4, disk_bytes=10 * MB)],
            workers=[WorkerRecord("here", pid, self.memory_bytes) for pid in (100, 101)],
            steps={"totals": self._step(number, rows, bundles, parts, chance)},
        )

    def _step(self, number: int, rows: int, bundles: int, parts: float, chance: random.Random) -> StepRecord:
        grown = min(number / max(self.batches * self.levels_off_at, 1), 1.0)
        keys = int(self.keys * grown * chance.uniform(0.97, 1.03) + self.growth * self.rows * number)
        # The stored log goes up and down between its snapshot and twice that.
        size = int(keys * self.key_bytes * (1 + (number % 40) / 40) * self.bytes_factor**number)
        counters = {
            "elements": rows,
            "bundles": bundles,
            "late": int(rows * self.late_share),
            "open_micros": int(self.open_ms * 1000 * bundles * parts),
            "commit_micros": int(self.commit_ms * 1000 * bundles * parts),
            "sweep_micros": 500 * bundles,
        }
        hot = [KeyCount("card 7", int(rows * max(self.hot_share, 0.01)))]
        hot += [KeyCount(f"card {chance.randrange(10_000)}", rows // 200) for _ in range(19)]
        return StepRecord(
            counters={name: count for name, count in counters.items() if count},
            keys=keys,
            state_bytes=size,
            groups=self._groups(rows, keys, size),
            hot=hot if rows else [],
            heavy=[KeyCount("card 9", size // 10)],
        )

    def _groups(self, rows: int, keys: int, size: int) -> GroupsRecord:
        busiest = max(self.hot_share, self.hot_group_share)
        others = int(rows * (1 - busiest) / self.groups)
        elements = [others + (int(rows * busiest) if label == 3 else 0) for label in range(self.groups)]
        each = self.groups
        return GroupsRecord(list(range(each)), elements, [keys // each] * each, [size // each] * each)


def failed(at_ms: int, text: str = "ValueError: no amount", batch: int | None = 40) -> EventRecord:
    return EventRecord("failed", at_ms, run="run 1", batch=batch, job="payments", text=text)


def started(at_ms: int, run: str = "run 2") -> EventRecord:
    return EventRecord("started", at_ms, run=run, batch=40, job="payments")
