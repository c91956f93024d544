"""The contestants of windows.py: the hourly sum by key, once as Spark does it and in Holdfast's ways.

All take the columns (key, at, value) and give (key, window, total): a row for each key and hour, when the watermark has
passed the hour's end.
"""

from __future__ import annotations

from typing import Any

from _contestants import Contestant
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import holdfast as hf

__all__ = ["CONTESTANTS", "SCHEMAS"]

SCHEMAS = {"string": "key string, at timestamp, value double"}
_WATERMARK = "10 minutes"


class OwnSum(hf.CombineFn):
    """A sum as a user would write it, which neither Spark nor Holdfast knows."""

    def create_accumulator(self) -> float:
        return 0.0

    def add_input(self, mutable_accumulator: float, element: float) -> float:
        return mutable_accumulator + element

    def merge_accumulators(self, accumulators: Any) -> float:
        return float(sum(accumulators))

    def extract_output(self, accumulator: float) -> float:
        return accumulator


def _native(rows: DataFrame, _: str, options: dict[str, Any]) -> DataFrame:
    windowed = rows.withWatermark("at", _WATERMARK).groupBy(F.window("at", "1 hour"), "key")
    return windowed.agg(F.sum("value").alias("total")).select("key", "window", "total")


def _holdfast(fn: Any, *, lift: bool = True) -> Any:
    def build(rows: DataFrame, _: str, options: dict[str, Any]) -> DataFrame:
        stream = hf.keyed(rows, key="key", value="value", timestamp="at", watermark=_WATERMARK)
        hourly = stream.window_into(hf.FixedWindows("1 hour"))
        frame: DataFrame = hourly.combine_per_key(fn(), output="total double", lift=lift, **options)
        return frame

    return build


CONTESTANTS = {
    "native": Contestant("Spark groupBy(window, key).agg(sum)", _native, "append"),
    "holdfast": Contestant("Holdfast, Sum()", _holdfast(hf.Sum), "append"),
    "holdfast-own": Contestant("Holdfast, a CombineFn of one's own", _holdfast(OwnSum), "append"),
    "holdfast-unlifted": Contestant("Holdfast, Sum() without lifting", _holdfast(hf.Sum, lift=False), "append"),
}
