"""JSON records: read by msgspec, one pass over each, strictly by RFC 8259 and by the schema.

Many small records are read with one call, as the items of one array, which takes half as long. Between any two of them is a
token that nobody outside this process knows. The call has read each record as a whole, and nothing else, exactly if the
result is record, token, record, ... with all tokens at the top: a record that ends too early swallows a token, one that
goes on after its end is an item too many, and no other record can make up for either. If the result is anything else, each
record is read by itself. So what becomes of a record never depends on its neighbours.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql.types import StructType

from holdfast.spark.sources.decoder import Decoder, Row
from holdfast.spark.sources.malformed import Malformed
from holdfast.spark.sources.record_types import Times, converter, record_class
from holdfast.spark.sources.text_records import not_utf8

__all__ = ["JsonDecoder"]

_TOGETHER_BYTES_MAX = 1 << 18
"""About how many bytes of records are read with one call."""


class JsonDecoder(Decoder):
    """Reads values as rows of a schema."""

    def __init__(self, schema: StructType, zone: str, times: Times) -> None:
        self._record = record_class(schema, times)
        self._one = msgspec.json.Decoder(self._record)
        self._many: msgspec.json.Decoder[list[Any]] = msgspec.json.Decoder(list[self._record | str])  # type: ignore[name-defined]
        self._token = secrets.token_hex(16)
        self._between = f',"{self._token}",'.encode()
        converters = [(field.name, converter(field.dataType, zone, times)) for field in schema.fields]
        self._converters = [(number, *each) for number, each in enumerate(converters) if each[1] is not None]

    def rows(self, values: pa.Array) -> list[Row | Malformed]:
        records: list[bytes] = values.to_pylist()
        if not _is_utf8(values):
            return [self._row(record) for record in records]
        return [row for some in _portions(records) for row in self._rows(some)]

    def _rows(self, records: Sequence[bytes]) -> Sequence[Row | Malformed]:
        if len(records) > 1:
            together = self._together(records)
            if together is not None:
                return together
        return [self._row(record) for record in records]

    def _together(self, records: Sequence[bytes]) -> Sequence[Row] | None:
        """The rows of several records, if all of them are well-formed."""
        try:
            items = self._many.decode(b"[" + self._between.join(records) + b"]")
            tokens, read = items[1::2], items[::2]
            if (
                len(read) != len(records)
                or tokens.count(self._token) != len(records) - 1
                or {*map(type, read)} != {self._record}
            ):
                return None
            return (
                [self._converted(record) for record in read] if self._converters else [*map(msgspec.structs.astuple, read)]
            )
        except (msgspec.MsgspecError, Malformed, RecursionError, UnicodeDecodeError):
            return None

    def _row(self, value: bytes) -> Row | Malformed:
        try:
            value.decode()
            return self._converted(self._one.decode(value))
        except UnicodeDecodeError as error:
            return Malformed(not_utf8(error))
        except msgspec.ValidationError as error:
            return Malformed(str(error))
        except msgspec.DecodeError as error:
            return Malformed(f"not JSON: {error}")
        except RecursionError:
            return Malformed("not read: nested too deeply")
        except Malformed as error:
            return error

    def _converted(self, record: Any) -> Row:
        if not self._converters:
            return msgspec.structs.astuple(record)
        values = list(msgspec.structs.astuple(record))
        for number, name, convert in self._converters:
            if convert is not None and values[number] is not None:
                try:
                    values[number] = convert(values[number])
                except Malformed as error:
                    raise Malformed(f"{error.reason} - at `$.{name}`") from None
        return tuple(values)


def _is_utf8(values: pa.Array) -> bool:
    try:
        values.cast(pa.string())
    except pa.ArrowInvalid:
        return False
    return True


def _portions(records: list[bytes]) -> Iterator[list[bytes]]:
    """The records, in order, some at a time: of small ones many, of large ones one."""
    begin, size = 0, 0
    for end, record in enumerate(records):
        if size and size + len(record) > _TOGETHER_BYTES_MAX:
            yield records[begin:end]
            begin, size = end, 0
        size += len(record)
    if begin < len(records):
        yield records[begin:]
