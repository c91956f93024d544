"""The formats of records: which columns they give, and what is malformed."""

from __future__ import annotations

import abc
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import pyarrow as pa
from pyspark.sql import types as spark_types
from pyspark.sql.types import StructField, StructType

from holdfast.errors import InvalidStep, MissingExtra
from holdfast.spark.sources.avro_records import AvroDecoder, parsed_schema
from holdfast.spark.sources.avro_types import Unreadable, avro_fields
from holdfast.spark.sources.csv_records import CsvDecoder, csv_problems, without_headers
from holdfast.spark.sources.decoder import Decoder
from holdfast.spark.sources.json_records import JsonDecoder
from holdfast.spark.sources.record_types import Times, type_problems, zone_of
from holdfast.spark.sources.text_records import RawDecoder, TextDecoder
from holdfast.spark.types.schemas import Schema, read_schema

__all__ = ["Avro", "Csv", "Format", "Json", "Parquet", "Raw", "Text"]


class Format(abc.ABC):
    """How a record is written."""

    can_fail = True
    """Whether a record can be malformed."""

    def columns(self) -> StructType:
        """The columns that its records give. Raises InvalidStep if there are none that they could give. Needs a session."""
        try:
            schema = self._schema()
        except InvalidStep as error:
            raise InvalidStep.of(type(self).__name__, error.problems) from None
        names = [name.lower() for name in schema.names]
        problems = [f"Two columns have the name {name!r}." for name in dict.fromkeys(names) if names.count(name) > 1]
        problems += [problem for field in schema.fields for problem in self._problems(field)]
        if not schema.fields:
            problems.append("The schema has no columns.")
        if problems:
            raise InvalidStep.of(type(self).__name__, problems)
        return schema

    @abc.abstractmethod
    def decoder(self, schema: StructType, zone: str) -> Decoder:
        """What reads the records. `zone` is the session's time zone."""

    def records(self, batches: Iterator[pa.RecordBatch], names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """What of the batches are records."""
        return batches

    @abc.abstractmethod
    def _schema(self) -> StructType: ...

    def _problems(self, field: StructField) -> Iterator[str]:
        yield from ()


@dataclass(frozen=True)
class Json(Format):
    """A JSON object (RFC 8259), with the columns of `schema`: a DDL string, a StructType, a dataclass or a NamedTuple.

    Malformed is whatever is not UTF-8, not JSON, or goes on after its end; a value of another type, or that does not fit; a
    field that the schema says is NOT NULL, and that is null or missing. Nothing is converted: "5" is no int, 5 no string,
    and 1.5 does not fit decimal(10,0). Fields that the schema does not have are ignored. Of fields with the same name the
    last one counts. Binary columns are base64.

    `timestamps` says how timestamp columns are written: "iso" as texts such as "2026-03-01T10:20:30.5Z", or as whole numbers
    of "seconds", "milliseconds" or "microseconds" since 1970. A text without an offset is in `time_zone`, or in the
    session's. More than six digits of a second are rounded.
    """

    schema: Schema
    timestamps: Times = "iso"
    time_zone: str | None = None

    def __post_init__(self) -> None:
        problems = [*_zone_problems(self.time_zone)]
        if self.timestamps not in get_args(Times):
            problems.append(f"timestamps is {self.timestamps!r}; it is one of {', '.join(map(repr, get_args(Times)))}.")
        if problems:
            raise InvalidStep.of("Json", problems)

    def _schema(self) -> StructType:
        return read_schema(self.schema, "Json", what="schema")

    def _problems(self, field: StructField) -> Iterator[str]:
        yield from type_problems(field.dataType, field.name)

    def decoder(self, schema: StructType, zone: str) -> Decoder:
        return JsonDecoder(schema, self.time_zone or zone, self.timestamps)


@dataclass(frozen=True)
class Avro(Format):
    """One record in Avro's binary encoding, with a schema as JSON text, a dict, or the path of an `.avsc` file. Needs the
    extra `avro`.

    Malformed are bytes that do not fit the schema, too few or too many of them. Avro's bytes do not say which schema they
    have, so bytes of another one may happen to fit. `header="confluent"`: before each record are a zero and four bytes with
    the number of its schema, as Confluent's tools write them. They are skipped: the schema is always the given one.
    """

    schema: str | dict[str, Any] | Path
    header: Literal["confluent"] | None = None

    def __post_init__(self) -> None:
        if self.header not in (None, "confluent"):
            raise InvalidStep.of("Avro", [f"header is {self.header!r}; it is 'confluent' or None."])

    def _text(self) -> str:
        if isinstance(self.schema, dict):
            return json.dumps(self.schema)
        return self.schema.read_text(encoding="utf-8") if isinstance(self.schema, Path) else str(self.schema)

    def _schema(self) -> StructType:
        try:
            return avro_fields(parsed_schema(self._text()))
        except MissingExtra:
            raise
        except (Unreadable, Exception) as error:
            raise InvalidStep.of("Avro", [f"The schema cannot be read: {type(error).__name__}: {error}"]) from None

    def decoder(self, schema: StructType, zone: str) -> Decoder:
        return AvroDecoder(self._text(), self.header)


@dataclass(frozen=True)
class Text(Format):
    """A text, in the one column `column`. Malformed is what is not UTF-8."""

    column: str = "value"

    def _schema(self) -> StructType:
        return StructType([StructField(self.column, spark_types.StringType())])

    def decoder(self, schema: StructType, zone: str) -> Decoder:
        return TextDecoder()


@dataclass(frozen=True)
class Raw(Format):
    """Bytes, in the one column `column`. Nothing is malformed."""

    column: str = "value"
    can_fail = False

    def _schema(self) -> StructType:
        return StructType([StructField(self.column, spark_types.BinaryType())])

    def decoder(self, schema: StructType, zone: str) -> Decoder:
        return RawDecoder()


@dataclass(frozen=True)
class Csv(Format):
    """Lines of CSV (RFC 4180), in files: a record a line, with a value for each column. Values are read as strictly as those
    of `Json`. One that is empty is null.

    With `header=True` the first line of each file has the names of the columns. If they are others than the schema's, the
    values of the whole file would be in wrong columns: that fails the query.
    """

    schema: Schema
    header: bool = False
    separator: str = ","
    time_zone: str | None = None

    def __post_init__(self) -> None:
        problems = [*_zone_problems(self.time_zone)]
        if not isinstance(self.separator, str) or len(self.separator) != 1:
            problems.append(f"separator is {self.separator!r}; give one character.")
        if problems:
            raise InvalidStep.of("Csv", problems)

    def _schema(self) -> StructType:
        return read_schema(self.schema, "Csv", what="schema")

    def _problems(self, field: StructField) -> Iterator[str]:
        yield from csv_problems(field.dataType, field.name) or type_problems(field.dataType, field.name)

    def records(self, batches: Iterator[pa.RecordBatch], names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return without_headers(batches, names, self.separator) if self.header else batches

    def decoder(self, schema: StructType, zone: str) -> Decoder:
        return CsvDecoder(schema, self.time_zone or zone, self.separator)


@dataclass(frozen=True)
class Parquet(Format):
    """Parquet files, which have types of their own. Nothing is malformed; a damaged file fails the query."""

    schema: Schema
    can_fail = False

    def _schema(self) -> StructType:
        return read_schema(self.schema, "Parquet", what="schema")

    def decoder(self, schema: StructType, zone: str) -> Decoder:
        raise NotImplementedError("Spark itself reads Parquet")


def _zone_problems(zone: Any) -> Iterator[str]:
    try:
        if zone is not None:
            zone_of(zone)
    except (TypeError, ValueError):
        yield f"time_zone is {zone!r}; give the name of a time zone, such as 'Europe/Berlin'."
