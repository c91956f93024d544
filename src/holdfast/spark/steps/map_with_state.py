"""`map_with_state` on Spark: rows are the key's columns, then the function's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyspark.sql.types import StructField, StructType

from holdfast.errors import InvalidStep, OutputError
from holdfast.model.coders import Coder
from holdfast.model.functions.map_with_state import MapWithState
from holdfast.model.functions.options import DurationLike
from holdfast.model.state.ttl import Ttl
from holdfast.spark.steps.source import KeyedSource
from holdfast.spark.types.fits import Misfit
from holdfast.spark.types.records import Records
from holdfast.spark.types.schemas import Schema, read_output_schema

__all__ = ["SpreadMap", "spread_map"]


class SpreadMap(MapWithState):
    """Gives rows for Spark: the key's columns, then the values of the function's row."""

    def __init__(self, fn: Callable[[Any, Any], Any], *, keys: int, columns: Sequence[str], **options: Any) -> None:
        self._keys = keys
        self._records = Records(columns, bare=len(columns) == 1)
        super().__init__(fn, **options)

    def _output(self, key: Any, row: Any) -> tuple[Any, ...]:
        try:
            values = self._records.row(row)
        except Misfit as misfit:
            name, columns = self.default_label(), ", ".join(self._records.names)
            raise OutputError(
                f"{name} gave the row {row!r:.200}, which does not fit the columns {columns}: {misfit.why}.",
                todo=misfit.todo or "return a tuple, a dict, a dataclass or a named tuple with these columns",
            ) from None
        return (key, *values) if self._keys == 1 else (*key, *values)


def spread_map(
    source: KeyedSource,
    fn: Callable[[Any, Any], Any],
    output: Schema,
    ttl: Ttl | DurationLike | None,
    state_coder: Coder[Any] | None,
) -> tuple[SpreadMap, StructType]:
    """The function of the step, and the schema of its rows."""
    given = read_output_schema(output, "map_with_state")
    doubled = [name for name in given.names if name in source.keys]
    if doubled:
        told = [f"The output names the key column {name!r}: key columns are added automatically." for name in doubled]
        raise InvalidStep("map_with_state", told)
    keys = [StructField(field.name, field.dataType, True) for field in source.fields(source.keys)]
    made = SpreadMap(fn, keys=len(keys), columns=given.names, ttl=ttl, state_coder=state_coder)
    return made, StructType([*keys, *given.fields])
