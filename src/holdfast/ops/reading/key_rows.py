"""All state of a key and window as one row: the form in which state moves between key groups.

A row has the key's own columns, by which Spark finds its new key group, and the rest as bytes that need no decoding on the
way.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from holdfast.checkpoint.labels import labels_of_manifest, slot_of_manifest
from holdfast.engine.log.chain import HEAD
from holdfast.engine.log.head import Head
from holdfast.engine.state.key_group import KeyGroupState
from holdfast.engine.state.keys import key_of, slot_from_bytes, slot_to_bytes
from holdfast.engine.stored.evolution import MANIFEST
from holdfast.engine.stored.manifest import Evolution, manifest_bytes, reconcile
from holdfast.engine.stored.reading import Blobs, StoredLayout, read_group, write_group
from holdfast.ops.reading.blobs import StepRef, map_groups, rows_of
from holdfast.spark.errors.transport import carried
from holdfast.spark.stages.assign import key_column, key_label
from holdfast.spark.stages.processor import CLOCK, stored_time
from holdfast.spark.steps.seeding import BLOBS_SCHEMA, blob_table
from holdfast.spark.types.schemas import read_schema

__all__ = ["LogFacts", "key_columns", "labelled", "log_facts", "new_groups", "packed_frame", "unpacked"]

_REST = StructType(
    [
        StructField("slot", BinaryType(), False),
        StructField("window", BinaryType(), False),
        StructField("start", LongType(), False),
        StructField("packed", BinaryType(), False),
    ]
)


class LogFacts(NamedTuple):
    """What new key groups must know about the logs that their state comes from."""

    last: int
    """The highest number in any of them."""
    clock: bytes | None
    """The latest watermark that any of them has seen, for a step whose elements come from another step."""


def log_facts(blobs: DataFrame, path: str) -> LogFacts:
    """The facts of all key groups in blobs (label, name, blob)."""
    rows = rows_of(blobs.where(F.col("name").isin(HEAD, CLOCK)).select("name", "blob"), path)
    heads = [Head.decode(bytes(row.blob)).last for row in rows if row.name == HEAD]
    clocks = [bytes(row.blob) for row in rows if row.name == CLOCK]
    return LogFacts(max(heads, default=0), max(clocks, key=stored_time, default=None))


def key_columns(manifest: Mapping[str, Any]) -> StructType:
    """The columns k0, k1, … of a key, with their types."""
    schema = ", ".join(f"k{i} {column['type']}" for i, column in enumerate(manifest["key"]))
    return read_schema(schema, str(manifest["name"]))


def packed_frame(blobs: DataFrame, step: StepRef) -> DataFrame:
    """The rows of all keys and windows in blobs (label, name, blob), which come group by group."""
    schema = StructType([*key_columns(step.manifest).fields, *_REST.fields])
    target = step.manifest
    return map_groups(blobs, lambda label, found: _packed(found, target), schema)


def _packed(blobs: Blobs, target: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    group = read_group(blobs)
    # A key group written by older code can only be moved if the present code would accept it unchanged.
    reconcile(group.manifest, {**target, "key_groups": group.manifest["key_groups"]}, Evolution())
    single = len(target["key"]) == 1
    for data, window in group.state.windows.items():
        start = window.window.start.micros if hasattr(window.window, "start") else 0
        for slot in window.slots():
            key = key_of(slot)
            keys = (key,) if single else tuple(key)
            yield (*keys, slot_to_bytes(slot), data, start, window.pack(slot))


def labelled(rows: DataFrame, manifest: Mapping[str, Any]) -> DataFrame:
    """The rows with the label of the key group that each belongs to, in a step with this manifest."""
    fields = key_columns(manifest).fields
    hashed = [key_column(field.name, field.dataType) for field in fields]
    if manifest.get("parallel_over", "key") != "key":
        hashed.append(F.col("start"))
    return rows.withColumn("label", key_label(hashed, int(manifest["key_groups"]), slot_of_manifest(manifest)))


def new_groups(
    rows: DataFrame, manifest: Mapping[str, Any], facts: LogFacts, assemble: Callable[[pa.Table], KeyGroupState]
) -> DataFrame:
    """The blobs (label, name, blob) of all key groups of a step, made from labelled rows of their state.

    Every key group gets the manifest and the clock, even one without keys: a window that was closed in one key group must
    not be opened again in another.
    """
    data = manifest_bytes(manifest)
    origin = uuid.uuid4().bytes

    def build(key: Sequence[Any], table: pa.Table) -> pa.Table:
        with carried():
            return blob_table(key[0].as_py(), write_group(assemble(table), data, facts.last, origin).items())

    everywhere = {MANIFEST: data} if facts.clock is None else {MANIFEST: data, CLOCK: facts.clock}
    common = [(label, *blob) for label in labels_of_manifest(manifest) for blob in everywhere.items()]
    built = rows.groupBy("label").applyInArrow(build, BLOBS_SCHEMA)
    return built.unionByName(rows.sparkSession.createDataFrame(common, BLOBS_SCHEMA))


def unpacked(rows: pa.Table, manifest: Mapping[str, Any]) -> KeyGroupState:
    """The state in packed rows."""
    state = KeyGroupState(StoredLayout(manifest))
    columns = (rows[name].to_pylist() for name in ("slot", "window", "packed"))
    for slot, window, packed in zip(*columns, strict=True):
        state.window_of(window).unpack(slot_from_bytes(slot), packed)
    return state
