"""Rows of an export as Parquet, which Spark writes and reads by itself."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from holdfast.checkpoint.files.choice import Files, normalised
from holdfast.checkpoint.files.paths import for_reader
from holdfast.ops.move.formats.base import ExportFormat
from holdfast.spark.session.settings import with_settings

__all__ = ["ParquetFormat"]

# Also reads times as tools other than Spark write them.
_MICROS = {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}


class ParquetFormat(ExportFormat):
    name = "parquet"

    def write(self, rows: DataFrame, files: Files, folder: str) -> int:
        spark = rows.sparkSession
        with with_settings(spark, _MICROS):
            rows.write.parquet(normalised(folder))
        return spark.read.parquet(for_reader(folder)).count()

    def _read(self, spark: SparkSession, folder: str, schema: StructType) -> DataFrame:
        return spark.read.parquet(folder)
