"""The unpack stage: from the (tag, payload) rows of a step to the rows of one output."""

from __future__ import annotations

import html
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from holdfast.spark.stages.payload import from_payload

__all__ = ["Outputs", "unpack", "unpacked"]


def _unpacked(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for payload in batch.column(0):
            yield from from_payload(payload.as_buffer())


def unpacked(payloads: DataFrame, schema: StructType) -> DataFrame:
    """The rows in a column of payloads."""
    return payloads.mapInArrow(_unpacked, schema)


def unpack(packed: DataFrame, tag: str, schema: StructType, name: str) -> DataFrame:
    """The rows of one tag. The stage has a name, by which it is found in a plan."""

    def named(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return _unpacked(batches)

    named.__name__ = name
    payloads = packed.where(F.col("tag") == tag).select("payload")
    return payloads.mapInArrow(named, schema)


class Outputs:
    """The outputs of a step: one DataFrame a tag, as attributes and as items."""

    def __init__(self, frames: dict[str, DataFrame]) -> None:
        self._frames = frames

    def __getitem__(self, tag: str) -> DataFrame:
        if tag not in self._frames:
            raise KeyError(f"there is no output {tag!r}; there are {', '.join(self._frames)}")
        return self._frames[tag]

    def __getattr__(self, tag: str) -> DataFrame:
        if tag.startswith("_"):
            raise AttributeError(tag)
        try:
            return self[tag]
        except KeyError as error:
            raise AttributeError(error.args[0]) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._frames)

    def __len__(self) -> int:
        return len(self._frames)

    def __repr__(self) -> str:
        described = "; ".join(f"{tag}: {_columns(frame)}" for tag, frame in self._frames.items())
        return f"Outputs({described})"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{html.escape(tag)}</td><td>{html.escape(_columns(frame))}</td></tr>"
            for tag, frame in self._frames.items()
        )
        return f"<table><thead><tr><th>output</th><th>columns</th></tr></thead><tbody>{rows}</tbody></table>"


def _columns(frame: DataFrame) -> str:
    return ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in frame.schema.fields)
