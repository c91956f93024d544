"""The files that Spark writes into a checkpoint: the fields we read, with their types.

    metadata                          {"id": …}
    offsets/<batch>, commits/<batch>  a version, a line of JSON; for offsets also a line for each source
    _metadata/v2/<batch>              a version, a line of JSON that contains another JSON text

Anything else raises CorruptState, or CheckpointError for an unknown version.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from holdfast.checkpoint.files.choice import Files, files_of, join
from holdfast.engine.stored.documents import Count, Malformed, check_form, read_document
from holdfast.errors import CheckpointError, CorruptState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "COPY",
    "FOREIGN",
    "LOG_VERSION",
    "METADATA_VERSION",
    "SHUFFLE_PARTITIONS",
    "Commit",
    "OffsetsHead",
    "OperatorMetadata",
    "OperatorProperties",
    "QueryMetadata",
    "check_query_files",
    "in_form",
    "log_lines",
    "number_of",
    "schema_name",
]

LOG_VERSION = "v1"
METADATA_VERSION = "v2"
SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
COPY = "restore it from a copy, or restore a savepoint"
FOREIGN = "use the version of Spark and Holdfast that wrote it"

_NUMBER = re.compile(r"[0-9]{1,18}")
_PLAIN_NAME = re.compile(r"(?!\.{1,2}$)[^/\\\x00-\x1f]+")
_Long = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class QueryMetadata(msgspec.Struct):
    id: str


class _Shuffle(msgspec.Struct):
    partitions: Count


class OffsetsHead(msgspec.Struct, rename={"watermark": "batchWatermarkMs", "timestamp": "batchTimestampMs"}):
    """The first line of a micro-batch's offsets."""

    watermark: _Long
    timestamp: _Long
    conf: dict[str, str] = {}

    @property
    def partitions(self) -> int | None:
        """Partitions of a shuffle, if the micro-batch records them."""
        given = self.conf.get(SHUFFLE_PARTITIONS)
        if given is None:
            return None
        number = number_of(given)
        return check_form({"partitions": number}, _Shuffle).partitions


class Commit(msgspec.Struct, rename={"watermark": "nextBatchWatermarkMs"}):
    watermark: _Long = 0


class _StateVariable(msgspec.Struct, rename={"name": "stateName", "kind": "stateVariableType", "expires": "ttlEnabled"}):
    name: str = ""
    kind: str = ""
    expires: bool = False


class OperatorProperties(msgspec.Struct, rename={"variables": "stateVariables", "time_mode": "timeMode"}):
    """An operator's own description of its state."""

    variables: list[_StateVariable] = []
    time_mode: str = ""


class _OperatorInfo(msgspec.Struct, rename={"name": "operatorName"}):
    name: str = "?"


class _StoreInfo(msgspec.Struct, rename={"partitions": "numPartitions", "schemas": "stateSchemaFilePaths"}):
    partitions: Count
    schemas: list[str] = []


class OperatorMetadata(
    msgspec.Struct, rename={"info": "operatorInfo", "stores": "stateStoreInfo", "properties": "operatorPropertiesJson"}
):
    """The description of an operator, valid from a micro-batch on."""

    info: _OperatorInfo
    stores: Annotated[list[_StoreInfo], msgspec.Meta(min_length=1)]
    properties: str | None = None

    def read_properties(self) -> OperatorProperties:
        return read_document(self.properties or "{}", OperatorProperties)


def number_of(name: str) -> int | None:
    """The number that is a file's name, as Spark writes it; None for any other name."""
    return int(name) if _NUMBER.fullmatch(name) else None


def log_lines(data: bytes, path: str, versions: tuple[str, ...] = (LOG_VERSION,)) -> list[str]:
    """The lines of one of Spark's log files after the first, which is its version."""
    lines = data.decode("utf-8", "replace").rstrip("\n").split("\n")
    if len(lines) < 2:
        raise CorruptState(f"{path!r} is damaged: it is cut short.", todo="go back to an earlier micro-batch")
    if lines[0] not in versions:
        raise CheckpointError(f"{path!r} has the version {lines[0]!r:.40}, which this Holdfast does not know.", todo=FOREIGN)
    return lines[1:]


@contextlib.contextmanager
def in_form(path: str, todo: str = "go back to an earlier micro-batch, or restore a savepoint") -> Iterator[None]:
    """Wraps the reading of a file: reports one with the wrong format as damaged."""
    try:
        yield
    except Malformed as error:
        raise CorruptState(f"{path!r} is damaged: {error}.", todo=todo) from None


def schema_name(path: str, written: str) -> str:
    """The name of a schema below its operator's schema folder, given the absolute path from the metadata."""
    name = written.rpartition("/_stateSchema/")[2]
    if not all(map(_PLAIN_NAME.fullmatch, name.split("/"))):
        raise CorruptState(f"{path!r} is damaged: it names a schema {written!r:.200}.", todo="restore a savepoint")
    return name


def check_query_files(spark: SparkSession | None, checkpoint: str) -> None:
    """Checks that the files Spark reads first are whole, before it is started."""
    files = files_of(spark, checkpoint)
    path = join(checkpoint, "metadata")
    data = files.read(path)
    if data is not None:
        with in_form(path, COPY):
            read_document(data, QueryMetadata)
    for log, form in (("offsets", OffsetsHead), ("commits", Commit)):
        _check_last(files, join(checkpoint, log), form)


def _check_last(files: Files, folder: str, form: type[Any]) -> None:
    numbers = [number for entry in files.entries(folder) or () if (number := number_of(entry.name)) is not None]
    if numbers:
        path = join(folder, str(max(numbers)))
        data = files.read(path)
        if data is not None:
            head = log_lines(data, path)[0]
            with in_form(path):
                read_document(head, form)
