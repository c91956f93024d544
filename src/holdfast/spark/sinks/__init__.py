"""Sinks: where a job writes the micro-batches of an output, each exactly once."""

from holdfast.spark.sinks.base import BatchInfo, Sink
from holdfast.spark.sinks.collect import Collect
from holdfast.spark.sinks.console import Console
from holdfast.spark.sinks.delta import Delta
from holdfast.spark.sinks.function import ForeachBatch
from holdfast.spark.sinks.kafka import Kafka
from holdfast.spark.sinks.modes import Mode
from holdfast.spark.sinks.parquet import Parquet
from holdfast.spark.sinks.plans import plan_of, stored_query_id
from holdfast.spark.sinks.sql.duckdb import DuckDB
from holdfast.spark.sinks.sql.postgres import Postgres
from holdfast.spark.sinks.sqlite import Sqlite
from holdfast.spark.sinks.upsert import Upsert

__all__ = [
    "BatchInfo",
    "Collect",
    "Console",
    "Delta",
    "DuckDB",
    "ForeachBatch",
    "Kafka",
    "Mode",
    "Parquet",
    "Postgres",
    "Sink",
    "Sqlite",
    "Upsert",
    "plan_of",
    "stored_query_id",
]
