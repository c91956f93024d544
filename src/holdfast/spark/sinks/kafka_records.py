"""Rows as records for Kafka, each with an id by which a consumer can tell that it has come again.

The id follows from the topic, the query, the micro-batch and its plan, what the record holds, and which one of equal
records it is. A micro-batch that comes again has the same records, but perhaps in another order and spread over other tasks.
So records are first brought together by their key, or without a key by what they hold: equal ones are then in one task,
which counts them. Within a key they keep the order of the rows.

    in    key BINARY, value BINARY, headers ARRAY<STRUCT<key STRING, value BINARY>>
    out   the same, and id STRING
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types
from pyspark.sql.types import DataType, StructType

from holdfast.spark.sinks.base import BatchInfo
from holdfast.spark.stages.assign import quoted

__all__ = ["ID_HEADER", "json_of", "marked", "record_columns"]

ID_HEADER = "holdfast-id"
"""The header with the id of a record."""

_HEADERS = "array<struct<key: string, value: binary>>"
_JSON = {
    "ignoreNullFields": "false",
    # Spark's own patterns leave out microseconds.
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
_PLACE = "place"
_NESTED = (StructType, spark_types.ArrayType, spark_types.MapType, spark_types.VariantType)


def record_columns(
    schema: StructType, key: str | Sequence[str] | None, value: str | Sequence[str] | None, headers: Mapping[str, str]
) -> list[Column]:
    """The columns of records, made of those of rows."""
    of_key = F.lit(None) if key is None else _bytes(key, schema)
    of_value = _bytes(schema.names if value is None else value, schema)
    pairs = [F.struct(F.lit(name).alias("key"), _bytes(column, schema).alias("value")) for name, column in headers.items()]
    return [
        of_key.cast("binary").alias("key"),
        of_value.alias("value"),
        F.array(*pairs).cast(_HEADERS).alias("headers"),
    ]


def _bytes(columns: str | Sequence[str], schema: StructType) -> Column:
    """One column as it is, or several as a JSON object."""
    if not isinstance(columns, str):
        return json_of(columns)
    kind = schema[columns].dataType
    if isinstance(kind, _NESTED):
        return F.to_json(F.col(quoted(columns)), _JSON).cast("binary")
    return _text(F.col(quoted(columns)), kind).cast("binary")


def _text(column: Column, kind: DataType) -> Column:
    return column if isinstance(kind, (spark_types.StringType, spark_types.BinaryType)) else column.cast("string")


def json_of(columns: Iterable[str]) -> Column:
    """The JSON object with these columns, as bytes. Nulls are in it too."""
    return F.to_json(F.struct(*(F.col(quoted(name)) for name in columns)), _JSON).cast("binary")


def marked(records: DataFrame, info: BatchInfo, topic: str, has_key: bool) -> DataFrame:
    """The records of a topic with their ids, as the last of their headers."""
    partitions = records.sparkSession.sparkContext.defaultParallelism
    content = F.xxhash64("value", "headers")
    together = F.when(F.col("key").isNull(), content).otherwise(F.xxhash64("key"))
    if has_key:
        records = records.withColumn(_PLACE, F.monotonically_increasing_id())
    spread = records.repartition(partitions, together)
    if has_key:
        spread = spread.sortWithinPartitions(_PLACE).drop(_PLACE)
    whence = f"{topic}\n{info.query_id}\n{info.batch_id}\n{info.plan}\n"
    numbered = spread.mapInArrow(_marking(whence), _with_id(spread.schema))
    own = F.array(F.struct(F.lit(ID_HEADER).alias("key"), F.col("id").cast("binary").alias("value")))
    return numbered.select("key", "value", F.concat("headers", own.cast(_HEADERS)).alias("headers"))


def _with_id(schema: StructType) -> StructType:
    return StructType([*schema.fields, spark_types.StructField("id", spark_types.StringType(), False)])


def _marking(whence: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def holdfast_mark(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        equal: Counter[bytes] = Counter()
        for batch in batches:
            ids = [_id(whence, record, equal) for record in zip(*(column.to_pylist() for column in batch), strict=True)]
            schema = batch.schema.append(pa.field("id", pa.string(), nullable=False))
            yield pa.RecordBatch.from_arrays([*batch.columns, pa.array(ids, pa.string())], schema=schema)

    return holdfast_mark


def _id(whence: str, record: Sequence[Any], equal: Counter[bytes]) -> str:
    digest = _digest(*record)
    number = equal[digest]
    equal[digest] += 1
    return hashlib.blake2b(whence.encode() + digest + str(number).encode(), digest_size=16).hexdigest()


def _digest(key: bytes | None, value: bytes | None, headers: list[dict[str, Any]]) -> bytes:
    """What a record holds, as a digest that differs if anything in it does."""
    hashed = hashlib.blake2b(digest_size=16)
    for part in (key, value, *(part for header in headers for part in (header["key"].encode(), header["value"]))):
        hashed.update(b"-" if part is None else b"%d:" % len(part) + part)
    return hashed.digest()
