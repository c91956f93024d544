"""Side inputs on Spark: a batch DataFrame is collected, shaped, and sent to the workers.

One with `refresh` is read again between micro-batches. A streaming query's plan is fixed when it starts, so what the plan
holds is a reference; the job puts newer content where the reference finds it. See `SideInputFeed`.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession

from holdfast.model.side_inputs import SideInput
from holdfast.model.step import Step

__all__ = ["Sent", "broadcasts"]


class Sent:
    """A side input as the workers see it: its content, and a number that changes with it."""

    def __init__(self, broadcast: Any, version: int) -> None:
        self._broadcast = broadcast
        self.version = version

    @property
    def value(self) -> Any:
        return self._broadcast.value


def broadcasts(spark: SparkSession, step: Step) -> dict[str, Any]:
    """What each side input is sent as, by the name of its parameter; `*n` for those of `*args`."""
    named = {name: _send(spark, side_input) for name, side_input in step.side_inputs.items()}
    extra = {f"*{i:03d}": _send(spark, s) for i, s in enumerate(step.extra_side_inputs)}
    return named | extra


def _send(spark: SparkSession, side_input: SideInput) -> Sent:
    return Sent(spark.sparkContext.broadcast(side_input.view(_items(side_input.source))), 0)


def _items(source: Any) -> Any:
    """The items of a source: of a DataFrame its rows as plain tuples, or bare values if it has one column."""
    if not isinstance(source, DataFrame):
        return source
    return [row[0] if len(row) == 1 else tuple(row) for row in source.collect()]
