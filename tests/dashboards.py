"""What the tests of the dashboard show: histories made up by hand, state that is computed and not stored, and a server."""

from __future__ import annotations

import contextlib
import json
import math
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

import msgspec

from holdfast.errors import CheckpointError
from holdfast.ui.judging import judge
from holdfast.ui.reading.jobs import Jobs
from holdfast.ui.reading.state import CellInfo, CellValue, KeyChange, Page, StateSource, StepInfo, WindowRow
from holdfast.ui.serve import Address, serve
from holdfast.watch.history import NOW
from holdfast.watch.records import BatchRecord, EventRecord, GroupsRecord, KeyCount, Record, SourceRecord, StepRecord

__all__ = ["FakeState", "a_graph", "a_history", "append", "batch_record", "make_job", "served"]

T0 = 1_790_000_000_000
INTERVAL_MS = 5_000
GROUPS = 64


def append(checkpoint: Path, *records: Record) -> None:
    """Adds records to a history, as a job does."""
    path = checkpoint / NOW
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        for record in records:
            file.write(msgspec.json.encode(record) + b"\n")


def batch_record(number: int, *, rows: int | None = None, at_ms: int | None = None, run: str = "run 1") -> BatchRecord:
    """A micro-batch of a job with two steps; a busy one after number 240."""
    wave = 1 + 0.35 * math.sin(number / 17) + 0.08 * math.sin(number * 1.7)
    load = wave * (1 + max(number - 240, 0) / 90)
    rows = int(24_000 * load) if rows is None else rows
    took = int(900 + rows / 16 + (900 if number % 40 == 7 else 0))
    at = T0 + number * INTERVAL_MS if at_ms is None else at_ms
    phases = {"latestOffset": 45, "getBatch": 12, "queryPlanning": 90 + number % 20, "walCommit": 60, "commitOffsets": 55}
    keys = int(180_000 * (1 - math.exp(-number / 110)))
    return BatchRecord(
        batch=number,
        at_ms=at,
        run=run,
        duration_ms=took,
        phases_ms={**phases, "addBatch": took - sum(phases.values())},
        interval_ms=INTERVAL_MS,
        rows=rows,
        watermark_ms=at - 12_000 - int(2_500 * math.sin(number / 9)),
        event_ms_max=at - 900,
        sources=[SourceRecord("KafkaV2[Subscribe[payments]]", rows, max(0, int((load - 1.2) * 60_000)))],
        steps={
            "card totals": _step(rows, keys, 74, int(rows * 0.12), number, 0),
            "alerts": _step(int(rows * 0.12), keys // 9, 310, int(rows * 0.004), number, 260 + number % 90),
        },
    )


def _step(rows: int, keys: int, key_bytes: int, outputs: int, number: int, fired: int) -> StepRecord:
    weights = [1 + 0.5 * math.sin(label * 2.3) + (5.5 if label == 41 else 0) for label in range(GROUPS)]
    share = [weight / sum(weights) for weight in weights]
    size = int(keys * key_bytes * (1 + (number % 30) / 60))
    counters = {"elements": rows, "outputs": outputs, "timers_fired": fired, "late": rows // 900 if number % 12 == 3 else 0}
    return StepRecord(
        counters={name: count for name, count in counters.items() if count},
        keys=keys,
        state_bytes=size,
        timers=keys // 3 if fired else 0,
        groups=GroupsRecord(
            list(range(GROUPS)),
            [int(rows * each) for each in share],
            [int(keys * each) for each in share],
            [int(size * each) for each in share],
        ),
        hot=[KeyCount(f"4929-{1000 + place * 37}", int(rows * 0.06 / (place + 1))) for place in range(12)],
        heavy=[KeyCount(f"5412-{2000 + place * 53}", int(18_000 / (1 + place * 0.4))) for place in range(12)],
    )


def a_history(batches: int, job: str = "payments") -> list[Record]:
    return [
        EventRecord("started", T0 - 4_000, run="run 1", job=job),
        *(batch_record(number) for number in range(batches)),
    ]


def a_graph() -> dict[str, object]:
    """What a job writes to `holdfast/graph.json`."""
    card = [{"name": "card", "type": "string"}]
    payment = [*card, {"name": "amount", "type": "bigint"}, {"name": "at", "type": "timestamp"}]

    def edge(origin: dict[str, object], nodes: Sequence[str] = (), handed_on: bool = False) -> dict[str, object]:
        return {"origin": origin, "columns": payment, "nodes": list(nodes), "is_handed_on": handed_on}

    source: dict[str, object] = {"number": 1, "kind": "kafka", "place": "payments"}
    totals = {
        "name": "card totals", "function": "CardTotals", "keys": card, "key_groups": GROUPS, "backend": "heap",
        "inputs": [edge(source, ["where"])], "values": payment, "outputs": [{"step": "card totals", "tag": "main"}],
        "event_time": "at, watermark 10 s", "windows": "1 h", "trigger": "", "limits": "",
        "cells": [{"name": "total", "kind": "combining", "type": "int", "ttl": ""},
                  {"name": "seen", "kind": "bag", "type": "str", "ttl": "2 h"}],
        "timers": [],
    }  # fmt: skip
    alerts = {
        **totals, "name": "alerts", "function": "Alerts", "inputs": [edge({"step": "card totals", "tag": "main"}, (), True)],
        "windows": "", "outputs": [{"step": "alerts", "tag": "main"}, {"step": "alerts", "tag": "late"}],
        "cells": [{"name": "last", "kind": "value", "type": "Payment", "ttl": ""}],
        "timers": [{"name": "quiet", "domain": "event time"}],
    }  # fmt: skip
    return {
        "job": "payments",
        "sources": [source],
        "operators": [
            {"number": 1, "level": 0, "steps": [totals]},
            {"number": 0, "level": 1, "steps": [alerts]},
        ],
        "sinks": [
            {
                "number": 1,
                "name": "parquet: totals",
                "columns": payment,
                "inputs": [edge({"step": "card totals", "tag": "main"})],
            },
            {
                "number": 2,
                "name": "postgres: alerts",
                "columns": payment,
                "inputs": [edge({"step": "alerts", "tag": "main"})],
            },
            {"number": 3, "name": "parquet: late", "columns": payment, "inputs": [edge({"step": "alerts", "tag": "late"})]},
        ],
    }


def make_job(folder: Path, batches: int = 60, *, graph: bool = True) -> Path:
    """A checkpoint with a history, and nothing else that a checkpoint has."""
    checkpoint = folder / "payments"
    append(checkpoint, *a_history(batches))
    if graph:
        (checkpoint / "holdfast" / "graph.json").write_text(json.dumps(a_graph()))
    return checkpoint


@dataclass
class FakeState:
    """As many keys as one likes; each micro-batch changes every fifth, adds to it, and moves one window on."""

    keys: int = 200
    batches: list[int] = field(default_factory=lambda: list(range(52, 60)))
    first_keys: list[str] = field(default_factory=list)
    """Keys before all others."""
    windows_every: int = 3
    """Which keys have windows: no real step has both, but a test can show both."""
    pages: int = 0
    """How many pages were asked for."""

    def retained(self) -> list[int]:
        return list(self.batches)

    def steps(self, batch: int | None) -> tuple[int, list[StepInfo]]:
        cells = [CellInfo("total"), CellInfo("seen"), CellInfo("last"), CellInfo("quiet", is_timer=True)]
        return self._at(batch), [
            StepInfo("card totals", cells, "card string", GROUPS, "heap"),
            StepInfo("alerts", cells[2:], "card string", GROUPS, "heap"),
        ]

    def page(self, step: str, batch: int, *, prefix: str, offset: int, limit: int, compare: int | None) -> Page:
        self.pages += 1
        names = self._names(prefix, offset, limit + 1)
        rows = [row for name in names[:limit] for row in self._rows(name, batch)]
        before = {} if compare is None else {name: list(self._rows(name, self._at(compare))) for name in names[:limit]}
        return Page(rows, len(names[:limit]), len(names) > limit, before)

    def count(self, step: str, batch: int, *, prefix: str) -> int:
        return sum(1 for number in range(self._all) if self._name(number).startswith(prefix))

    def key(self, step: str, key: str, batch: int | None) -> tuple[int, list[WindowRow]]:
        at = self._at(batch)
        return at, list(self._rows(key, at))

    def life(self, step: str, key: str) -> list[KeyChange]:
        found = []
        before: dict[tuple[str, str], str] = {}
        for batch in self.batches:
            now = {(row.window, cell): value.text for row in self._rows(key, batch) for cell, value in row.cells.items()}
            for place in sorted({*before, *now}):
                old, new = before.get(place), now.get(place)
                if old != new:
                    what = "added" if old is None else "removed" if new is None else "changed"
                    found.append(KeyChange(batch, place[0], place[1], what, old or "", new or ""))
            before = now
        return found

    @property
    def _all(self) -> int:
        return self.keys + len(self.first_keys)

    def _at(self, batch: int | None) -> int:
        at = self.batches[-1] if batch is None else batch
        if at not in self.batches:
            raise CheckpointError(f"The state after micro-batch {at} is not here.", todo="choose another")
        return at

    def _name(self, number: int) -> str:
        first = len(self.first_keys)
        return self.first_keys[number] if number < first else f"4929-{number - first:07d}"

    def _names(self, prefix: str, offset: int, limit: int) -> list[str]:
        if not prefix:
            return [self._name(number) for number in range(offset, min(offset + limit, self._all))]
        found = [name for name in map(self._name, range(self._all)) if name.startswith(prefix)]
        return found[offset : offset + limit]

    def _rows(self, key: str, batch: int) -> Iterator[WindowRow]:
        number = int(key[5:]) if key[5:].isdigit() and key.startswith("4929-") else 3
        if number >= self.keys or (number % 7 == 6 and batch < self.batches[-1]):
            return
        turns = sum(1 for each in range(batch + 1) if each % 5 == number % 5)
        seen = [f"shop {(number + turn) % 9}" for turn in range(min(turns, 3))]
        total = number * 7 + turns * 25
        start = 10 + (batch - self.batches[0]) // 4
        day = datetime.fromtimestamp(T0 / 1000, timezone.utc).date()
        window = f"{day} {start:02d}:00 to {start + 1:02d}:00" if number % self.windows_every == 0 else ""
        cells = {
            "total": _value(total),
            "seen": _value(seen),
            "last": _value({"amount": 25, "shop": seen[-1] if seen else ""}),
        }
        if number % 4 == 1:
            cells["quiet"] = CellValue(f"{day}T{start:02d}:05:00Z", json.dumps({"$timestamp": "…"}))
        yield WindowRow(key, window, cells)


def _value(value: object) -> CellValue:
    return CellValue(repr(value), json.dumps(value))


@contextlib.contextmanager
def served(checkpoints: Sequence[Path], state: StateSource, **options: object) -> Iterator[Address]:
    """A dashboard on loopback, in a thread of this process."""
    import uvicorn

    ready, found = threading.Event(), []
    servers: list[uvicorn.Server] = []
    begin = uvicorn.Server.startup

    async def startup(self: uvicorn.Server, sockets: object = None) -> None:
        servers.append(self)
        await begin(self, sockets)  # type: ignore[arg-type]

    def tell(address: Address) -> None:
        found.append(address)
        ready.set()

    jobs = Jobs([str(checkpoint) for checkpoint in checkpoints], lambda checkpoint: state)
    uvicorn.Server.startup = startup  # type: ignore[method-assign]
    try:
        thread = threading.Thread(target=lambda: serve(jobs, judge, on_ready=tell, **options), daemon=True)  # type: ignore[arg-type]
        thread.start()
        assert ready.wait(30), "the dashboard did not start"
    finally:
        uvicorn.Server.startup = begin  # type: ignore[method-assign]
    try:
        yield found[0]
    finally:
        servers[0].should_exit = True
        thread.join(30)
