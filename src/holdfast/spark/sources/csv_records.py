"""Lines of CSV: taken apart by Spark into texts, and each text read as the type of its column."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql import types as spark_types
from pyspark.sql.types import DataType, StructType

from holdfast.spark.sources.decoder import Decoder, Row
from holdfast.spark.sources.malformed import Malformed
from holdfast.spark.sources.record_types import converter, record_class

__all__ = ["CsvDecoder", "csv_problems"]

_NESTED = (StructType, spark_types.ArrayType, spark_types.MapType)
_LOST = "\ufffd"
"""What Spark puts in the place of bytes that are not UTF-8."""


def csv_problems(kind: DataType, where: str) -> list[str]:
    """Why a column cannot be in a line of CSV."""
    if isinstance(kind, _NESTED):
        return [f"The column {where!r} is {kind.simpleString()}, which a line of CSV cannot hold."]
    return []


class CsvDecoder(Decoder):
    """Reads what Spark has made of lines as rows of a schema: structs of the texts, and of the line if it has another number
    of them."""

    def __init__(self, schema: StructType, zone: str, separator: str) -> None:
        self._fields = [_Field(field, zone) for field in schema.fields]
        self._separator = separator

    def rows(self, values: pa.Array) -> list[Row | Malformed]:
        texts, lines = (column.to_pylist() for column in values.flatten())
        return [self._row(some, line) for some, line in zip(texts, lines, strict=True)]

    def raw(self, values: pa.Array) -> pa.Array:
        """The lines as bytes; of those that Spark has taken apart, a line with the same values."""
        texts, lines = (column.to_pylist() for column in values.flatten())
        known = [self._joined(some) if line is None else line for some, line in zip(texts, lines, strict=True)]
        return pa.array([line.encode() for line in known], pa.binary())

    def _row(self, texts: list[str | None], line: str | None) -> Row | Malformed:
        if line is not None:
            return Malformed(f"not a line of {len(self._fields)} values")
        try:
            return tuple(field.read(text) for field, text in zip(self._fields, texts, strict=True))
        except Malformed as error:
            return error

    def _joined(self, texts: list[str | None]) -> str:
        made = io.StringIO()
        csv.writer(made, delimiter=self._separator, lineterminator="").writerow(texts)
        return made.getvalue()


class _Field:
    def __init__(self, field: spark_types.StructField, zone: str) -> None:
        self._name = field.name
        self._nullable = field.nullable
        self._convert = converter(field.dataType, zone, "iso")
        self._decode = _reader(field.dataType)

    def read(self, text: str | None) -> Any:
        try:
            return self._read(text)
        except msgspec.ValidationError as error:
            reason = str(error).partition(" - at ")[0]
        except msgspec.DecodeError:
            reason = "Expected a number or a boolean, got another text"
        except Malformed as error:
            reason = error.reason
        raise Malformed(f"{reason} - at `$.{self._name}`")

    def _read(self, text: str | None) -> Any:
        if text is None:
            if not self._nullable:
                raise Malformed("Expected a value, got nothing")
            return None
        if _LOST in text:
            raise Malformed("not UTF-8, or with the character U+FFFD")
        value = self._decode(text)
        return value if self._convert is None else self._convert(value)


def _reader(kind: DataType) -> Callable[[str], Any]:
    """Reads a text: numbers and booleans as JSON writes them, the rest as the texts that JSON has for them."""
    if isinstance(kind, spark_types.StringType):
        return lambda text: text
    [field] = msgspec.structs.fields(record_class(StructType([spark_types.StructField("value", kind, False)]), "iso"))
    decoder = msgspec.json.Decoder(field.type)
    if isinstance(kind, spark_types.BooleanType):
        return lambda text: decoder.decode(text.lower())
    if isinstance(kind, spark_types.NumericType) and not isinstance(kind, spark_types.DecimalType):
        return lambda text: decoder.decode(text)
    return lambda text: msgspec.convert(text, field.type)
