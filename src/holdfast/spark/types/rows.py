"""Rows: from Arrow columns to the elements of a bundle, and from outputs back to Arrow columns."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from operator import itemgetter
from typing import Any

import pyarrow as pa

from holdfast.engine.run.runner import I, Runner
from holdfast.errors import InputError, OutputError
from holdfast.model.coders import Coder, default_coder
from holdfast.model.functions.grouping import Column
from holdfast.spark.types.arrow import column_type, row_class, row_names, to_python
from holdfast.spark.types.fits import ARROW_ERRORS, Misfit
from holdfast.spark.types.nested_fits import FieldFit
from holdfast.spark.types.records import Records

__all__ = ["ElementReader", "OutputWriter", "RowValueCoder", "null_time"]


def null_time() -> InputError:
    """The error for a row whose timestamp is null."""
    return InputError(
        "An element has no event time: its timestamp is null.",
        todo="filter such rows out, or give them a time, before hf.keyed",
    )


class RowValueCoder(Coder[Any]):
    """Encodes the values that a step on Spark sees, when they are held back or collected: a named row of several columns, or
    one bare value. Structs in them are named too, but stored without their names."""

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
        """Leaves out the functions, which are made again where needed."""
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
        self.names = value_names
        self.types = value_types
        self._named = named

    @property
    def value_coder(self) -> Coder[Any]:
        if not self._named and row_names(self.types[0], plain=True) is None:
            return default_coder()
        return RowValueCoder(self.names, self.types, named=self._named)

    def flat(self, key: Any, value: Any) -> tuple[Any, ...]:
        """An element as the row it came from; a value of None, as in a timer's call, becomes nulls."""
        keys = (key,) if self._keys == 1 else tuple(key)
        if value is None and self._named:
            return (*keys, *(None for _ in self.names))
        return (*keys, *value) if self._named else (*keys, value)

    @property
    def elements(self) -> ElementReader:
        """Itself: the input is elements."""
        return self

    def intake(self, runner: Runner[I], batches: list[pa.RecordBatch], columns: tuple[Column, ...], now: int) -> I:
        """What a runner makes of the elements."""
        pairs: list[tuple[Any, Any]] = []
        times: list[int] = []
        for batch in batches:
            more_pairs, more_times = self.read(batch, now)
            pairs += more_pairs
            times += more_times
        return runner.elements(pairs, times)

    def read(self, batch: pa.RecordBatch, default_time: int) -> tuple[list[tuple[Any, Any]], list[int]]:
        """The (key, value) pairs of a batch, and their times."""
        times = [default_time] * batch.num_rows
        if self._timed:
            if batch.column(0).null_count:
                raise null_time()
            times = batch.column(0).to_pylist()
        _, keys, _ = self.parts(batch.columns)
        return list(zip(self.keys(keys), self.values(batch), strict=True)), times

    def parts(self, columns: Sequence[pa.Array]) -> tuple[pa.Array | None, Sequence[pa.Array], Sequence[pa.Array]]:
        """The columns of the time, if there is one, of the key and of the value."""
        first = 1 if self._timed else 0
        return (columns[0] if self._timed else None), columns[first : first + self._keys], columns[first + self._keys :]

    @property
    def value_names(self) -> tuple[str, ...] | None:
        """The names of the values' columns; None if the values are bare."""
        return self.names if self._named else None

    def keys(self, columns: Sequence[pa.Array]) -> list[Any]:
        """The keys in the first of these columns."""
        keys = [to_python(column, plain=True) for column in columns[: self._keys]]
        return keys[0] if len(keys) == 1 else list(zip(*keys, strict=True))

    def values(self, batch: pa.RecordBatch) -> list[Any]:
        """The values of a batch."""
        return self.made(self.parts(batch.columns)[2], batch.num_rows)

    def made(self, columns: Sequence[pa.Array], rows: int) -> list[Any]:
        """The values that these columns make."""
        return self.values_of([to_python(column) for column in columns], rows)

    def values_of(self, columns: Sequence[list[Any]], rows: int) -> list[Any]:
        """The same for columns as lists."""
        if not self._named:
            return columns[0]
        make = row_class(self.names)._make
        return list(map(make, zip(*columns, strict=True) if columns else [()] * rows))

    def column_of(self, field: str | None) -> str | None:
        """The column that holds a field of the values, or the values themselves if they are bare."""
        if self._named:
            return f"v{self.names.index(field)}" if field in self.names else None
        return "v0" if field is None else None


class OutputWriter:
    """Turns the outputs of one tag into a record batch of its schema; if one does not fit, the error says which and why."""

    def __init__(self, schema: pa.Schema, step: str, tag: str) -> None:
        self.schema = schema
        self._step = step
        self.tag = tag
        self._records = Records(schema.names, bare=len(schema) == 1)
        self._columns = [FieldFit(field) for field in schema]

    def write(self, items: Sequence[Any]) -> pa.RecordBatch:
        """The batch with these outputs."""
        rows = self._rows(items)
        return self.write_columns([list(map(itemgetter(place), rows)) for place in range(len(self._columns))], rows)

    def write_columns(self, columns: Sequence[list[Any] | pa.Array], rows: Sequence[Any] | None = None) -> pa.RecordBatch:
        """The batch with these columns; an array fits as it is. `rows` are the outputs that they come from, to name one that
        does not fit."""
        try:
            arrays = [
                values if isinstance(values, pa.Array) else fit.array(values)
                for fit, values in zip(self._columns, columns, strict=True)
            ]
        except ARROW_ERRORS as error:
            if rows is None:
                lists = [column.to_pylist() if isinstance(column, pa.Array) else column for column in columns]
                rows = list(zip(*lists, strict=True))
            raise self._blamed(rows, error) from None
        return pa.record_batch(arrays, schema=self.schema)

    def row(self, item: Any) -> Sequence[Any]:
        """The values of one output, in the order of the schema."""
        try:
            return self._records.row(item)
        except Misfit as misfit:
            raise self._misfit(item, [misfit.why], misfit.todo) from None

    def check(self, item: Any) -> None:
        """Raises what `write` would raise for this output."""
        row = self.row(item)
        for fit, value in zip(self._columns, row, strict=True):
            if not fit.surely(value):
                problems = self._problems(row)
                if problems:
                    raise self._of_row(row, problems)
                return

    def _rows(self, items: Sequence[Any]) -> Sequence[Any]:
        """The outputs as tuples of the schema's width."""
        try:
            return self._records.rows(items)
        except Misfit:
            return [self.row(item) for item in items]

    def _problems(self, row: Sequence[Any]) -> list[tuple[pa.Field, Misfit]]:
        """What does not fit in a row, column by column."""
        explained = ((fit.field, fit.explain(value)) for fit, value in zip(self._columns, row, strict=True))
        return [(field, misfit) for field, misfit in explained if misfit is not None]

    def _blamed(self, rows: Sequence[Any], error: Exception) -> OutputError:
        """The error for a column that does not fit; names the first output that does not."""
        for row in rows:
            problems = self._problems(row)
            if problems:
                return self._of_row(row, problems)
        return self._misfit(rows[0], [str(error).splitlines()[0]], "")

    def _of_row(self, row: Sequence[Any], problems: Sequence[tuple[pa.Field, Misfit]]) -> OutputError:
        todos = dict.fromkeys(misfit.todo for _, misfit in problems if misfit.todo)
        return self._misfit(row, [self._why(*problem) for problem in problems], "; ".join(todos))

    @staticmethod
    def _why(field: pa.Field, misfit: Misfit) -> str:
        column, where = f"the column {field.name!r}", f"{field.name}{misfit.path}"
        if misfit.value is None:
            return f"{where if misfit.path else column} is None, but {misfit.why}"
        shown = f"{misfit.value!r:.100} (a {type(misfit.value).__name__})"
        found = f"{where} is {shown}, which does not" if misfit.path else f"{shown} does not"
        return f"{column} is {column_type(field.type)}, but {found} fit: {misfit.why}"

    def _misfit(self, item: Any, whys: Sequence[str], todo: str) -> OutputError:
        columns = ", ".join(f"{field.name} {column_type(field.type)}" for field in self.schema)
        first, *others = whys
        more = "".join(f"\nAlso, {why}." for why in others)
        return OutputError(
            f"An output of the step {self._step!r} does not fit its schema: {first}.",
            detail=f"The output is {item!r:.300}\nThe schema is {columns}{more}",
            todo=todo or "change what the function yields, or the schema given as output=",
            context={"step": self._step, "output": self.tag},
        )
