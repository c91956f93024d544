"""Records that are a text, or just bytes."""

from __future__ import annotations

import pyarrow as pa

from holdfast.spark.sources.decoder import Decoder, Row
from holdfast.spark.sources.malformed import Malformed

__all__ = ["RawDecoder", "TextDecoder", "not_utf8"]


class TextDecoder(Decoder):
    """Reads values as rows of one text."""

    def rows(self, values: pa.Array) -> list[Row | Malformed]:
        return [_text(value) for value in values.to_pylist()]


class RawDecoder(Decoder):
    """Reads values as rows of what they are."""

    def rows(self, values: pa.Array) -> list[Row | Malformed]:
        return [(value,) for value in values.to_pylist()]


def _text(value: bytes) -> Row | Malformed:
    try:
        return (value.decode(),)
    except UnicodeDecodeError as error:
        return Malformed(not_utf8(error))


def not_utf8(error: UnicodeDecodeError) -> str:
    """The reason, without what the bytes are."""
    return f"not UTF-8: {error.reason} at byte {error.start}"
