"""Payloads: Arrow record batches as bytes, the form in which elements and outputs cross the shuffle and the operator.

A payload has a bounded size if single rows have: Spark gathers rows into Arrow batches by their number alone (see
`session`), including rows that hold payloads.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyarrow import ipc

__all__ = ["PAYLOAD_BYTES_MAX", "from_payload", "to_payloads"]

PAYLOAD_BYTES_MAX = 128 * 1024
"""About how large a payload gets; a single row may be larger."""

# Shuffled blocks are compressed by Spark itself.
_OPTIONS = ipc.IpcWriteOptions(compression=None)


def to_payloads(batch: pa.RecordBatch) -> list[bytes]:
    """The rows of a batch as payloads, in order; none for an empty one."""
    pieces = max(1, -(-batch.nbytes // PAYLOAD_BYTES_MAX))
    rows = max(1, -(-batch.num_rows // pieces))
    return [_to_payload(batch.slice(start, rows)) for start in range(0, batch.num_rows, rows)]


def _to_payload(batch: pa.RecordBatch) -> bytes:
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
