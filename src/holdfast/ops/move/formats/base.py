"""What a format of an export is."""

from __future__ import annotations

import abc
from collections.abc import Iterator
from typing import ClassVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from holdfast.checkpoint.files.choice import Files, join
from holdfast.checkpoint.files.paths import for_reader
from holdfast.errors import CheckpointError
from holdfast.spark.errors.transport import carried

__all__ = ["ChunkFormat", "ExportFormat"]

_CHUNKS = "cells long, data binary"
_CHUNK_ROWS_MAX = 10_000


class ExportFormat(abc.ABC):
    """Writes the rows of a step (`ops/reading/cell_rows.py`) into a folder, and reads what is there now."""

    name: ClassVar[str]

    def check(self) -> None:  # noqa: B027
        """Raises MissingExtra if it needs what is not installed."""

    @abc.abstractmethod
    def write(self, rows: DataFrame, files: Files, folder: str) -> int:
        """Writes rows; returns how many there are."""

    def read(self, spark: SparkSession, files: Files, folder: str, schema: StructType) -> DataFrame:
        """The rows in a folder. They should have this schema; whoever edited them may have given them another."""
        if not any(entry.name.endswith(f".{self.name}") for entry in files.entries(folder) or ()):
            raise CheckpointError(f"There are no files *.{self.name} in {folder!r}.", todo="export the state again")
        return self._read(spark, for_reader(folder), schema)

    @abc.abstractmethod
    def _read(self, spark: SparkSession, folder: str, schema: StructType) -> DataFrame:
        """The rows in a folder that has files, whose path is as Spark's readers want it."""


class ChunkFormat(ExportFormat):
    """A format that Spark does not write by itself: workers encode, and the driver writes a file for each chunk."""

    @abc.abstractmethod
    def encode(self, rows: pa.RecordBatch, schema: StructType) -> bytes:
        """A whole file with these rows."""

    def write(self, rows: DataFrame, files: Files, folder: str) -> int:
        schema, total, number = rows.schema, 0, -1
        files.make_directory(folder)
        for number, chunk in enumerate(rows.mapInArrow(self._encoder(schema), _CHUNKS).toLocalIterator()):
            files.write(join(folder, f"part-{number:05d}.{self.name}"), bytes(chunk.data))
            total += int(chunk.cells)
        if number < 0:
            files.write(join(folder, f"part-00000.{self.name}"), self.encode(_no_rows(schema), schema))
        return total

    def _encoder(self, schema: StructType) -> _Encoder:
        return _Encoder(self, schema)


class _Encoder:
    """What encodes in a worker."""

    def __init__(self, form: ChunkFormat, schema: StructType) -> None:
        self._form, self._schema = form, schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with carried():
            for batch in batches:
                for start in range(0, batch.num_rows, _CHUNK_ROWS_MAX):
                    rows = batch.slice(start, _CHUNK_ROWS_MAX)
                    data = self._form.encode(rows, self._schema)
                    yield pa.RecordBatch.from_pydict({"cells": pa.array([rows.num_rows]), "data": pa.array([data])})


def _no_rows(schema: StructType) -> pa.RecordBatch:
    from holdfast.spark.types.arrow import arrow_schema

    return pa.RecordBatch.from_pylist([], schema=arrow_schema(schema))
