"""Parquet files, one directory for each micro-batch."""

from __future__ import annotations

from pyspark.sql import DataFrame

from holdfast.spark.sinks.base import BatchInfo, Sink

__all__ = ["Parquet"]


class Parquet(Sink):
    """Writes `path/batch_id=<n>/`, replacing what an attempt that failed may have left there. Exactly once.

    Read it with `spark.read.parquet(path)`; the batch is then a column.
    """

    evaluates_all = True

    def __init__(self, path: str) -> None:
        self.path = str(path)

    def write_batch(self, rows: DataFrame, info: BatchInfo) -> None:
        rows.write.mode("overwrite").parquet(f"{self.path}/batch_id={info.batch_id}")

    def __repr__(self) -> str:
        return f"Parquet({self.path!r})"
