"""What each micro-batch changed of a job's state, as a DataFrame, and as a stream that follows a running job."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from holdfast.checkpoint.files.choice import is_local
from holdfast.checkpoint.files.paths import local_path
from holdfast.checkpoint.layout import Checkpoint, open_checkpoint
from holdfast.errors import InputError, NeedsSpark
from holdfast.ops.inspect.change_source import CHANGES_SCHEMA, ChangeSource, rows_of_changes
from holdfast.ops.inspect.changes import change_rows, committed_range
from holdfast.ops.reading.blobs import record_batches
from holdfast.ops.reading.direct import DirectSource
from holdfast.ops.reading.steps import choose_step
from holdfast.ops.reading.through_spark import SparkSource
from holdfast.spark.types.arrow import arrow_schema

__all__ = ["read_changes", "stream_changes"]


def read_changes(
    spark: SparkSession,
    checkpoint: str,
    from_batch: int,
    to_batch: int | None = None,
    *,
    step: str | None = None,
    trust_pickle: bool = False,
) -> DataFrame:
    """What each micro-batch after `from_batch` up to `to_batch`, by default the last, changed of the state.

    Both must be retained; -1 is before the first micro-batch, when there was no state. Columns: batch, step, key, window,
    cell, kind as of `read_state`; change ("added", "changed" or "removed"), before and after (JSON; null if there was
    nothing). A cell that several micro-batches changed has a row for each; one that changed and changed back within a
    micro-batch has none. State in files that can be read without Spark is read in the workers; other state by the driver.
    """
    place = open_checkpoint(spark, checkpoint)
    end = place.check_batch(to_batch)
    batches = committed_range(place, from_batch, end)
    if _is_direct(place, step, end):
        reader = spark.read.format(_registered(spark))
        asked = _options(place.path, step, trust_pickle)
        return reader.options(start=from_batch, end=end, **asked).load()
    return _through_spark(spark, place, batches, from_batch, end, step, trust_pickle)


def stream_changes(
    spark: SparkSession,
    checkpoint: str,
    *,
    after: int | None = None,
    step: str | None = None,
    trust_pickle: bool = False,
    accept_replaced: bool = False,
) -> DataFrame:
    """A streaming DataFrame that follows a job: the changes of each micro-batch that it commits, each exactly once.

    It begins after the micro-batch `after`, by default the last that is committed when the stream first starts; -1 is before
    the first. From then on its own query's checkpoint knows where it is. The columns are those of `read_changes`. It fails
    with a sentence if it falls so far behind that the job has removed what it needs, and if an operator replaced the state:
    `accept_replaced` goes on from there. Only for checkpoints in local files, which all workers must see.
    """
    if not is_local(checkpoint):
        raise InputError(
            f"Changes can be followed only in local files, and {checkpoint!r} is not a local path.",
            todo="mount it, or call read_changes every now and then, from the last micro-batch that you have",
        )
    options = _options(str(local_path(checkpoint)), step, trust_pickle)
    options["accept_replaced"] = str(accept_replaced).lower()
    if after is not None:
        options["start"] = str(after)
    return spark.readStream.format(_registered(spark)).options(**options).load()


def _registered(spark: SparkSession) -> str:
    """The name of the data source, which the session knows from now on."""
    spark.dataSource.register(ChangeSource)
    return ChangeSource.name()


def _options(checkpoint: str, step: str | None, trust_pickle: bool) -> dict[str, str]:
    options = {"checkpoint": checkpoint, "trust_pickle": str(trust_pickle).lower()}
    return options if step is None else {**options, "step": step}


def _is_direct(place: Checkpoint, step: str | None, end: int) -> bool:
    try:
        source = DirectSource(place)
        choose_step(source.steps(end), step, place.path)
        for operator in place.operators():
            if operator.is_a_step:
                source.reader.check_format(operator, end)
    except NeedsSpark:
        return False
    return True


def _through_spark(
    spark: SparkSession,
    place: Checkpoint,
    batches: list[int],
    start: int,
    end: int,
    step: str | None,
    trust_pickle: bool,
) -> DataFrame:
    import pyarrow as pa

    source = SparkSource(spark, place)
    columns = arrow_schema(CHANGES_SCHEMA)
    found = []
    for ref in choose_step(source.steps(end), step, place.path):
        for batch, changes in change_rows(source, ref, ref.labels, batches, start, trust_pickle=trust_pickle):
            found += list(record_batches(rows_of_changes(ref.name, batch, changes), columns))
    table = pa.Table.from_batches(found, schema=columns)
    return spark.createDataFrame(table, schema=CHANGES_SCHEMA)
