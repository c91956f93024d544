"""Writes state into a checkpoint: blobs made elsewhere become the state of a step.

The only way to write a state store is to run a query. So we run one, over a small checkpoint of its own beside the real one:
its source is a table of blobs, its only step stores them, and it commits one micro-batch with a snapshot in each partition.
These snapshots then become the version that the real checkpoint resumes from. A snapshot's version is only in its file name.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.errors import StreamingQueryException
from pyspark.sql import Column, DataFrame, DataFrameReader, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from holdfast.checkpoint.files.choice import Files, join, normalised
from holdfast.checkpoint.files.links import for_state_reader
from holdfast.checkpoint.files.paths import for_reader
from holdfast.checkpoint.layout import Checkpoint, metadata_bytes
from holdfast.checkpoint.query_files import METADATA_VERSION
from holdfast.engine.stored.reading import Blobs
from holdfast.errors import HoldfastError
from holdfast.spark.errors.failures import first_cause
from holdfast.spark.session.settings import with_settings
from holdfast.spark.stages.processor import wake_soon
from holdfast.spark.stages.store import BLOB_KEY, BLOB_VALUE, SparkStore

__all__ = [
    "BLOBS_SCHEMA",
    "blob_table",
    "blobs_reader",
    "flat_blobs",
    "groups_in",
    "seed_new_operator",
    "seed_operator",
    "stored_blobs",
]

BLOBS_SCHEMA = "label int, name string, blob binary"

_TIME_MODES = {"NoTime": "None", "EventTime": "EventTime", "ProcessingTime": "ProcessingTime"}


_BLOBS = pa.schema([("label", pa.int32()), ("name", pa.string()), ("blob", pa.binary())])


def blob_table(label: int, blobs: Iterable[tuple[str, bytes]]) -> pa.Table:
    """The blobs of a key group as rows of `BLOBS_SCHEMA`."""
    names, contents = zip(*blobs, strict=True)
    columns = [pa.array([label] * len(names), pa.int32()), pa.array(names, pa.string()), pa.array(contents, pa.binary())]
    return pa.Table.from_arrays(columns, schema=_BLOBS)


def stored_blobs(spark: SparkSession, checkpoint: str, operator: int, batch: int) -> DataFrame:
    """All blobs of an operator after a micro-batch, as rows of `BLOBS_SCHEMA`."""
    reader = blobs_reader(spark, operator).option("batchId", batch)
    return flat_blobs(reader.load(for_state_reader(checkpoint)))


def blobs_reader(spark: SparkSession, operator: int) -> DataFrameReader:
    """Spark's own reader of state, for the blobs of an operator."""
    return spark.read.format("statestore").option("operatorId", operator).option("stateVarName", "blobs")


def flat_blobs(frame: DataFrame, *more: Column) -> DataFrame:
    """What that reader gives as rows of `BLOBS_SCHEMA`, with more columns before."""
    return frame.select(*more, "key.label", "user_map_key.name", "user_map_value.blob")


def groups_in(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, Blobs]]:
    """Key groups from rows (label, name, blob), which come group by group."""
    label, blobs = None, Blobs()
    for batch in batches:
        for here, name, blob in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            if here != label and label is not None:
                yield label, blobs
                blobs = Blobs()
            label = here
            blobs.put(name, blob)
    if label is not None:
        yield label, blobs


class _Seeder(StatefulProcessor):
    """Puts the blobs of a key group into its state, and has it opened in the next micro-batch."""

    def __init__(self, time_mode: str) -> None:
        self._time_mode = time_mode

    def init(self, handle: Any) -> None:
        self._blobs = SparkStore(handle, handle.getMapState("blobs", BLOB_KEY, BLOB_VALUE))

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        written = False
        for row in rows:
            if row.name is not None:
                self._blobs.put(row.name, bytes(row.blob))
                written = True
        if written and self._time_mode != "None":
            wake_soon(self._blobs, timerValues, by_clock=self._time_mode == "ProcessingTime")
        yield from ()

    def close(self) -> None:
        """Nothing to release."""


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
    """Replaces the state of an operator with blobs (label, name, blob), as this version.

    The operator's directory must not be in use. `time_mode` and `settings` are those of its query, which could not read the
    state otherwise.
    """
    if time_mode not in _TIME_MODES:
        raise HoldfastError(f"State of a query with the time mode {time_mode!r} cannot be written.")
    work = f"{operator_path.rstrip('/')}.seeding-{uuid.uuid4().hex[:8]}"
    try:
        made = _run(spark, blobs, work, partitions, _TIME_MODES[time_mode], settings)
        for number in range(partitions):
            target = join(operator_path, str(number))
            files.remove(target)
            _move_snapshot(files, join(made, str(number)), target, version)
    finally:
        files.remove(work)


def seed_new_operator(
    spark: SparkSession,
    place: Checkpoint,
    path: str,
    number: int,
    blobs: DataFrame,
    *,
    batch: int,
    partitions: int,
    time_mode: str,
    settings: Mapping[str, str],
) -> None:
    """Makes an operator that a checkpoint does not have yet, with blobs (label, name, blob) as its state after a
    micro-batch. Where its metadata says that its schemas are is not true: `place_schemas` makes it right."""
    work = f"{path.rstrip('/')}.seeding-{uuid.uuid4().hex[:8]}"
    # A query without input would commit nothing: this row only has it run.
    idle = spark.createDataFrame([(0, None, None)], BLOBS_SCHEMA)
    try:
        made = _run(spark, blobs.union(idle), work, partitions, time_mode, settings)
        for partition in range(partitions):
            _move_snapshot(place.files, join(made, str(partition)), join(path, str(partition)), batch + 1)
        place.files.move(join(made, "_stateSchema"), join(path, "_stateSchema"))
        [metadata] = Checkpoint(place.files, join(work, "checkpoint")).operator_metadata(0).values()
        metadata["operatorInfo"]["operatorId"] = number
        place.files.write(join(path, "_metadata", METADATA_VERSION, "0"), metadata_bytes(metadata))
    finally:
        place.files.remove(work)


def _move_snapshot(files: Files, made: str, target: str, version: int) -> None:
    """Moves the only snapshot of a partition, as one of this version."""
    files.move(join(made, "1.zip"), join(target, f"{version}.zip"))
    for table in files.entries(join(made, "SSTs")) or ():
        files.move(table.path, join(target, "SSTs", table.name))


def _run(
    spark: SparkSession, blobs: DataFrame, work: str, partitions: int, time_mode: str, settings: Mapping[str, str]
) -> str:
    """Runs the query; returns the directory with its operator's partitions."""
    source, checkpoint = (normalised(join(work, name)) for name in ("blobs", "checkpoint"))
    wanted = {
        **settings,
        "spark.sql.shuffle.partitions": str(partitions),
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "false",
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    }
    with with_settings(spark, wanted):
        blobs.select("label", "name", "blob").write.parquet(source)
        stream = spark.readStream.schema(BLOBS_SCHEMA).parquet(for_reader(source))
        if time_mode == "EventTime":
            stream = stream.withColumn("time", F.timestamp_seconds(F.lit(1))).withWatermark("time", "0 seconds")
        seeded = stream.groupBy("label").transformWithState(
            statefulProcessor=_Seeder(time_mode), outputStructType="done int", outputMode="Append", timeMode=time_mode
        )
        writer = seeded.writeStream.format("noop").option("checkpointLocation", checkpoint)
        query = writer.outputMode("append").trigger(availableNow=True).start()
        try:
            query.awaitTermination()
        except StreamingQueryException as error:
            raise HoldfastError(f"The state could not be written: {first_cause(str(error))}") from error
    return join(work, "checkpoint", "state", "0")
