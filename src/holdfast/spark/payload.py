"""Payloads: Arrow record batches as bytes, the form in which elements and outputs cross the shuffle and the operator."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyarrow import ipc

__all__ = ["from_payload", "to_payload"]

# Shuffled blocks are compressed by Spark itself.
_OPTIONS = ipc.IpcWriteOptions(compression=None)


def to_payload(batch: pa.RecordBatch) -> bytes:
    """The bytes of an Arrow stream with this one batch."""
    sink = pa.BufferOutputStream()
    with ipc.new_stream(sink, batch.schema, options=_OPTIONS) as writer:
        writer.write_batch(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def from_payload(data: bytes) -> Iterator[pa.RecordBatch]:
    """The batches of a payload."""
    with ipc.open_stream(data) as reader:
        yield from reader
