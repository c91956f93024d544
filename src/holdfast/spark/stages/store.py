"""The blobs of a key group in Spark's state store: one map variable, whose writes commit with the micro-batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql.types import BinaryType, StringType, StructField, StructType

__all__ = ["BLOB_KEY", "BLOB_VALUE", "SparkStore"]

BLOB_KEY = StructType([StructField("name", StringType(), False)])
BLOB_VALUE = StructType([StructField("blob", BinaryType(), False)])


class SparkStore:
    """A BlobStore over a MapState. Each call is a round trip to the JVM, so a bundle makes only a few."""

    def __init__(self, state: Any) -> None:
        self._state = state

    def get(self, name: str) -> bytes | None:
        value = self._state.getValue((name,))
        return None if value is None else bytes(value[0])

    def put(self, name: str, blob: bytes) -> None:
        self._state.updateValue((name,), (blob,))

    def remove(self, name: str) -> None:
        self._state.removeKey((name,))

    def items(self) -> Iterator[tuple[str, bytes]]:
        for key, value in self._state.iterator():
            yield key[0], bytes(value[0])
