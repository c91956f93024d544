"""What a step with group state is given, in our order or in Spark's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from pyspark.sql.types import StructType

from holdfast.errors import InvalidStep
from holdfast.model.functions.group_state import GroupTimeout
from holdfast.spark.types.schemas import Schema, read_schema

__all__ = ["Shape", "read_shape"]


class Shape(NamedTuple):
    """The schemas of a step with group state, and its timeout."""

    output: Schema | None
    state: StructType | None
    timeout: GroupTimeout | None


def read_shape(
    called: str,
    placed: Sequence[Any],
    output: Schema | None,
    state_schema: Schema | None,
    timeout: GroupTimeout | None,
) -> Shape:
    """The shape from what follows the function by its place, `(output)` or `(state_schema, timeout)`, and by its name.
    Raises InvalidStep if something is given twice."""
    named = {"output": output, "state_schema": state_schema, "timeout": timeout}
    names = ("output",) if len(placed) < 2 else ("state_schema", "timeout")
    problems = [f"{name} is given twice." for name, _ in zip(names, placed, strict=False) if named[name] is not None]
    if len(placed) > len(names):
        problems.append(
            f"{len(placed)} schemas and timeouts are given by their place; there are (fn, output) and (fn, state_schema, "
            "timeout): give the rest by name."
        )
    if problems:
        raise InvalidStep(called, problems)
    named |= dict(zip(names, placed, strict=False))
    state = None if named["state_schema"] is None else read_schema(named["state_schema"], called, "state schema")
    rows = named["output"] if named["output"] is not None else state
    return Shape(rows, state, cast("GroupTimeout | None", named["timeout"]))
