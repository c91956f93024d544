"""Parquet files, one directory for each micro-batch.

    path/_holdfast.json     whose micro-batches these are: {"format": 1, "query_id": "…"}
    path/batch_id=<n>/      the rows of a micro-batch
    path/batch_id=-1/       no rows, only the schema; until there is a micro-batch

Invariants
- All rows are of one query: that of `_holdfast.json`, which is written before its first micro-batch. Of two queries that
  come at the same time, one gets it.
- There is no micro-batch after the one that was written last: where a checkpoint was taken back, what it had written beyond
  is in the way, until somebody says that it may go.
"""

from __future__ import annotations

import json
import re
from collections.abc import Hashable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from holdfast.checkpoint.files.choice import Files, files_of, join, normalised
from holdfast.checkpoint.files.hadoop import HadoopFiles
from holdfast.errors import InvalidStep, SinkError
from holdfast.spark.sinks.base import BatchInfo, Sink

__all__ = ["Parquet"]

_OWNER = "_holdfast.json"
_COLUMN = "batch_id"
_SCHEMA_ONLY = -1
_BATCH = re.compile(rf"{_COLUMN}=(-?\d+)")


class Parquet(Sink):
    """Writes `path/batch_id=<n>/`, replacing what an attempt that failed may have left there. Exactly once.

    Read it with `spark.read.parquet(path)`; the batch is then a column. A path belongs to one query, that is, to one
    checkpoint and what is restored from it; another one is refused. `take_over=True`: the path is this job's from now on;
    micro-batches that are there already, from the one on that it writes next, are removed; if they are of another query,
    all of them are.
    """

    evaluates_all = True

    def __init__(self, path: str | Path, *, take_over: bool = False) -> None:
        self.path = str(path)
        self._take_over = take_over
        self._checked: str | None = None
        """The query whose place has been looked at."""

    def open(self, spark: SparkSession, schema: StructType, query_id: str | None) -> None:
        _check_columns(schema)
        # The same object may serve another job, or one whose checkpoint was taken back.
        self._checked = None
        files, root = self._place(spark)
        if not _may_be_directory(files, root):
            raise SinkError(f"{self.path!r} is a file, and rows need a directory.", todo="give another path")
        owner = _owner(files, root)
        if owner is not None and owner != query_id and not self._take_over:
            raise self._stranger(owner)
        if not _batches(files, root):
            empty = spark.createDataFrame([], schema)
            empty.write.mode("overwrite").parquet(_directory(root, _SCHEMA_ONLY))

    def write_batch(self, rows: DataFrame, info: BatchInfo) -> None:
        files, root = self._place(rows.sparkSession)
        first = self._checked != info.query_id
        if first:
            _check_columns(rows.schema)
        self._claim(files, root, info, first)
        rows.write.mode("overwrite").parquet(_directory(root, info.batch_id))
        if first:
            files.remove(_directory(root, _SCHEMA_ONLY))
            self._checked = info.query_id

    def _place(self, spark: SparkSession) -> tuple[Files, str]:
        """The path as Spark takes it, wherever that is, so that our own file lies beside the rows."""
        root = HadoopFiles(spark).qualified(self.path)
        return files_of(spark, root), root

    def _claim(self, files: Files, root: str, info: BatchInfo, first: bool) -> None:
        """Sees to it that the place is this query's, and that nothing is in the way of what comes."""
        owner = _owner(files, root)
        if owner not in (None, info.query_id) and not self._take_over:
            raise self._stranger(str(owner))
        if first or owner != info.query_id:
            self._clear(files, root, info, owner)
        content = json.dumps({"format": 1, "query_id": info.query_id}).encode()
        if owner is None and not files.create(join(root, _OWNER), content):
            self._claim(files, root, info, first)
        elif owner not in (None, info.query_id):
            files.write(join(root, _OWNER), content)

    def _clear(self, files: Files, root: str, info: BatchInfo, owner: str | None) -> None:
        """Removes micro-batches that would be there beside those that come, or refuses."""
        known, foreign = owner == info.query_id, owner not in (None, info.query_id)
        # Where it is not known whose they are: a job that goes on has written the one before; a new one begins with 0.
        begins = not known and info.batch_id == 0
        in_the_way = [n for n in _batches(files, root) if foreign or n > info.batch_id or (begins and n == 0)]
        if in_the_way and not self._take_over:
            raise self._taken_back(in_the_way, info) if known else self._stranger("")
        for number in reversed(in_the_way):
            files.remove(_directory(root, number))

    def _stranger(self, owner: str) -> SinkError:
        of = f"the query {owner}" if owner else "a query that is not known"
        return SinkError(
            f"{self.path!r} has the rows of {of}, and this is another one.",
            detail="A new checkpoint makes a new query. Its micro-batches have the same numbers, and would replace these.",
            todo="give another path; or go on with the checkpoint that wrote it; or, if those rows may go, "
            "start once with hf.sinks.Parquet(path, take_over=True)",
        )

    def _taken_back(self, later: list[int], info: BatchInfo) -> SinkError:
        return SinkError(
            f"{self.path!r} has micro-batches up to {max(later)} of this query, and {info.batch_id} is to be written.",
            detail="The checkpoint was taken back. What comes now would be there beside what was written before.",
            todo=f"start once with hf.sinks.Parquet(path, take_over=True), which removes those from {min(later)} on; or "
            "give another path",
            context={"query": info.query_id, "micro_batch": info.batch_id},
        )

    @property
    def place(self) -> Hashable:
        return "parquet", normalised(self.path)

    def __repr__(self) -> str:
        return f"Parquet({self.path!r})"


def _directory(root: str, number: int) -> str:
    return join(root, f"{_COLUMN}={number}")


def _check_columns(schema: StructType) -> None:
    taken = [name for name in schema.names if name.lower() == _COLUMN]
    if taken:
        problem = f"The rows have a column {taken[0]!r}, which is what the sink calls its directories; rename it."
        raise InvalidStep("sink", [problem])


def _owner(files: Files, root: str) -> str | None:
    content = files.read(join(root, _OWNER))
    if content is None:
        return None
    try:
        return str(json.loads(content)["query_id"])
    except (ValueError, KeyError, TypeError):
        raise SinkError(
            f"{join(root, _OWNER)!r} is damaged: it does not say whose rows these are.",
            todo="remove it, if the rows are this job's; the next micro-batch then writes it anew",
        ) from None


def _may_be_directory(files: Files, root: str) -> bool:
    there = files.info(root)
    return there is None or there.is_directory


def _batches(files: Files, root: str) -> list[int]:
    """The numbers of the micro-batches that are there."""
    names = [_BATCH.fullmatch(entry.name) for entry in files.entries(root) or ()]
    return sorted(number for number in (int(found[1]) for found in names if found is not None) if number >= 0)
