"""Avro records: the binary encoding of one record, without a container; perhaps after the header that Confluent's tools
write: a zero and the number of a schema.

Avro's bytes say nothing of their schema. Those of another schema are mostly refused, but may happen to be readable.
"""

from __future__ import annotations

import io
import json
from typing import Any

import pyarrow as pa

from holdfast.errors import MissingExtra
from holdfast.spark.sources.avro_types import avro_converter, avro_fields
from holdfast.spark.sources.decoder import Decoder, Row
from holdfast.spark.sources.malformed import Malformed

__all__ = ["AvroDecoder", "parsed_schema"]

_CONFLUENT_BYTES = 5
_UNREADABLE = (EOFError, IndexError, KeyError, OverflowError, RecursionError, TypeError, UnicodeDecodeError, ValueError)
"""What fastavro raises for bytes that do not fit the schema."""


def parsed_schema(text: str) -> Any:
    """A schema as fastavro wants it. Raises fastavro's own errors, and MissingExtra without it."""
    try:
        import fastavro
    except ModuleNotFoundError:
        raise MissingExtra("hf.sources.Avro needs fastavro, which is not installed: pip install 'holdfast[avro]'") from None
    return fastavro.parse_schema(json.loads(text))


class AvroDecoder(Decoder):
    """Reads values as rows of a schema."""

    def __init__(self, schema: str, header: str | None) -> None:
        from fastavro import schemaless_reader

        self._read = schemaless_reader
        self._schema = parsed_schema(schema)
        self._skipped = 0 if header is None else _CONFLUENT_BYTES
        self._fields = [(field.name, avro_converter(field.dataType)) for field in avro_fields(self._schema).fields]

    def rows(self, values: pa.Array) -> list[Row | Malformed]:
        return [self._row(value) for value in values.to_pylist()]

    def _row(self, value: bytes) -> Row | Malformed:
        if self._skipped and (len(value) < _CONFLUENT_BYTES or value[0] != 0):
            return Malformed("not Avro with a Confluent header: it does not begin with a zero and four bytes")
        stream = io.BytesIO(value)
        stream.seek(self._skipped)
        try:
            record = self._read(stream, self._schema, None)
        except _UNREADABLE as error:
            said = f": {error}" if str(error) else ""
            return Malformed(f"not Avro of this schema: {type(error).__name__}{said}")
        if stream.tell() != len(value):
            return Malformed(f"not Avro of this schema: {len(value) - stream.tell()} bytes are left over")
        return self._converted(record)

    def _converted(self, record: Any) -> Row | Malformed:
        row = []
        for name, convert in self._fields:
            try:
                row.append(convert(record[name]))
            except Malformed as error:
                return Malformed(f"{error.reason} - at `$.{name}`")
        return tuple(row)
