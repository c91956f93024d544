"""Sinks: where a job writes the micro-batches of an output, each exactly once."""

from holdfast.spark.sinks.base import BatchInfo, Sink
from holdfast.spark.sinks.function import Collect, ForeachBatch
from holdfast.spark.sinks.parquet import Parquet
from holdfast.spark.sinks.plans import plan_of, stored_query_id
from holdfast.spark.sinks.sqlite import Sqlite

__all__ = ["BatchInfo", "Collect", "ForeachBatch", "Parquet", "Sink", "Sqlite", "plan_of", "stored_query_id"]
