"""Writing state into a checkpoint: blobs that were made elsewhere become the state of a step.

Spark has no way to write a state store but to run a query. So one is run, over a small checkpoint of its own beside the
real one: its source is a table of blobs, its only step puts them where they belong, and it commits one micro-batch with a
snapshot in each partition. These snapshots then become the version that the real checkpoint goes on from. A snapshot does
not know its version except by its file's name.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from holdfast.errors import HoldfastError
from holdfast.spark.failures import first_cause
from holdfast.spark.files import Files, join, normalised
from holdfast.spark.processor import WAKE, WAKE_TIME
from holdfast.spark.session import with_settings
from holdfast.spark.store import BLOB_KEY, BLOB_VALUE, SparkStore

__all__ = ["BLOBS_SCHEMA", "seed_operator"]

BLOBS_SCHEMA = "label int, name string, blob binary"

_TIME_MODES = {"NoTime": "None", "EventTime": "EventTime", "ProcessingTime": "ProcessingTime"}


class _Seeder(StatefulProcessor):
    """Puts the blobs of a key group into its state, and sees to it that it is looked at in the next micro-batch."""

    def __init__(self, timed: bool) -> None:
        self._timed = timed

    def init(self, handle: Any) -> None:
        self._handle = handle
        self._blobs = SparkStore(handle.getMapState("blobs", BLOB_KEY, BLOB_VALUE))

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        for row in rows:
            self._blobs.put(row.name, bytes(row.blob))
        if self._timed:
            # What the group really waits for, its step finds out when it is woken.
            soon = max(int(timerValues.getCurrentProcessingTimeInMs()), 0) + 1 if self._by_clock else 1
            self._handle.registerTimer(soon)
            self._blobs.put(WAKE, WAKE_TIME.pack(soon))
        yield from ()

    _by_clock = False

    def close(self) -> None:
        """Nothing to release."""


class _ClockSeeder(_Seeder):
    _by_clock = True


def seed_operator(
    spark: SparkSession,
    files: Files,
    operator_path: str,
    blobs: DataFrame,
    *,
    version: int,
    partitions: int,
    time_mode: str,
    settings: Mapping[str, str],
) -> None:
    """Makes blobs (label, name, blob) the state of an operator, as this version, in place of what it has.

    The operator's directory must be one that nobody uses. `time_mode` and `settings` are those of the query that it is of:
    only with them can it be read there.
    """
    if time_mode not in _TIME_MODES:
        raise HoldfastError(f"The state of a query with the time mode {time_mode!r} cannot be written.")
    work = f"{operator_path.rstrip('/')}.seeding-{uuid.uuid4().hex[:8]}"
    try:
        made = _run(spark, blobs, work, partitions, _TIME_MODES[time_mode], settings)
        for number in range(partitions):
            target = join(operator_path, str(number))
            files.remove(target)
            files.move(join(made, str(number), "1.zip"), join(target, f"{version}.zip"))
            for table in files.entries(join(made, str(number), "SSTs")) or ():
                files.move(table.path, join(target, "SSTs", table.name))
    finally:
        files.remove(work)


def _run(
    spark: SparkSession, blobs: DataFrame, work: str, partitions: int, time_mode: str, settings: Mapping[str, str]
) -> str:
    """Runs the query; gives the directory with its operator's partitions."""
    source, checkpoint = (normalised(join(work, name)) for name in ("blobs", "checkpoint"))
    wanted = {
        **settings,
        "spark.sql.shuffle.partitions": str(partitions),
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "false",
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    }
    with with_settings(spark, wanted):
        blobs.select("label", "name", "blob").write.parquet(source)
        stream = spark.readStream.schema(BLOBS_SCHEMA).parquet(source)
        if time_mode == "EventTime":
            stream = stream.withColumn("time", F.timestamp_seconds(F.lit(1))).withWatermark("time", "0 seconds")
        seeder = _ClockSeeder(True) if time_mode == "ProcessingTime" else _Seeder(time_mode == "EventTime")
        seeded = stream.groupBy("label").transformWithState(
            statefulProcessor=seeder, outputStructType="done int", outputMode="Append", timeMode=time_mode
        )
        writer = seeded.writeStream.format("noop").option("checkpointLocation", checkpoint)
        query = writer.outputMode("append").trigger(availableNow=True).start()
        query.awaitTermination()
    error = query.exception()
    if error is not None:
        raise HoldfastError(f"The state could not be written: {first_cause(str(error))}") from error
    return join(work, "checkpoint", "state", "0")
