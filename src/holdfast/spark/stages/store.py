"""The blobs of a key group in Spark's state store: one map variable, whose writes commit with the micro-batch.

`store_of` gives the faster of two stores that do the same: `PipelinedStore` where it knows this version of Spark,
else `SparkStore`, which makes Spark's public calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from holdfast.engine.log.store import BlobStore

__all__ = ["BLOB_KEY", "BLOB_VALUE", "GroupStore", "SparkStore"]

BLOB_KEY = StructType([StructField("name", StringType(), False)])
BLOB_VALUE = StructType([StructField("blob", BinaryType(), False)])


class GroupStore(BlobStore, Protocol):
    """The store of whichever key group is being processed, and its timers. One object serves a whole task."""

    def begin(self, names: Iterable[str]) -> None:
        """Called when Spark has turned to another key group, with the names of blobs that will be read first."""

    def end(self) -> None:
        """Called when the key group has been processed: everything written is on its way."""

    def register_timer(self, millis: int) -> None: ...

    def delete_timer(self, millis: int) -> None: ...


class SparkStore:
    """A GroupStore over a MapState. Each call is a round trip to the JVM, so a bundle makes only a few."""

    def __init__(self, handle: Any, state: Any) -> None:
        self._handle = handle
        self._state = state

    def begin(self, names: Iterable[str]) -> None:
        """Nothing to prepare."""

    def end(self) -> None:
        """Nothing waits: each call has been answered."""

    def expect(self, names: Iterable[str]) -> None:
        """Spark reads one value at a time."""

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

    def register_timer(self, millis: int) -> None:
        self._handle.registerTimer(millis)

    def delete_timer(self, millis: int) -> None:
        self._handle.deleteTimer(millis)
