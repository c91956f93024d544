"""Rows of an export as Avro: a record for each, whose key has the types of its columns; `value` is JSON, as text.

Names of columns that Avro does not allow are numbered, as `_1`, with the name as `doc`; columns go by their order.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as spark_types
from pyspark.sql.types import StructField, StructType

from holdfast.errors import InputError
from holdfast.model.extras import require_extra
from holdfast.ops.move.formats.base import ChunkFormat
from holdfast.spark.errors.transport import carried
from holdfast.spark.types.arrow import arrow_schema

__all__ = ["AvroFormat"]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TODO = "write the file with the schema of an export"
_AVRO: dict[type[spark_types.DataType], Any] = {
    spark_types.StringType: "string",
    spark_types.ByteType: "int",
    spark_types.ShortType: "int",
    spark_types.IntegerType: "int",
    spark_types.LongType: "long",
    spark_types.FloatType: "float",
    spark_types.DoubleType: "double",
    spark_types.BooleanType: "boolean",
    spark_types.BinaryType: "bytes",
    spark_types.DateType: {"type": "int", "logicalType": "date"},
    spark_types.TimestampType: {"type": "long", "logicalType": "timestamp-micros"},
    spark_types.TimestampNTZType: {"type": "long", "logicalType": "local-timestamp-micros"},
}
_UNREADABLE = (EOFError, IndexError, KeyError, OverflowError, TypeError, ValueError, pa.ArrowException)
"""What fastavro and Arrow raise for files that are damaged or have another schema."""


class AvroFormat(ChunkFormat):
    name = "avro"

    def check(self) -> None:
        require_extra("avro", "fastavro", (1, 9), "An export as Avro")

    def encode(self, rows: pa.RecordBatch, schema: StructType) -> bytes:
        import fastavro

        stream = io.BytesIO()
        records = (_named(record, schema) for record in rows.to_pylist())
        fastavro.writer(stream, fastavro.parse_schema(_record(schema, "Cell")), records, codec="deflate", strict=True)
        return stream.getvalue()

    def _read(self, spark: SparkSession, folder: str, schema: StructType) -> DataFrame:
        self.check()
        files = spark.read.format("binaryFile").option("pathGlobFilter", "*.avro").load(folder)
        return files.select("path", "content").mapInArrow(_Reader(schema), schema)


class _Reader:
    """What reads files in a worker."""

    def __init__(self, schema: StructType) -> None:
        self._schema = schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with carried():
            for batch in batches:
                for path, content in zip(*(batch.column(name).to_pylist() for name in ("path", "content")), strict=True):
                    yield self._rows(path, content)

    def _rows(self, path: str, content: bytes) -> pa.RecordBatch:
        import fastavro

        try:
            reader = fastavro.reader(io.BytesIO(content))
            _check_fields(reader.writer_schema, self._schema)
            rows = [_unnamed(record, self._schema) for record in reader]
            return pa.RecordBatch.from_pylist(rows, schema=arrow_schema(self._schema))
        except _UNREADABLE as error:
            raise InputError(f"The file {path!r} cannot be imported: {error or type(error).__name__}", todo=_TODO) from error


def _check_fields(written: Any, schema: StructType) -> None:
    wanted = [each["name"] for each in _record(schema, "Cell")["fields"]]
    found = [each["name"] for each in written.get("fields", ())] if isinstance(written, dict) else []
    if found != wanted:
        raise ValueError(f"its records have the fields {', '.join(found) or 'of no record'}, not {', '.join(wanted)}")


def _names(schema: StructType) -> list[str]:
    """The names of fields in Avro."""
    return [name if _NAME.fullmatch(name) else f"_{place + 1}" for place, name in enumerate(schema.names)]


def _record(schema: StructType, name: str) -> dict[str, Any]:
    pairs = zip(_names(schema), schema.fields, strict=True)
    return {"type": "record", "name": name, "fields": [_field(own, field, f"{name}_{own}") for own, field in pairs]}


def _field(own: str, field: StructField, record: str) -> dict[str, Any]:
    described = {"name": own, "type": ["null", _type(field.dataType, field.name, record)]}
    return described if own == field.name else {**described, "doc": field.name}


def _type(kind: spark_types.DataType, name: str, record: str) -> Any:
    if isinstance(kind, StructType):
        return _record(kind, record)
    if isinstance(kind, spark_types.ArrayType):
        return {"type": "array", "items": ["null", _type(kind.elementType, name, record)]}
    if isinstance(kind, spark_types.DecimalType):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    if type(kind) not in _AVRO:
        raise InputError(
            f"The column {name!r} of the key is {kind.simpleString()}, for which Avro has no type.",
            todo="export as Parquet or JSON",
        )
    return _AVRO[type(kind)]


def _named(value: Any, kind: spark_types.DataType) -> Any:
    """A value of Arrow with the names that it has in Avro."""
    if value is None:
        return None
    if isinstance(kind, StructType):
        parts = zip(_names(kind), kind.fields, strict=True)
        return {own: _named(value[field.name], field.dataType) for own, field in parts}
    if isinstance(kind, spark_types.ArrayType):
        return [_named(item, kind.elementType) for item in value]
    return value


def _unnamed(value: Any, kind: spark_types.DataType) -> Any:
    """The inverse of `_named`."""
    if value is None:
        return None
    if isinstance(kind, StructType):
        parts = zip(_names(kind), kind.fields, strict=True)
        return {field.name: _unnamed(value[own], field.dataType) for own, field in parts}
    if isinstance(kind, spark_types.ArrayType):
        return [_unnamed(item, kind.elementType) for item in value]
    return value
