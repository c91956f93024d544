"""Rows: from Arrow columns to the elements of a bundle, and from outputs back to Arrow columns."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import cached_property
from operator import attrgetter, itemgetter
from typing import Any

import pyarrow as pa

from holdfast.errors import InputError, OutputError
from holdfast.model.coders import Coder, default_coder
from holdfast.model.timestamps import Timestamp
from holdfast.spark.arrow_types import row_class, row_names, to_python

__all__ = ["ElementReader", "OutputWriter", "RowValueCoder", "null_time"]


def null_time() -> InputError:
    """What to say of a row whose timestamp is null."""
    return InputError(
        "An element has no event time: its timestamp is null.",
        todo="filter such rows out, or give them a time, before hf.keyed",
    )


class RowValueCoder(Coder):
    """Encodes the values that a step on Spark sees, where they are held back or listed: a named row of several columns, or
    one bare value. Structs in them are named too, and stored without their names."""

    def __init__(self, names: tuple[str, ...], types: tuple[pa.DataType, ...], *, named: bool) -> None:
        self._names = names
        self._named = named
        self._structs = {place: kind for place, kind in enumerate(types) if row_names(kind, plain=True) is not None}

    @property
    def identifier(self) -> str:
        return "row"

    def describe(self) -> dict[str, Any]:
        described: dict[str, Any] = {"id": self.identifier, "version": self.version, "fields": list(self._names)}
        if not self._named:
            described["bare"] = True
        if self._structs:
            described["structs"] = {self._names[place]: str(kind) for place, kind in self._structs.items()}
        return described

    def encode(self, value: Any) -> bytes:
        items = self._converted(value if self._named else (value,), plain=True)
        return default_coder().encode(tuple(items) if self._named else items[0])

    def decode(self, data: bytes) -> Any:
        value = default_coder().decode(data)
        items = self._converted(value if self._named else (value,), plain=False)
        return row_class(self._names)._make(items) if self._named else items[0]

    def _converted(self, items: Sequence[Any], plain: bool) -> Sequence[Any]:
        if not self._structs:
            return items
        changed = list(items)
        for place, convert in self._plain if plain else self._back:
            if changed[place] is not None:
                changed[place] = convert(changed[place])
        return changed

    @cached_property
    def _plain(self) -> list[tuple[int, Any]]:
        return [(place, row_names(kind, plain=True)) for place, kind in self._structs.items()]

    @cached_property
    def _back(self) -> list[tuple[int, Any]]:
        return [(place, row_names(kind, plain=False)) for place, kind in self._structs.items()]

    def __getstate__(self) -> dict[str, Any]:
        """Without the functions, which are made anew where they are needed."""
        return {name: value for name, value in self.__dict__.items() if name not in ("_plain", "_back")}


class ElementReader:
    """Reads the elements of a payload.

    Its columns are: the event time in microseconds (if `timed`), the key's columns, the value's columns. One key
    column gives the bare key, several a tuple; one value column gives the bare value, unless `named` says that
    the value is a named row.
    """

    def __init__(
        self, *, timed: bool, keys: int, value_names: tuple[str, ...], value_types: tuple[pa.DataType, ...], named: bool
    ) -> None:
        self._timed = timed
        self._keys = keys
        self._names = value_names
        self._types = value_types
        self._named = named

    @property
    def value_coder(self) -> Coder:
        if not self._named and row_names(self._types[0], plain=True) is None:
            return default_coder()
        return RowValueCoder(self._names, self._types, named=self._named)

    def flat(self, key: Any, value: Any) -> tuple[Any, ...]:
        """An element as the row it came from; a value that is None, as of a timer's call, is nulls."""
        keys = (key,) if self._keys == 1 else tuple(key)
        if value is None and self._named:
            return (*keys, *(None for _ in self._names))
        return (*keys, *value) if self._named else (*keys, value)

    def read(self, batch: pa.RecordBatch, default_time: int) -> tuple[list[tuple[Any, Any]], list[int]]:
        """The (key, value) pairs of a batch, and their times."""
        times = [default_time] * batch.num_rows
        if self._timed:
            if batch.column(0).null_count:
                raise null_time()
            times = batch.column(0).to_pylist()
        keys = self.keys(batch.columns[1 if self._timed else 0 :])
        return list(zip(keys, self.values(batch), strict=True)), times

    def keys(self, columns: Sequence[pa.Array]) -> list[Any]:
        """The keys in the first of these columns."""
        keys = [to_python(column, plain=True) for column in columns[: self._keys]]
        return keys[0] if len(keys) == 1 else list(zip(*keys, strict=True))

    def values(self, batch: pa.RecordBatch) -> list[Any]:
        """The values of a batch."""
        columns = [to_python(column) for column in batch.columns[(1 if self._timed else 0) + self._keys :]]
        if not self._named:
            return columns[0]
        make = row_class(self._names)._make
        return list(map(make, zip(*columns, strict=True) if columns else [()] * batch.num_rows))

    def column_of(self, field: str | None) -> str | None:
        """The column that holds a field of the values, or the values themselves if they are bare."""
        if self._named:
            return f"v{self._names.index(field)}" if field in self._names else None
        return "v0" if field is None else None


class OutputWriter:
    """Turns the outputs of one tag into a record batch of its schema; says which output does not fit, and why."""

    def __init__(self, schema: pa.Schema, step: str, tag: str) -> None:
        self._schema = schema
        self._step = step
        self._tag = tag
        self._width = len(schema)

    def write(self, items: Sequence[Any]) -> pa.RecordBatch:
        """The batch with these outputs."""
        rows = self._rows(items)
        return self.write_columns([list(map(itemgetter(position), rows)) for position in range(self._width)], rows)

    def write_columns(self, columns: Sequence[list[Any]], rows: Sequence[Any] | None = None) -> pa.RecordBatch:
        """The batch with these columns. `rows` are the outputs that they were taken from, to tell which does not fit."""
        arrays = []
        for position, values in enumerate(columns):
            try:
                arrays.append(self._column(position, values))
            except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
                raise self._blamed(position, list(zip(*columns, strict=True)) if rows is None else rows, error) from None
        return pa.record_batch(arrays, schema=self._schema)

    def _rows(self, items: Sequence[Any]) -> Sequence[Any]:
        """The outputs as tuples of the schema's width."""
        types = set(map(type, items))
        if types == {tuple} and set(map(len, items)) == {self._width}:
            return items
        return [self.row(item) for item in items]

    def row(self, item: Any) -> Sequence[Any]:
        """The values of one output, in the order of the schema."""
        names = self._schema.names
        if isinstance(item, dict):
            unknown = sorted(set(map(str, item)) - set(names))
            if unknown:
                raise self._misfit(item, f"it has {', '.join(unknown)}, which the schema does not")
            return [item.get(name) for name in names]
        if dataclasses.is_dataclass(item) and not isinstance(item, type):
            return self._by_attribute(item)
        if isinstance(item, (tuple, list)):
            if len(item) != self._width:
                raise self._misfit(item, f"it has {len(item)} values, and the schema has {self._width} columns")
            return item
        if self._width == 1:
            return (item,)
        raise self._misfit(item, f"it is a {type(item).__name__}; give a tuple, a dict, a dataclass or a named tuple")

    def _by_attribute(self, item: Any) -> Sequence[Any]:
        try:
            values = attrgetter(*self._schema.names)(item)
        except AttributeError as error:
            raise self._misfit(item, str(error)) from None
        return (values,) if self._width == 1 else values

    def _column(self, position: int, values: list[Any]) -> pa.Array:
        field = self._schema.field(position)
        column = _array(values, field.type)
        if column.null_count and not field.nullable:
            raise ValueError("it must not be null")
        return column

    def _blamed(self, position: int, rows: Sequence[Any], error: Exception) -> OutputError:
        """What to raise when a column does not fit: it names the first output that does not."""
        field = self._schema.field(position)
        for row in rows:
            if row[position] is None and not field.nullable:
                return self._misfit(row, f"the column {field.name!r} is None, and it must not be null")
            try:
                _array([row[position]], field.type)
            except (pa.ArrowException, TypeError, ValueError, OverflowError) as reason:
                what = f"the column {field.name!r} is {field.type}, and {row[position]!r:.100} is not"
                return self._misfit(row, f"{what}: {str(reason).splitlines()[0]}")
        return self._misfit(rows[0], f"the column {field.name!r}: {error}")

    def _misfit(self, item: Any, why: str) -> OutputError:
        columns = ", ".join(f"{field.name} {field.type}" for field in self._schema)
        return OutputError(
            f"An output of the step {self._step!r} does not fit its schema: {why}.",
            detail=f"The output is {item!r:.300}\nThe schema is {columns}",
            todo="change what the function yields, or the schema given as output=",
            context={"step": self._step, "output": self._tag},
        )


_EXACT: dict[str, tuple[type, ...]] = {"string": (str,), "binary": (bytes, bytearray, memoryview), "bool": (bool,)}


def _array(values: list[Any], data_type: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(data_type):
        values = [_as_micros(value) if isinstance(value, Timestamp) else value for value in values]
    elif pa.types.is_string(data_type) or pa.types.is_binary(data_type) or pa.types.is_boolean(data_type):
        _check_exact(values, data_type)
    return pa.array(values, type=data_type)


def _as_micros(value: Timestamp) -> int:
    return value.micros


def _check_exact(values: list[Any], data_type: pa.DataType) -> None:
    """Refuses what Arrow would quietly turn into something else, such as bytes into a string."""
    allowed = _EXACT[str(data_type)]
    for found in set(map(type, values)) - {type(None)}:
        if not issubclass(found, allowed):
            raise TypeError(f"it is a {found.__name__}")
