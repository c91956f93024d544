"""State from an export: into a new checkpoint, or into one that has state already.

Everything is checked before anything is written: the columns, then every row. When importing into existing state, a policy
decides about cells that both have: fail, keep, replace or merge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ormsgpack
import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructField, StructType

from holdfast.checkpoint.destination import building, check_apart, check_links
from holdfast.checkpoint.files.choice import copy_file, files_of, join
from holdfast.checkpoint.layout import Checkpoint, find_checkpoint, open_checkpoint
from holdfast.checkpoint.lock import holding
from holdfast.checkpoint.parts import Operator
from holdfast.checkpoint.replacement import finish_replacing
from holdfast.checkpoint.replacing import replacing_state
from holdfast.checkpoint.schema_paths import place_schemas
from holdfast.engine.state.key_group import KeyGroupState
from holdfast.engine.state.keys import slot_from_bytes, slot_of, slot_to_bytes
from holdfast.engine.stored.reading import HIDDEN, StoredLayout
from holdfast.engine.tables import Slot, Table
from holdfast.errors import CheckpointError, CorruptState, HoldfastError, InputError
from holdfast.model.docs import without_doc
from holdfast.ops.move.export import EXPORT_FILE, Export, exported_rows, read_export
from holdfast.ops.move.merging import CONFLICTS, OnConflict, merged
from holdfast.ops.move.regroup import seed_state, write_manifest
from holdfast.ops.move.savepoint_file import is_checkpoint_file
from holdfast.ops.reading.blobs import StepRef, choose_step, our_errors, record_batches, rows_of, step_blobs, steps_of
from holdfast.ops.reading.cell_rows import CellReader, cell_rows, cell_schema, exported_cells
from holdfast.ops.reading.cell_types import CellTypes, is_typed
from holdfast.ops.reading.key_rows import LogFacts, key_columns, labelled, log_facts, new_groups
from holdfast.ops.reading.keys import key_text
from holdfast.spark.errors.transport import carried
from holdfast.spark.types.arrow import arrow_schema
from holdfast.spark.types.schemas import read_schema

__all__ = ["Imported", "state_import"]

Report = Callable[[int, int], None]

_PROBLEMS_MAX = 20
_SEEN = "~seen"
_TYPES = "cell string, part string, type string"
_COLUMNS_TODO = "write the files with the columns and types of an export"

# Which side a row comes from.
_PRESENT, _COMING = 0, 1


@dataclass(frozen=True)
class Imported:
    """The result of an import."""

    checkpoint: str
    batch: int
    """The last micro-batch; the job resumes with the next."""
    rows: dict[str, int]
    """By step, how many cells were imported."""


def state_import(
    spark: SparkSession,
    directory: str,
    checkpoint: str,
    *,
    on_conflict: OnConflict | None = None,
    key_groups: int | None = None,
    report: Report = lambda done, total: None,
) -> Imported:
    """Imports exported state, edited or not, into a checkpoint.

    If the checkpoint does not exist, it is created and resumes after the export's micro-batch; `key_groups` may then be
    another number. For an existing one, `on_conflict` says what to do with a cell that differs: "fail", "keep" the present
    value, "replace" it, or "merge" if the kind of cell can. Raises InputError with the first wrong rows, before anything is
    written.
    """
    export = read_export(spark, directory)
    check_apart(directory, checkpoint)
    check_links(files_of(spark, directory), export.path)
    files = files_of(spark, checkpoint)
    exists = bool(files.entries(checkpoint))
    if on_conflict is not None and on_conflict not in CONFLICTS:
        raise InputError(f"{on_conflict!r} is not a policy for conflicts.", todo=f"use one of: {', '.join(CONFLICTS)}")
    if exists and on_conflict is None:
        raise CheckpointError(
            f"There is something at {checkpoint!r} already.",
            todo="give a path where nothing exists; or, to import into an existing checkpoint, say what happens to cells "
            "that both have: --on-conflict fail, keep, replace or merge",
        )
    if exists and key_groups is not None:
        raise InputError("Key groups can only be chosen for a new checkpoint.", todo="holdfast rescale --key-groups ...")
    _check_columns(spark, export)
    checked = {step.name: _checked(spark, export, step) for step in export.steps}
    try:
        counts = _counts(checked, export)
        if exists:
            batch = _into(spark, export, checked, checkpoint, str(on_conflict), report)
        else:
            batch = _anew(spark, export, checked, checkpoint, key_groups, report)
    finally:
        for frame in checked.values():
            frame.unpersist()
    return Imported(checkpoint.rstrip("/"), batch, counts)


def _checked(spark: SparkSession, export: Export, step: StepRef) -> DataFrame:
    """The decoded rows; wrong ones with what is wrong."""
    rows = exported_rows(spark, export, step).select(*cell_schema(step.manifest).names)
    types = _stored_types(rows, step, export)
    return _read(rows, step.manifest, _COMING, types).persist(StorageLevel.DISK_ONLY)


def _stored_types(rows: DataFrame, step: StepRef, export: Export) -> list[tuple[str, str, str]]:
    """The stored types of cells whose coders take any type; edited values must have them too."""
    coders = {cell["name"]: (cell["coder"], cell.get("key_coder", {"id": "str"})) for cell in step.manifest["cells"]}
    names = [name for name, each in coders.items() if not all(map(is_typed, each))]
    if not names:
        return []
    manifest, width = dict(step.manifest), len(step.manifest["key"])
    columns = arrow_schema(read_schema(_TYPES, step.name))

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with carried():
            reader = CellReader(manifest)
            for batch in batches:
                found = {each for _, row in exported_cells(batch, width) for each in reader.stored_types(row)}
                yield from record_batches(sorted(found), columns)

    kept = rows.where(F.col("cell").isin(names) & F.col("encoded").isNotNull()).mapInArrow(run, _TYPES).distinct()
    with our_errors(export.path, _COLUMNS_TODO):
        return [tuple(row) for row in kept.collect()]


def _check_columns(spark: SparkSession, export: Export) -> None:
    """Raises InputError if the rows of any step do not have the columns of an export."""
    problems = []
    for step in export.steps:
        with our_errors(export.path, _COLUMNS_TODO):
            found = exported_rows(spark, export, step).schema
        of = f"of the step {step.name!r} "
        problems += [f"{of}{problem}" for problem in _column_problems(found, cell_schema(step.manifest))]
    if problems:
        raise InputError(
            f"The rows do not have the columns of an export: {problems[0]}.",
            detail="\n".join(f"- {problem}." for problem in problems[1:]),
            todo=_COLUMNS_TODO,
        )


def _column_problems(found: StructType, wanted: StructType) -> Iterator[str]:
    present = {field.name: field.dataType.simpleString() for field in found.fields}
    for field in wanted.fields:
        if present.get(field.name) != field.dataType.simpleString():
            is_now = present.get(field.name, "missing")
            yield f"the column {field.name!r} is {is_now}, but must be {field.dataType.simpleString()}"
    yield from (f"there is an extra column {name!r}" for name in present if name not in wanted.names)


def _read_schema(manifest: Mapping[str, Any]) -> StructType:
    return StructType(
        [
            *key_columns(manifest).fields,
            StructField("slot", BinaryType()),
            StructField("window", BinaryType()),
            StructField("start", LongType()),
            StructField("cell", StringType()),
            StructField("packed", BinaryType()),
            StructField("side", IntegerType()),
            StructField("problem", StringType()),
        ]
    )


def _read(rows: DataFrame, manifest: Mapping[str, Any], side: int, types: Sequence[tuple[str, str, str]] = ()) -> DataFrame:
    schema = _read_schema(manifest)
    columns = arrow_schema(schema)
    width = len(manifest["key"])
    described = dict(manifest)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with carried():
            reader = CellReader(described, CellTypes(types))
            for batch in batches:
                found = (_read_row(reader, keys, row, side) for keys, row in exported_cells(batch, width))
                yield from record_batches(found, columns)

    return rows.mapInArrow(run, schema)


def _read_row(reader: CellReader, keys: tuple[Any, ...], row: Mapping[str, Any], side: int) -> tuple[Any, ...]:
    try:
        if None in keys:
            raise InputError("The row has no key.")
        slot = slot_of(keys[0] if len(keys) == 1 else tuple(keys))
        cell = reader.read(slot, row)
        return (*keys, slot_to_bytes(slot), cell.window, cell.start, cell.cell, cell.packed, side, None)
    except HoldfastError as error:
        where = ", ".join(str(key) for key in keys)
        problem = f"key {where}, cell {row['cell']}: {error.what}" + (f" ({error.todo})" if error.todo else "")
        return (*keys, b"", b"", 0, str(row["cell"]), b"", side, problem)


def _counts(checked: Mapping[str, DataFrame], export: Export) -> dict[str, int]:
    """The number of rows by step. Raises InputError if any is wrong or duplicated."""
    counts, problems = {}, []
    for name, rows in checked.items():
        with our_errors(export.path, _COLUMNS_TODO):
            counts[name] = rows.count()
        problems += [(name, problem) for problem in _row_problems(rows, export)]
    if problems:
        (step, first), *rest = problems
        raise InputError(
            f"The rows of the step {step!r} cannot be imported: {first}",
            detail="\n".join(f"- {name}, {problem}" if name != step else f"- {problem}" for name, problem in rest),
            todo="correct them; nothing was written",
        )
    return counts


def _row_problems(rows: DataFrame, export: Export) -> list[str]:
    wrong = rows.where(F.col("problem").isNotNull()).select("problem").limit(_PROBLEMS_MAX)
    right = rows.where(F.col("problem").isNull())
    twice = right.groupBy("slot", "window", "cell").count().where(F.col("count") > 1).limit(_PROBLEMS_MAX)
    told = [row.problem for row in rows_of(wrong, export.path)]
    return told + [f"key {_key(r.slot)}, cell {r.cell}: there are {r['count']} rows." for r in rows_of(twice, export.path)]


def _key(slot: bytes) -> str:
    return key_text(slot_from_bytes(bytes(slot)))


def _anew(
    spark: SparkSession,
    export: Export,
    checked: Mapping[str, DataFrame],
    checkpoint: str,
    key_groups: int | None,
    report: Report,
) -> int:
    source, target = files_of(spark, export.path), files_of(spark, checkpoint)
    with building(target, checkpoint) as work:
        for file in source.walk(join(export.path, "checkpoint")):
            if not is_checkpoint_file(file.name):
                raise CorruptState(f"{file.path!r} is not a file of an export.", todo="export the state again")
            copy_file(source, file.path, target, join(work, file.name))
        made = open_checkpoint(spark, work)
        place_schemas(made, work)
        operators = made.operators()
        known = {operator.number for operator in operators}
        if not {step.operator for step in export.steps} <= known or export.batch not in made.committed():
            raise CorruptState(
                f"{join(export.path, EXPORT_FILE)!r} belongs to another checkpoint than the files beside it.",
                todo="export the state again",
            )
        changes = {} if key_groups is None else {"key_groups": key_groups}
        done = 0
        for operator in operators:
            blobs = []
            for step in export.steps:
                if step.operator == operator.number:
                    manifest = {**step.manifest, **changes}
                    blobs.append(_blobs(made, checked[step.name], manifest, "replace", export.facts[step.name]))
            if blobs:
                report(done, len(export.steps))
                _seed(spark, made, operator, export.batch, blobs)
                done += len(blobs)
        if key_groups is not None:
            write_manifest(made, {step.name: {"key_groups": key_groups} for step in export.steps})
        place_schemas(made, checkpoint.rstrip("/"))
    return export.batch


def _into(
    spark: SparkSession, export: Export, checked: Mapping[str, DataFrame], checkpoint: str, on_conflict: str, report: Report
) -> int:
    place = find_checkpoint(spark, checkpoint)
    with holding(spark, checkpoint, "holdfast state import"):
        finish_replacing(place.files, place.path)
        with replacing_state(open_checkpoint(spark, checkpoint)) as (made, batch):
            present = steps_of(spark, made, batch)
            for step in export.steps:
                (here,) = choose_step(present, step.name, made.path)
                _check_same(here, step)
            done = 0
            for operator in made.operators():
                here_now = [step for step in present if step.operator == operator.number]
                changed = checked.keys() & {step.name for step in here_now}
                if changed:
                    report(done, len(export.steps))
                    blobs = [_into_step(spark, made, step, batch, checked.get(step.name), on_conflict) for step in here_now]
                    _seed(spark, made, operator, batch, blobs)
                    done += len(changed)
    return batch


def _into_step(
    spark: SparkSession, made: Checkpoint, here: StepRef, batch: int, coming: DataFrame | None, on_conflict: str
) -> DataFrame:
    """The blobs of a step with the imported rows; as they are, if there are none for it."""
    blobs = step_blobs(spark, made, here, batch)
    if coming is None:
        return blobs
    there = _read(cell_rows(blobs, here), here.manifest, _PRESENT)
    return _blobs(made, there.unionByName(coming), here.manifest, on_conflict, log_facts(blobs, made.path))


def _check_same(here: StepRef, coming: StepRef) -> None:
    """Cells and windows must be the same, or rows would be misread."""
    for part in ("key", "windowing", "cells", "timers"):
        if _undocumented(here.manifest[part]) != _undocumented(coming.manifest[part]):
            raise CheckpointError(
                f"The export is of another step {here.name!r}: its {part} are not those of the checkpoint.",
                todo="export the state of this checkpoint, and edit that",
            )


def _undocumented(part: Any) -> Any:
    """Without the descriptions of cells and timers, which say nothing about what is stored."""
    return [without_doc(each) for each in part] if isinstance(part, list) else part


def _blobs(made: Checkpoint, rows: DataFrame, manifest: Mapping[str, Any], on_conflict: str, facts: LogFacts) -> DataFrame:
    """The blobs of a step, made from decoded rows."""
    with our_errors(made.path):
        # A step with `on_window_expiration` must also be called for imported keys.
        tells = bool(rows.where(F.col("cell") == _SEEN).take(1))
    placed = labelled(rows, manifest)
    return new_groups(placed, manifest, facts, lambda table: _assembled(table, manifest, on_conflict, tells))


def _seed(spark: SparkSession, made: Checkpoint, operator: Operator, batch: int, blobs: list[DataFrame]) -> None:
    with our_errors(made.path):
        seed_state(spark, made, operator, batch, blobs)


def _assembled(rows: pa.Table, manifest: Mapping[str, Any], on_conflict: str, tells: bool) -> KeyGroupState:
    layout = StoredLayout(manifest)
    state = KeyGroupState(layout)
    columns = [rows[name].to_pylist() for name in ("side", "slot", "window", "cell", "packed")]
    # Present rows come first.
    for _, slot_data, window, cell, packed in sorted(zip(*columns, strict=True), key=lambda row: row[:4]):
        table = state.window_of(window).tables[layout.positions[cell]]
        slot = slot_from_bytes(slot_data)
        entry = table.unpack(ormsgpack.unpackb(packed))
        if slot in table.values and ormsgpack.packb(table.pack(table.values[slot])) != packed:
            entry = _resolved(layout, table, slot, entry, on_conflict)
        table.values[slot] = entry
    if tells:
        for held in state.windows.values():
            seen = held.tables[layout.positions[_SEEN]].values
            seen.update(dict.fromkeys(held.slots() - seen.keys(), True))
    return state


def _resolved(layout: StoredLayout, table: Table, slot: Slot, coming: Any, on_conflict: str) -> Any:
    """The result of two entries that differ."""
    present, spec = table.values[slot], table.spec
    kind = layout.kind_of(spec)
    if on_conflict == "keep":
        return present
    if on_conflict == "replace":
        return coming
    # When a cell was touched, and the like, follows from other cells; the policy applies to those.
    if on_conflict == "fail" and not (kind == HIDDEN and isinstance(present, int)):
        raise InputError(
            f"The key {key_text(slot)} has something else in the cell {spec.name!r} already.",
            todo="choose --on-conflict keep, replace or merge; nothing was written",
        )
    return merged(table, kind, layout.described.get(spec.name), present, coming)
