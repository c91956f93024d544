"""A running count, and a sink that keeps nothing: what benchmarks of the query around a step have in common."""

from __future__ import annotations

from typing import Any

import holdfast as hf
from holdfast.spark.sinks.base import BatchInfo, Sink

__all__ = ["OUTPUT", "Count", "Nowhere"]

OUTPUT = "key string, value double"


class Count(hf.DoFn):
    SEEN = hf.ValueStateSpec("seen", hf.FloatCoder())

    def process(self, element, seen=hf.DoFn.StateParam(SEEN)):
        number = (seen.read() or 0.0) + 1.0
        seen.write(number)
        yield element[0], number


class Nowhere(Sink):
    """Evaluates all rows, and keeps none."""

    evaluates_all = True

    def write_batch(self, rows: Any, info: BatchInfo) -> None:
        rows.write.format("noop").mode("overwrite").save()
