"""State cell by cell: rows that people can read and edit, and that can be turned into state again.

    key                struct of the key's own columns, with their types
    window             struct<start, end>; null is the global window
    window_encoded     the window's bytes, if only the window function's own code can read them; else null
    cell               its name; the engine's own cells begin with "~"
    kind               value, bag, set, map, ordered_list, combining; timer; hidden
    value              as JSON (`engine.readable`); for a combining cell the accumulator
    encoded            the same, as stored

A row says the same twice. The reader compares: if `value` is what `encoded` shows, it takes `encoded`, so that nothing is
lost on the way; if not, `value` was edited, and it takes that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

import ormsgpack
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import BinaryType, StringType, StructField, StructType, TimestampType

from holdfast.engine.state.keys import key_of
from holdfast.engine.stored.readable import from_json, to_json
from holdfast.engine.stored.reading import OpaqueWindow, StoredLayout, read_group
from holdfast.engine.tables import Slot, Table, make_table
from holdfast.errors import CoderError, HoldfastError, InputError
from holdfast.model.state.specs import State, StateSpec
from holdfast.model.time.timestamps import Timestamp
from holdfast.model.windows.bounded import GlobalWindow, IntervalWindow
from holdfast.ops.reading.blobs import StepRef, map_groups
from holdfast.ops.reading.cell_types import CellTypes, types_in
from holdfast.spark.types.arrow import to_python
from holdfast.spark.types.schemas import read_schema

__all__ = ["CellReader", "ReadCell", "cell_rows", "cell_schema", "exported_cells", "row_schema"]

T = TypeVar("T")

_SECOND = 1_000_000


def cell_schema(manifest: Mapping[str, Any]) -> StructType:
    """The columns of a step's rows."""
    columns = ", ".join(f"`{column['name']}` {column['type']}" for column in manifest["key"])
    return row_schema(read_schema(columns, str(manifest["name"])))


def row_schema(key: StructType) -> StructType:
    """The columns of rows with this key."""
    times = StructType([StructField("start", TimestampType()), StructField("end", TimestampType())])
    return StructType(
        [
            StructField("key", key),
            StructField("window", times),
            StructField("window_encoded", BinaryType()),
            StructField("cell", StringType()),
            StructField("kind", StringType()),
            StructField("value", StringType()),
            StructField("encoded", BinaryType()),
        ]
    )


def cell_rows(blobs: DataFrame, step: StepRef) -> DataFrame:
    """The rows of all cells in blobs (label, name, blob), which come group by group."""
    names = [column["name"] for column in step.manifest["key"]]
    return map_groups(blobs, lambda label, found: _rows(found, names), cell_schema(step.manifest))


def _rows(blobs: Any, names: list[str]) -> Iterator[tuple[Any, ...]]:
    group = read_group(blobs)
    for cell in group.cells():
        key = key_of(cell.slot)
        parts = (key,) if len(names) == 1 else key
        window = cell.window.window
        times, encoded = None, None
        if isinstance(window, OpaqueWindow):
            encoded = window.data
        elif not isinstance(window, GlobalWindow):
            times = {"start": window.start.micros, "end": window.end.micros}
        packed = ormsgpack.packb(cell.table.pack(cell.entry))
        value = to_json(shown_value(cell.spec, cell.table.reveal(cell.slot)))
        yield dict(zip(names, parts, strict=True)), times, encoded, cell.spec.name, cell.kind, value, packed


def exported_cells(batch: pa.RecordBatch, width: int) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Rows as keys, whose parts are None if there is none, and the other columns; times in microseconds."""
    keys = to_python(batch.column("key"), plain=True)
    windows = batch.column("window")
    times = [windows.field(i).cast(pa.int64()).to_pylist() for i in (0, 1)]
    names = ("window_encoded", "cell", "kind", "value", "encoded")
    rest = zip(*(batch.column(name).to_pylist() for name in names), strict=True)
    for key, is_window, start, end, row in zip(keys, windows.is_valid().to_pylist(), *times, rest, strict=True):
        window = {"start": start, "end": end} if is_window else None
        yield key if key is not None else (None,) * width, {**dict(zip(names, row, strict=True)), "window": window}


def shown_value(spec: StateSpec[State], value: Any) -> Any:
    """A stored value as shown: a timer's time as a time."""
    if spec.name.startswith("~timer:"):
        return Timestamp(micros=value)
    if spec.name.startswith("~tags:"):
        return {tag: Timestamp(micros=micros) for tag, micros in value.items()}
    return value


def _stored_value(spec: StateSpec[State], shown: Any) -> Any:
    """The inverse of `shown_value`."""
    if spec.name.startswith("~timer:"):
        return _micros(shown)
    if spec.name.startswith("~tags:"):
        return {tag: _micros(time) for tag, time in shown.items()}
    return shown


def _micros(shown: Any) -> int:
    if not isinstance(shown, Timestamp):
        raise InputError(f"{shown!r} is not a time.", todo='write {"$timestamp": "2026-03-01T10:00:00Z"}')
    return shown.micros


def _keeps_its_windows(manifest: Mapping[str, Any]) -> bool:
    """Whether the step is an aggregation whose windows are in its cells, in the global window."""
    grouping = manifest.get("grouping")
    kinds = {cell["kind"] for cell in manifest["cells"]}
    return grouping is not None and ("sessions" in kinds or grouping["trigger"].get("id") != "default")


def _kept(problems: list[HoldfastError], check: Callable[[], T]) -> T | None:
    """The result of a check; what it raises is added to the problems."""
    try:
        return check()
    except HoldfastError as error:
        problems.append(error)
        return None


def _together(problems: list[HoldfastError]) -> InputError:
    todos = dict.fromkeys(problem.todo for problem in problems if problem.todo)
    return InputError(" ".join(problem.what for problem in problems), todo="; ".join(todos))


class ReadCell(NamedTuple):
    """A checked row: where it belongs, and the entry as `Table.pack` gives it."""

    slot: Slot
    window: bytes
    start: int
    cell: str
    packed: bytes


class CellReader:
    """Checks and decodes rows of a step."""

    def __init__(self, manifest: Mapping[str, Any], types: CellTypes | None = None) -> None:
        self._layout = StoredLayout(manifest)
        self._types = types or CellTypes()
        self._tables: dict[str, Table] = {spec.name: make_table(spec) for spec in self._layout.specs}
        self._names = [column["name"] for column in manifest["key"]]
        self._window_fn = manifest["windowing"]["window_fn"]
        self._is_windowed = self._window_fn.get("id") != "holdfast.GlobalWindows" and not _keeps_its_windows(manifest)

    def read(self, slot: Slot, row: Mapping[str, Any]) -> ReadCell:
        """The decoded row. Raises an InputError that lists everything wrong with it."""
        name = row["cell"]
        table = self._tables.get(name)
        if table is None:
            cells = ", ".join(spec.name for spec in self._layout.cells)
            raise InputError(f"There is no cell {name!r}.", todo=f"the step has: {cells}")
        problems: list[HoldfastError] = []
        window, start = _kept(problems, lambda: self._window(row)) or (b"", 0)
        _kept(problems, lambda: self._check_kind(table, row["kind"]))
        packed = _kept(problems, lambda: self._fitting(table, row)) or b""
        if problems:
            raise _together(problems)
        return ReadCell(slot, window, start, name, packed)

    def stored_types(self, row: Mapping[str, Any]) -> set[tuple[str, str, str]]:
        """The types in a row's stored value: cell, part and type name. Nothing if it cannot be read."""
        table = self._tables.get(row["cell"])
        if table is None or row["encoded"] is None or table.spec.name not in self._layout.described:
            return set()
        try:
            table.values[0] = table.unpack(ormsgpack.unpackb(row["encoded"]))
            found = types_in(self._layout.kind_of(table.spec), table.reveal(0))
        except Exception:
            # `read` refuses such a row.
            return set()
        finally:
            table.values.pop(0, None)
        return {(table.spec.name, *each) for each in found}

    def _check_kind(self, table: Table, kind: str | None) -> None:
        wanted = self._layout.kind_of(table.spec)
        if kind is not None and kind != wanted:
            raise InputError(f"The kind is {kind!r:.60}, but that of the cell is {wanted!r}.")

    def _fitting(self, table: Table, row: Mapping[str, Any]) -> bytes:
        try:
            return self._packed(table, row)
        except HoldfastError:
            raise
        except Exception as error:
            raise InputError(
                f"The value {row['value']!r:.200} does not fit the {table.spec.kind} cell {table.spec.name!r}: {error}"
            ) from error

    def _packed(self, table: Table, row: Mapping[str, Any]) -> bytes:
        encoded, text = row["encoded"], row["value"]
        if encoded is not None and (text is None or self._shown(table, encoded) == text):
            return bytes(encoded)
        if text is None:
            raise InputError(f"The cell {table.spec.name!r} has neither a value nor its stored form.")
        if '"$opaque"' in text or '"$repr"' in text:
            raise InputError(
                f"The value of the cell {table.spec.name!r} was edited, but only its own code could encode it.",
                todo="leave it as it was exported, or leave its row out",
            )
        value = _stored_value(table.spec, from_json(text))
        if table.spec.name in self._layout.described:
            self._types.check(table.spec.name, self._layout.kind_of(table.spec), value)
        return ormsgpack.packb(table.pack(table.conceal(value)))

    @staticmethod
    def _shown(table: Table, encoded: bytes) -> str:
        try:
            table.values[0] = table.unpack(ormsgpack.unpackb(encoded))
            return to_json(shown_value(table.spec, table.reveal(0)))
        except (CoderError, ormsgpack.MsgpackDecodeError, KeyError, IndexError, TypeError, ValueError) as error:
            raise InputError(f"The stored form of the cell {table.spec.name!r} is damaged: {error}") from None
        finally:
            table.values.pop(0, None)

    def _window(self, row: Mapping[str, Any]) -> tuple[bytes, int]:
        if row["window_encoded"] is not None:
            return bytes(row["window_encoded"]), 0
        times = row["window"]
        kind = str(self._window_fn.get("id"))
        if times is None or times["start"] is None:
            if self._is_windowed:
                raise InputError(f"The row has no window, but the step has {kind.removeprefix('holdfast.')}.")
            return b"", 0
        start, end = times["start"], times["end"]
        self._check_window(kind, start, end)
        window = IntervalWindow(Timestamp(micros=start), Timestamp(micros=end))
        return self._layout.step.windowing.window_fn.encode_window(window), start

    def _check_window(self, kind: str, start: int, end: int) -> None:
        told = self._window_fn
        fits = start < end
        if kind == "holdfast.FixedWindows":
            fits = end - start == told["size_micros"] and (start - told["offset_micros"]) % told["size_micros"] == 0
        elif kind == "holdfast.SlidingWindows":
            fits = end - start == told["size_micros"] and (start - told["offset_micros"]) % told["period_micros"] == 0
        if not fits or not self._is_windowed:
            text = f"{start / _SECOND:g} s to {end / _SECOND:g} s"
            raise InputError(f"The window from {text} is not one of the step's {kind.removeprefix('holdfast.')}.")
