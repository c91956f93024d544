"""What changed: between two micro-batches, and for one key from each micro-batch to the next.

Two versions of a key group whose logs end with the same token are the same, and are skipped. Others are decoded and
compared in the worker that reads them.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast.checkpoint.layout import Checkpoint, open_checkpoint
from holdfast.engine.log.chain import HEAD
from holdfast.engine.state.key_group import WindowState
from holdfast.engine.stored.readable import to_json, to_text
from holdfast.engine.stored.reading import HIDDEN, Blobs, read_group
from holdfast.engine.tables import Slot, Table
from holdfast.errors import CheckpointError
from holdfast.ops.reading.blobs import (
    StepRef,
    choose_step,
    collected_groups,
    find_steps,
    groups_in,
    rows_of,
    step_blobs,
    step_changes,
)
from holdfast.ops.reading.keys import FoundKey, find_key, key_text
from holdfast.ops.reading.naming import named_values, window_text
from holdfast.spark.errors.transport import carried

__all__ = ["Change", "Diff", "state_diff", "state_history"]

_DIFF_SCHEMA = "key string, window string, cell string, kind string, before string, after string, old string, new string"
_COLUMNS = _DIFF_SCHEMA.replace(" string", "").split(", ")

_COUNT = "~count"

Side = tuple[WindowState, Table, str]
"""A table with its window and kind, in one of two versions."""
Changed = tuple["Side | None", "Side | None"]


@dataclass(frozen=True)
class Change:
    """A cell or timer of a key that changed."""

    step: str
    key: str
    window: str
    cell: str
    kind: str
    before: str | None
    """As JSON; None if there was nothing."""
    after: str | None
    old: str
    """Readable text."""
    new: str
    batch: int | None = None
    """The micro-batch that changed it, in a history."""

    @property
    def what(self) -> str:
        return "added" if self.before is None else "removed" if self.after is None else "changed"


@dataclass(frozen=True)
class Diff:
    """What changed between two micro-batches."""

    from_batch: int
    to_batch: int
    changes: list[Change]
    total: int
    """How many changes there are; `changes` may hold only the first of them."""


def state_diff(
    spark: SparkSession,
    checkpoint: str,
    from_batch: int,
    to_batch: int,
    *,
    step: str | None = None,
    key: str | None = None,
    limit: int | None = None,
    trust_pickle: bool = False,
) -> Diff:
    """The cells and timers that differ between two micro-batches, ordered by step and key."""
    place = open_checkpoint(spark, checkpoint)
    for batch in (from_batch, to_batch):
        place.check_batch(batch)
    changes: list[Change] = []
    total = 0
    for ref in choose_step(find_steps(spark, place, max(from_batch, to_batch)), step, place.path):
        wanted = None if key is None else find_key(spark, ref, key)
        rows = rows_of(_diff_frame(spark, place, ref, (from_batch, to_batch), wanted, limit, trust_pickle), place.path)
        total += sum(int(row.before) for row in rows if row.kind == _COUNT)
        found = [_change(ref.name, row) for row in rows if row.kind != _COUNT]
        changes += sorted(found, key=lambda change: (change.key, change.window, change.cell))
    return Diff(from_batch, to_batch, changes if limit is None else changes[:limit], total)


def _change(step: str, row: Any, batch: int | None = None) -> Change:
    key, window, cell, kind, before, after, old, new = row
    return Change(step, key, window, cell, kind, before, after, old, new, batch)


def _diff_frame(
    spark: SparkSession,
    place: Checkpoint,
    ref: StepRef,
    batches: tuple[int, int],
    wanted: FoundKey | None,
    limit: int | None,
    trust_pickle: bool,
) -> DataFrame:
    """For each key group a row with the number of its changes, then the changes; at most `limit`, the first by key."""
    sides = [step_blobs(spark, place, ref, batch).withColumn("side", F.lit(side)) for side, batch in enumerate(batches)]
    frame = sides[0].unionByName(sides[1])
    if wanted is not None and wanted.label is not None:
        frame = frame.where(F.col("label") == wanted.label)
    # Label and side in one number, so that the two sides of a key group come one after the other.
    frame = frame.repartition("label").sortWithinPartitions("label", "side")
    frame = frame.select((F.col("label").cast("long") * 2 + F.col("side")).alias("label"), "name", "blob")
    slots = None if wanted is None else [wanted.slot]

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with carried():
            for before, after in _pairs(groups_in(batches)):
                changed = list(_changed(before, after, slots, trust_pickle))
                first = changed if limit is None else heapq.nsmallest(limit, changed, key=lambda pair: key_text(pair[0]))
                rows = [("", "", "", _COUNT, str(len(changed)), None, "", ""), *_rendered(first)]
                columns = zip(*rows, strict=True)
                yield pa.RecordBatch.from_arrays([pa.array(column, pa.string()) for column in columns], names=_COLUMNS)

    return frame.mapInArrow(run, _DIFF_SCHEMA)


def _pairs(groups: Iterator[tuple[int, Blobs]]) -> Iterator[tuple[Blobs | None, Blobs | None]]:
    """The two sides of each key group; one may be missing."""
    waiting: tuple[int, Blobs] | None = None
    for number, blobs in groups:
        label, is_after = divmod(number, 2)
        if is_after and waiting is not None and waiting[0] == label:
            yield waiting[1], blobs
            waiting = None
            continue
        if waiting is not None:
            yield waiting[1], None
            waiting = None
        if is_after:
            yield None, blobs
        else:
            waiting = (label, blobs)
    if waiting is not None:
        yield waiting[1], None


def _changed(
    before: Blobs | None, after: Blobs | None, slots: list[Slot] | None, trust_pickle: bool
) -> Iterator[tuple[Slot, Changed]]:
    """The cells that differ, with their keys. Different bytes may still decode to equal values."""
    if before is not None and after is not None and before.get(HEAD) == after.get(HEAD):
        return
    old, new = _tables(before, trust_pickle), _tables(after, trust_pickle)
    for place in sorted(old.keys() | new.keys()):
        first, second = old.get(place), new.get(place)
        was = {} if first is None else first[1].values
        now = {} if second is None else second[1].values
        here = (was.keys() | now.keys()) if slots is None else [slot for slot in slots if slot in was or slot in now]
        for slot in here:
            if slot in was and slot in now and type(was[slot]) is type(now[slot]) and was[slot] == now[slot]:
                continue
            yield slot, (first if slot in was else None, second if slot in now else None)


def _tables(blobs: Blobs | None, trust_pickle: bool) -> dict[tuple[bytes, str], tuple[WindowState, Table, str]]:
    """The tables of a key group by window and name, without the engine's own."""
    if blobs is None:
        return {}
    group = read_group(blobs, trust_pickle=trust_pickle)
    found = {}
    for data, window in group.state.windows.items():
        for table in window.tables:
            kind = group.layout.kind_of(table.spec)
            if kind != HIDDEN and table.values:
                found[data, table.spec.name] = (window, table, kind)
    return found


def _rendered(changed: Iterable[tuple[Slot, Changed]]) -> Iterator[tuple[str | None, ...]]:
    for slot, (first, second) in changed:
        window, _, kind = second or first or (None, None, "")
        assert window is not None
        was = {} if first is None else dict(named_values(first[1], slot))
        now = {} if second is None else dict(named_values(second[1], slot))
        for name in [*was, *(name for name in now if name not in was)]:
            if name in was and name in now and to_json(was[name]) == to_json(now[name]):
                continue
            yield (
                key_text(slot),
                window_text(window.window),
                name,
                kind,
                to_json(was[name]) if name in was else None,
                to_json(now[name]) if name in now else None,
                to_text(was[name]) if name in was else "",
                to_text(now[name]) if name in now else "",
            )


def state_history(
    spark: SparkSession,
    checkpoint: str,
    key: str,
    *,
    step: str | None = None,
    trust_pickle: bool = False,
) -> list[Change]:
    """How each retained micro-batch changed a key's state, oldest first.

    State after the first of them counts as added by it.
    """
    place = open_checkpoint(spark, checkpoint)
    last = place.check_batch(None)
    changes: list[Change] = []
    for ref in choose_step(find_steps(spark, place, last), step, place.path):
        wanted = find_key(spark, ref, key)
        changes += _history(spark, place, ref, wanted, trust_pickle)
    if not changes:
        raise CheckpointError(
            f"The key {key!r} has no state in the retained micro-batches.", todo="list the state with: holdfast state show"
        )
    return sorted(changes, key=lambda change: (change.batch or 0, change.step))


def _history(spark: SparkSession, place: Checkpoint, ref: StepRef, wanted: FoundKey, trust_pickle: bool) -> Iterator[Change]:
    before: dict[int, Blobs] = {}
    for batch, groups in _versions(spark, place, ref, wanted):
        for label in sorted(groups.keys() | before.keys()):
            changed = _changed(before.get(label), groups.get(label), [wanted.slot], trust_pickle)
            for row in _rendered(changed):
                yield _change(ref.name, row, batch)
        before = groups


def _versions(
    spark: SparkSession, place: Checkpoint, ref: StepRef, wanted: FoundKey
) -> Iterator[tuple[int, dict[int, Blobs]]]:
    """The key groups that may hold a key, after each retained micro-batch.

    The first version is read whole, then each micro-batch's changes. A version without changelogs, as after rescaling, is
    read whole again.
    """
    operator = next(found for found in place.operators() if found.number == ref.operator)
    retained = place.check_history()
    logged = {b for b in retained if all(b + 1 in p.changelogs for p in operator.partitions) and b - 1 in retained}
    for run in _runs(retained, logged):
        groups = _whole(spark, place, ref, wanted, run[0])
        yield run[0], _copied(groups)
        if len(run) == 1:
            continue
        feed = step_changes(spark, place, ref, run[1], run[-1])
        if wanted.label is not None:
            feed = feed.where(F.col("label") == wanted.label)
        changed: dict[int, list[Any]] = {}
        for row in rows_of(feed, place.path):
            changed.setdefault(row.batch, []).append(row)
        for batch in run[1:]:
            for row in changed.get(batch, ()):
                blobs = groups.setdefault(row.label, Blobs())
                if row.change == "delete":
                    blobs.remove(row.name)
                else:
                    blobs.put(row.name, bytes(row.blob))
            yield batch, _copied(groups)


def _copied(groups: dict[int, Blobs]) -> dict[int, Blobs]:
    return {label: Blobs(dict(blobs.items())) for label, blobs in groups.items()}


def _runs(retained: list[int], logged: set[int]) -> Iterator[list[int]]:
    """Runs of micro-batches in which each follows from the one before by its changes."""
    run: list[int] = []
    for batch in retained:
        if run and batch not in logged:
            yield run
            run = []
        run.append(batch)
    if run:
        yield run


def _whole(spark: SparkSession, place: Checkpoint, ref: StepRef, wanted: FoundKey, batch: int) -> dict[int, Blobs]:
    frame = step_blobs(spark, place, ref, batch)
    if wanted.label is not None:
        frame = frame.where(F.col("label") == wanted.label)
    return collected_groups(frame, place.path)
