"""The pack stage: splits each task's rows by key group, so that the shuffle moves few large rows instead of many small ones.

It runs before the shuffle, on Arrow data, with NumPy and without a Python loop over rows. Rows of a key group keep their
order. The output is one row for each key group and chunk, or several if it is large:

    label INT, source INT, part INT, payload BINARY

`source` is the number of the task, `part` counts its rows, so that the step can process them in an order that does not
depend on which task was faster: a replay sees the same order. Where a replay may give the same rows to a task with another
number, as Kafka's connector does, the number is made from the task's first rows instead.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from holdfast.checkpoint.labels import labels
from holdfast.spark.errors.transport import carried
from holdfast.spark.stages.payload import to_payloads

__all__ = ["PACKED_SCHEMA", "chunks", "pack_function", "packed_rows", "payloads_by_label", "source_by_content"]

PACKED_SCHEMA = "label int, source int, part int, payload binary"

_ARROW = pa.schema([("label", pa.int32()), ("source", pa.int32()), ("part", pa.int32()), ("payload", pa.binary())])
_CHUNK_BYTES = 32 * 1024 * 1024
_ROWS_TOLD_APART = 16


def pack_function(
    key_groups: int,
    name: str,
    lift: Callable[[], Callable[[pa.RecordBatch], pa.RecordBatch]] | None = None,
    *,
    by_content: bool = False,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for `mapInArrow`: its input has the key group in the first column, and the rest is packed. `lift`, called
    in the worker, gives a function to apply to chunks first, if any. `by_content`: tasks have other numbers in a replay.

    The first task of a micro-batch also sends a beacon: an empty row for the key group with the label 0, which always
    exists. So that key group is opened whenever there is input, and a manifest that does not match is noticed before
    anything is committed.
    """

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        source = 0 if context is None else context.partitionId()
        if source == 0:
            yield packed_rows([(0, None)], source, -1)
        change = None if lift is None else lift()
        part = 0
        for chunk in chunks(batches):
            if by_content and part == 0:
                source = source_by_content(chunk)
            if change is not None:
                with carried():
                    chunk = change(chunk)
            rows = payloads_by_label(chunk, labels(key_groups))
            yield packed_rows(rows, source, part)
            part += len(rows)

    pack.__name__ = name
    return pack


def source_by_content(chunk: pa.RecordBatch) -> int:
    """A number for the task whose first rows these are, which depends on them alone: below those of all tasks that are
    counted, and different for different rows, but for one chance in two thousand million."""
    # As text by Arrow, not by Python, which has no word for some times.
    told = [column.to_string(window=_ROWS_TOLD_APART) for column in chunk.slice(0, _ROWS_TOLD_APART).columns]
    digest = hashlib.blake2b(repr((chunk.num_rows, told)).encode(errors="backslashreplace"), digest_size=4).digest()
    return -1 - (int.from_bytes(digest, "big") >> 1)


def payloads_by_label(chunk: pa.RecordBatch, group_labels: tuple[int, ...]) -> list[tuple[int, bytes]]:
    """The rows of a chunk as payloads, with the labels of their key groups."""
    # A stable sort of 16-bit numbers is a radix sort.
    groups = chunk.column(0).to_numpy().astype(np.uint16)
    order = np.argsort(groups, kind="stable")
    rest = chunk.select(list(range(1, chunk.num_columns))).take(pa.array(order))
    present, starts = np.unique(groups[order], return_index=True)
    ends = np.append(starts[1:], len(groups))
    return [
        (group_labels[group], payload)
        for group, start, end in zip(present.tolist(), starts.tolist(), ends.tolist(), strict=True)
        for payload in to_payloads(rest.slice(start, end - start))
    ]


def packed_rows(rows: Sequence[tuple[int, bytes | None]], source: int, part: int) -> pa.RecordBatch:
    """Packed rows with these labels and payloads; their parts are numbered from `part`."""
    row_labels, payloads = zip(*rows, strict=True)
    return pa.record_batch([row_labels, [source] * len(rows), range(part, part + len(rows)), payloads], schema=_ARROW)


def chunks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Gathers small batches into chunks that are worth splitting, without holding a whole task in memory."""
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if batch.num_rows:
            held.append(batch)
            size += batch.nbytes
        if size >= _CHUNK_BYTES:
            yield _joined(held)
            held, size = [], 0
    if held:
        yield _joined(held)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
