"""Records in files of a directory, through Spark's own file source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types
from pyspark.sql.types import StructField, StructType

from holdfast.errors import InvalidStep
from holdfast.spark.sources.decoding import OnMalformed
from holdfast.spark.sources.event_time import EventTime
from holdfast.spark.sources.formats import Csv, Format, Json, Parquet, Text
from holdfast.spark.sources.source import Reading, Source, choice_problems
from holdfast.spark.stages.assign import quoted
from holdfast.spark.stages.unpack import Outputs

__all__ = ["Files"]

_OWN = {"file_path": "file", "file_block_start": "block"}


class Files(Source):
    """The lines of text files in a directory, or the rows of Parquet files: each file once, the oldest first.

        payments = hf.sources.Files("/data/in", hf.sources.Json("card string not null, amount double")).read(spark)

    `format` is `Json` (an object a line), `Csv`, `Text` or `Parquet`; blank lines of JSON and CSV are ignored. A malformed
    line goes to `dead_letter`, with the file, the line and the reason; or fails its micro-batch, with `on_malformed="fail"`.
    A file must be whole when it appears: write it elsewhere, and rename it. `columns={"file": "name"}` adds the file's path
    to the rows. `max_files_per_trigger` bounds the files of a micro-batch. `options` are those of Spark's file source.
    """

    def __init__(
        self,
        path: str | Path,
        format: Format,
        *,
        columns: Mapping[str, str] | None = None,
        on_malformed: OnMalformed = "dead_letter",
        event_time: EventTime | None = None,
        max_files_per_trigger: int | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        problems = [*_problems(format, columns, max_files_per_trigger)]
        problems += choice_problems(on_malformed=(on_malformed, OnMalformed))
        if event_time is not None and not isinstance(event_time, EventTime):
            problems.append(f"event_time is {event_time!r}; give hf.sources.EventTime('column').")
        if problems:
            raise InvalidStep.of("Files", problems)
        self.path = str(path)
        self._format = format
        self._columns = columns or {}
        self._on_malformed: OnMalformed = on_malformed
        self._event_time = event_time
        self._options = {name: str(value) for name, value in (options or {}).items()}
        self._most = max_files_per_trigger

    def read(self, spark: SparkSession) -> Outputs:
        options = {} if self._most is None else {"maxFilesPerTrigger": str(self._most)}
        return self._read(spark.readStream.options(**self._options, **options))

    def read_batch(self, spark: SparkSession) -> Outputs:
        """The files that are there now, as DataFrames that are no streams."""
        return self._read(spark.read.options(**self._options))

    def _read(self, reader: Any) -> Outputs:
        if isinstance(self._format, Parquet):
            return Outputs(
                {"main": reader.schema(self._format.columns()).parquet(self.path).select(*self._parquet_columns())}
            )
        return self._reading().outputs(self._lines(reader))

    def _parquet_columns(self) -> Iterator[Any]:
        yield from (F.col(quoted(name)) for name in self._format.columns().names)
        yield from (F.col("_metadata.file_path").alias(called) for called in self._columns.values())

    def _lines(self, reader: Any) -> DataFrame:
        # As text: Spark's own readers of JSON and CSV let through much that is malformed, or change it.
        own = [F.col(f"_metadata.{name}").alias(called) for name, called in _OWN.items()]
        raw: DataFrame = reader.text(self.path).select(F.col("value").cast("binary"), *own)
        return raw if isinstance(self._format, Text) else raw.where(F.trim(F.col("value").cast("string")) != "")

    def _reading(self) -> Reading:
        return Reading(
            kind="Files",
            source=repr(self.path),
            format=self._format,
            own=StructType([StructField("file", spark_types.StringType()), StructField("block", spark_types.LongType())]),
            kept=self._columns,
            letter=["file", "value"],
            on_malformed=self._on_malformed,
            event_time=self._event_time,
            more=["block"] if isinstance(self._format, Csv) else [],
        )

    def __repr__(self) -> str:
        return f"Files({self.path!r}, {type(self._format).__name__})"


def _problems(format: Any, columns: Any, most: Any) -> Iterator[str]:
    if not isinstance(format, (Json, Csv, Text, Parquet)):
        yield f"The format is {format!r}; give hf.sources.Json(schema), Csv(schema), Text() or Parquet(schema)."
    if columns is not None and (not isinstance(columns, Mapping) or {*columns} - {"file"}):
        yield f"columns is {columns!r}; the only one is the file's path: columns={{'file': 'name'}}."
    if most is not None and (type(most) is not int or most < 1):
        yield f"max_files_per_trigger is {most!r}; give a whole number from 1 on."
