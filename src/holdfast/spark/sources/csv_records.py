"""Lines of CSV (RFC 4180, a record a line): taken apart by Python's own reader, and each value read as the type of its
column."""

from __future__ import annotations

import contextlib
import csv
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql import types as spark_types
from pyspark.sql.types import DataType, StructType

from holdfast.errors import InputError
from holdfast.spark.sources.decoder import Decoder, Row
from holdfast.spark.sources.malformed import Malformed
from holdfast.spark.sources.record_types import converter, record_class
from holdfast.spark.sources.text_records import not_utf8

__all__ = ["CsvDecoder", "csv_problems", "without_headers"]

_VALUE_CHARACTERS_MAX = (1 << 31) - 1
_NESTED = (StructType, spark_types.ArrayType, spark_types.MapType)


def csv_problems(kind: DataType, where: str) -> list[str]:
    """Why a column cannot be in a line of CSV."""
    if isinstance(kind, _NESTED):
        return [f"The column {where!r} is {kind.simpleString()}, which a line of CSV cannot hold."]
    return []


class CsvDecoder(Decoder):
    """Reads lines as rows of a schema."""

    def __init__(self, schema: StructType, zone: str, separator: str) -> None:
        self._fields = [_Field(field, zone) for field in schema.fields]
        self._separator = separator

    def rows(self, values: pa.Array) -> list[Row | Malformed]:
        with _any_size():
            return [self._row(line) for line in values.to_pylist()]

    def _row(self, line: bytes) -> Row | Malformed:
        try:
            texts = _taken_apart(line, self._separator)
            if len(texts) != len(self._fields):
                return Malformed(f"{len(texts)} values in place of {len(self._fields)}")
            return tuple(field.read(text) for field, text in zip(self._fields, texts, strict=True))
        except Malformed as error:
            return error


def without_headers(batches: Iterator[pa.RecordBatch], names: Sequence[str], separator: str) -> Iterator[pa.RecordBatch]:
    """The lines that are not the first of their file. `file` and `block` say where each is from: those of a piece of a file,
    which begins at `block`, come one after the other. Raises InputError if the first one has other names."""
    last = None
    for batch in batches:
        keep = []
        for line, file, block in zip(*(batch.column(name).to_pylist() for name in ("value", "file", "block")), strict=True):
            is_header = block == 0 and (file, block) != last
            if is_header:
                _check_header(line, file, names, separator)
            keep.append(not is_header)
            last = (file, block)
        yield batch.filter(pa.array(keep, pa.bool_()))


def _check_header(line: bytes, file: str, names: Sequence[str], separator: str) -> None:
    try:
        with _any_size():
            found = _taken_apart(line, separator)
    except Malformed:
        found = []
    if [name.strip() for name in found] != list(names):
        raise InputError(
            f"The first line of {file!r} does not have the names of the columns.",
            detail=f"They are {separator.join(names)}.",
            todo="correct the file, or the schema; if files have no such line, leave out header=True",
        )


def _taken_apart(line: bytes, separator: str) -> list[str]:
    try:
        [texts] = csv.reader([line.decode()], delimiter=separator, strict=True)
    except UnicodeDecodeError as error:
        raise Malformed(not_utf8(error)) from None
    except (csv.Error, ValueError) as error:
        raise Malformed(f"not a line of CSV: {error}") from None
    return texts


@contextlib.contextmanager
def _any_size() -> Iterator[None]:
    """Values can be of any size in this block. The limit is one of the process, in which other code runs too."""
    limit = csv.field_size_limit(_VALUE_CHARACTERS_MAX)
    try:
        yield
    finally:
        csv.field_size_limit(limit)


class _Field:
    def __init__(self, field: spark_types.StructField, zone: str) -> None:
        self._name = field.name
        self._nullable = field.nullable
        self._convert = converter(field.dataType, zone, "iso")
        self._decode = _reader(field.dataType)

    def read(self, text: str) -> Any:
        try:
            if text:
                value = self._decode(text)
                return value if self._convert is None else self._convert(value)
            if self._nullable:
                return None
            reason = "Expected a value, got nothing"
        except msgspec.ValidationError as error:
            reason = str(error).partition(" - at ")[0]
        except msgspec.DecodeError:
            reason = "Expected a number or a boolean, got another text"
        except Malformed as error:
            reason = error.reason
        raise Malformed(f"{reason} - at `$.{self._name}`")


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
