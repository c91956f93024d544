"""State that a new job starts with, from a DataFrame: `par_do(initial_state=df)`.

A row is the state of one key: the key's columns, `window` (start, end) if the step has windows, and a column for each cell
with a value. The rows of a key group become the blobs that a job would have left, and Spark puts those into the state store
with the first micro-batch. Later starts ignore it: by then there is state.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from holdfast.engine.state.key_group import KeyGroupState, Layout, WindowState
from holdfast.engine.state.keys import key_of, slot_of
from holdfast.engine.stored.manifest import LOG_BACKENDS, manifest_bytes
from holdfast.engine.stored.reading import write_group
from holdfast.engine.tables import Slot
from holdfast.errors import HoldfastError, InputError
from holdfast.model.functions.step import Step
from holdfast.model.time.timestamps import Timestamp
from holdfast.model.windows.ready import GlobalWindow, GlobalWindows, IntervalWindow
from holdfast.spark.errors.transport import carried
from holdfast.spark.stages.assign import key_column, key_label, quoted
from holdfast.spark.stages.plan import Loaded, StepPlan
from holdfast.spark.steps.seeding import BLOBS_SCHEMA, blob_table
from holdfast.spark.types.arrow import to_python

__all__ = ["initial_blobs", "initial_problems"]

_WINDOW = "window"
_COLLECTIONS = ("bag", "set", "map", "ordered_list")


def initial_problems(df: Any, step: Step, keys: StructType, backend: str) -> Iterator[str]:
    """Why a DataFrame cannot be a step's initial state, in sentences."""
    if not isinstance(df, DataFrame) or df.isStreaming:
        yield f"initial_state is {type(df).__name__}; give a batch DataFrame."
        return
    if step.grouping is not None:
        yield "An aggregation takes no initial_state; union it into the input instead."
    if backend not in LOG_BACKENDS:
        known = " and ".join(sorted(LOG_BACKENDS))
        yield f"initial_state is for the backends {known}; {backend!r} has its own format."
    types = {field.name: field.dataType.simpleString() for field in df.schema.fields}
    for field in keys.fields:
        wanted, found = field.dataType.simpleString(), types.get(field.name, "missing")
        if found != wanted:
            yield f"initial_state must have the key's column {field.name!r} as {wanted}; it is {found}."
    windowed = not isinstance(step.windowing.window_fn, GlobalWindows)
    if windowed and types.get(_WINDOW) != "struct<start:timestamp,end:timestamp>":
        yield "The step has windows: initial_state must have a column 'window' as struct<start:timestamp,end:timestamp>."
    expected = {cell.name for cell in step.cells} | set(keys.names) | ({_WINDOW} if windowed else set())
    for name in types:
        if name not in expected:
            cells = ", ".join(repr(cell.name) for cell in step.cells)
            yield f"initial_state has a column {name!r}, but the step has no such cell: it has {cells}."


def initial_blobs(df: DataFrame, plan: StepPlan, keys: StructType, step: Step, slot: int) -> DataFrame:
    """The blobs (label, name, blob) of the key groups made from the rows, for a step with this slot."""
    names = [field.name for field in keys.fields]
    hashed = [key_column(field.name, field.dataType) for field in keys.fields]
    columns = [F.col(quoted(name)).alias(f"k{i}") for i, name in enumerate(names)]
    if _WINDOW in df.columns and _WINDOW not in names:
        start, end = (F.unix_micros(F.col(f"{_WINDOW}.{part}")) for part in ("start", "end"))
        columns += [start.alias("start"), end.alias("end")]
        if plan.parallel_over != "key":
            hashed.append(start)
    cells = [cell.name for cell in step.cells if cell.name in df.columns]
    columns += [F.col(quoted(name)).alias(f"c{i}") for i, name in enumerate(cells)]
    label = key_label(hashed, plan.key_groups, slot).alias("label")
    return df.select(label, *columns).groupBy("label").applyInArrow(_builder(plan.in_slot(slot), cells), BLOBS_SCHEMA)


def _builder(plan: StepPlan, cells: list[str]) -> Callable[[Sequence[Any], pa.Table], pa.Table]:
    origin = uuid.uuid4().bytes

    def build(key: Sequence[Any], table: pa.Table) -> pa.Table:
        with carried():
            loaded = _loaded(plan)
            state = _state(table.combine_chunks(), loaded.layout, cells, plan.name)
            return blob_table(key[0].as_py(), write_group(state, manifest_bytes(plan.manifest), 0, origin).items())

    return build


_plans: dict[str, StepPlan] = {}


def _loaded(plan: StepPlan) -> Loaded:
    _plans[plan.digest] = plan
    return _loaded_once(plan.digest)


@lru_cache(maxsize=4)
def _loaded_once(digest: str) -> Loaded:
    return _plans[digest].load()


def _state(table: pa.Table, layout: Layout, cells: list[str], step: str) -> KeyGroupState:
    state = KeyGroupState(layout)
    columns = {name: to_python(_chunk(table[name]), plain=name.startswith("k")) for name in table.column_names}
    keys = [columns[f"k{i}"] for i in range(sum(name.startswith("k") for name in columns))]
    contents = {name: columns[f"c{i}"] for i, name in enumerate(cells)}
    done: set[tuple[bytes, Slot]] = set()
    for place, parts in enumerate(zip(*keys, strict=True)):
        slot = slot_of(parts[0] if len(parts) == 1 else parts)
        window = state.window(_window(columns, place))
        if (window.data, slot) in done:
            raise InputError(
                f"The key {key_of(slot)!r} has two rows in initial_state.",
                todo="give one row for each key and window",
                context={"step": step},
            )
        done.add((window.data, slot))
        _fill(window, slot, {name: values[place] for name, values in contents.items()}, step)
    return state


def _chunk(column: Any) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _window(columns: Mapping[str, list[Any]], place: int) -> Any:
    if "start" not in columns:
        return GlobalWindow()
    start, end = columns["start"][place], columns["end"][place]
    if start is None or end is None:
        raise InputError("A row of initial_state has no window.", todo="give every row its window")
    return IntervalWindow(Timestamp(micros=start), Timestamp(micros=end))


def _fill(window: WindowState, slot: Slot, contents: Mapping[str, Any], step: str) -> None:
    layout = window.layout
    for name, value in contents.items():
        table = window.tables[layout.positions[name]]
        if value is None or (table.spec.kind in _COLLECTIONS and not value):
            continue
        try:
            entry = table.conceal(value)
        except HoldfastError as error:
            raise error.within(step=step, cell=name, key=key_of(slot)) from None
        except Exception as error:
            raise InputError(
                f"A value of initial_state does not fit the {table.spec.kind} cell {name!r}: {error}",
                detail=f"The value is {value!r:.200}",
                context={"step": step, "key": key_of(slot)},
            ) from error
        table.values[slot] = entry
    if any(slot in table.values for table in window.tables):
        if layout.seen is not None:
            window.seen.values[slot] = True
        if layout.age is not None:
            window.ages.values[slot] = 1
