"""Parquet files, one directory for each micro-batch.

    path/_holdfast.json     whose micro-batches these are: {"format": 1, "query_id": "…", "taken_back": {"micro_batch":
                            n, "plan": "…"}}, the latter being the first that a take-over has removed
    path/batch_id=<n>/      the rows of a micro-batch; and its plan in _holdfast_plan, written after them
    path/batch_id=-1/       no rows, only the schema, until the first micro-batch

Invariants
- All rows belong to one query, named by `_holdfast.json`, which is written before its first micro-batch. If two queries
  come at the same time, only one gets the path.
- There is no micro-batch after the one written last. After a checkpoint was rolled back, later ones block the sink until
  the user allows their removal.
- A micro-batch is written only if the one before it is of this checkpoint, or its plan is not known: older versions noted
  none, and a crash may come between rows and plan.
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
from holdfast.spark.sinks.succession import TAKE_OVER_AGAIN, TAKEN_OVER, other_job, was_taken_back
from holdfast.spark.sinks.upsert import CAN_UPSERT, Upsert

__all__ = ["Parquet"]

_OWNER = "_holdfast.json"
_PLAN = "_holdfast_plan"
_COLUMN = "batch_id"
_SCHEMA_ONLY = -1
_BATCH = re.compile(rf"{_COLUMN}=(-?\d+)")


class Parquet(Sink):
    """Appends: writes `path/batch_id=<n>/`, replacing what a failed attempt may have left there. It cannot upsert.

    Exactly-once: a micro-batch that comes again replaces itself. Read the rows with `spark.read.parquet(path)`, where
    `batch_id` is a column. A path belongs to one query, that is, to one checkpoint and what is restored from it; any other
    is refused. `take_over=True` gives the path to this job: existing micro-batches are removed from the next one on, or all
    of them if they belong to another query. It holds for the first micro-batch after the job's start only.
    """

    evaluates_all = True

    def __init__(self, path: str | Path, *, take_over: bool = False) -> None:
        if not isinstance(path, (str, Path)) or not str(path):
            raise InvalidStep.of("Parquet", [f"path is {path!r}; give the path of a directory."])
        self.path = str(path)
        self._take_over = take_over
        self._checked: str | None = None
        """The query for which the path has been checked."""
        self._begun: str | None = None
        """The query for which a micro-batch was written, be it before the job was started again."""
        self._last: tuple[int, str] | None = None
        """The micro-batch that was written last since then, with its plan."""

    def upserting(self, upsert: Upsert) -> Sink:
        cannot = f"{self!r} cannot upsert: a Parquet file is never changed. Use {CAN_UPSERT}, or leave out mode and key."
        raise InvalidStep.of_sink(self, [cannot])

    def open(self, spark: SparkSession, schema: StructType, query_id: str | None) -> None:
        _check_columns(self, schema)
        # The same object may serve another job, or one whose checkpoint was rolled back.
        self._checked = None
        files, root = self._place(spark)
        if not _may_be_directory(files, root):
            raise SinkError(f"{self.path!r} is a file; the sink needs a directory.", todo="give another path")
        owner = _owner(files, root)
        if owner is not None and owner != query_id and not self._may_take_over(query_id):
            raise self._stranger(owner)
        if not _batches(files, root):
            empty = spark.createDataFrame([], schema)
            empty.write.mode("overwrite").parquet(_directory(root, _SCHEMA_ONLY))

    def write_batch(self, rows: DataFrame, info: BatchInfo) -> None:
        files, root = self._place(rows.sparkSession)
        first = self._checked != info.query_id
        if first:
            _check_columns(self, rows.schema)
        self._claim(files, root, info, first)
        if not first:
            self._check_alone(files, root, info)
        rows.write.mode("overwrite").parquet(_directory(root, info.batch_id))
        files.write(join(_directory(root, info.batch_id), _PLAN), info.plan.encode())
        self._begun, self._last = info.query_id, (info.batch_id, info.plan)
        if first:
            files.remove(_directory(root, _SCHEMA_ONLY))
            self._checked = info.query_id

    def _place(self, spark: SparkSession) -> tuple[Files, str]:
        """The path as Spark resolves it, so that our own file lies beside the rows."""
        root = HadoopFiles(spark).qualified(self.path)
        return files_of(spark, root), root

    def _claim(self, files: Files, root: str, info: BatchInfo, first: bool) -> None:
        """Makes sure that the path is this query's, and that no later micro-batches are there."""
        owner = _owner(files, root)
        if owner not in (None, info.query_id) and not self._may_take_over(info.query_id):
            raise self._stranger(str(owner))
        if first or owner != info.query_id:
            self._clear(files, root, info, owner)
        if owner is None and not files.create(join(root, _OWNER), _owned(info)):
            self._claim(files, root, info, first)
        elif owner not in (None, info.query_id):
            files.write(join(root, _OWNER), _owned(info))

    def _clear(self, files: Files, root: str, info: BatchInfo, owner: str | None) -> None:
        """Removes micro-batches that would be mixed with new ones, or refuses."""
        known, foreign = owner == info.query_id, owner not in (None, info.query_id)
        # If the owner is unknown: a job that resumes has written the one before; a new one starts at 0.
        begins = not known and info.batch_id == 0
        in_the_way = [n for n in _batches(files, root) if foreign or n > info.batch_id or (begins and n == 0)]
        if in_the_way and not self._may_take_over(info.query_id):
            raise self._taken_back(in_the_way, info) if known else self._stranger("")
        if known:
            self._check_before(files, root, info)
        if known and in_the_way:
            first = in_the_way[0]
            files.write(join(root, _OWNER), _owned(info, first, _plan(files, root, first) or ""))
        for number in reversed(in_the_way):
            files.remove(_directory(root, number))

    def _check_before(self, files: Files, root: str, info: BatchInfo) -> None:
        """Makes sure that the micro-batches before the next one are this checkpoint's."""
        before = [number for number in _batches(files, root) if number < info.batch_id]
        if not before:
            return
        newest = before[-1]
        removed, plan = _taken_back(files, root)
        if not _is_same(_plan(files, root, newest), info.planned(newest)) or was_taken_back(
            info, newest, removed, lambda planned: bool(plan) and plan == planned
        ):
            raise other_job(self, info, newest)

    def _may_take_over(self, query_id: str | None) -> bool:
        # Later on, a process that was taken for dead could remove what its successor has written.
        return self._take_over and (query_id is None or self._begun != query_id)

    def _check_alone(self, files: Files, root: str, info: BatchInfo) -> None:
        """Makes sure that nobody has written since this sink has."""
        if self._last is None:
            return
        number, plan = self._last
        # A change of partitions, which another job may have begun with, takes one number.
        ahead = _plan(files, root, info.batch_id + 1) is not None
        if ahead or _plan(files, root, number) != plan or not _is_same(_plan(files, root, info.batch_id), info.plan):
            raise other_job(self, info, max(_batches(files, root), default=number))

    def _stranger(self, owner: str) -> SinkError:
        of = f"the query {owner}" if owner else "an unknown query"
        return SinkError(
            f"{self.path!r} has the rows of {of}, not of this one.",
            detail="A new checkpoint makes a new query. Its micro-batches have the same numbers and would replace these.",
            todo="give another path; or resume with the checkpoint that wrote it; or, if those rows may be deleted, "
            "start once with hf.sinks.Parquet(path, take_over=True)",
        )

    def _taken_back(self, later: list[int], info: BatchInfo) -> SinkError:
        detail = "The checkpoint was rolled back. New rows would be mixed with those written before."
        todo = (
            f"start once with hf.sinks.Parquet(path, take_over=True), which removes those from {min(later)} on; or give "
            "another path"
        )
        if self._take_over:
            detail += TAKEN_OVER
            todo = TAKE_OVER_AGAIN
        return SinkError(
            f"{self.path!r} has micro-batches up to {max(later)} of this query, but {info.batch_id} comes next.",
            detail=detail,
            todo=todo,
            context={"query": info.query_id, "micro_batch": info.batch_id},
        )

    @property
    def place(self) -> Hashable:
        return "parquet", normalised(self.path)

    def __repr__(self) -> str:
        return f"Parquet({self.path!r})"


def _directory(root: str, number: int) -> str:
    return join(root, f"{_COLUMN}={number}")


def _check_columns(sink: Parquet, schema: StructType) -> None:
    taken = [name for name in schema.names if name.lower() == _COLUMN]
    if taken:
        problem = f"The rows have a column {taken[0]!r}, a name that the sink needs for its directories; rename it."
        raise InvalidStep.of_sink(sink, [problem])


def _plan(files: Files, root: str, number: int) -> str | None:
    """The plan of a micro-batch that is there; None if it has none."""
    content = files.read(join(_directory(root, number), _PLAN))
    return None if content is None else content.decode(errors="replace")


def _is_same(plan: str | None, other: str) -> bool:
    """Whether two plans are the same. What is unknown counts as the same."""
    return plan == other or not plan or not other


def _owned(info: BatchInfo, taken_back: int = -1, plan: str = "") -> bytes:
    """What the file says of whose rows these are, and which micro-batch was taken back last."""
    content = {"format": 1, "query_id": info.query_id}
    if taken_back >= 0:
        content["taken_back"] = {"micro_batch": taken_back, "plan": plan}
    return json.dumps(content).encode()


def _taken_back(files: Files, root: str) -> tuple[int, str]:
    """The first micro-batch that the last take-over has removed, and its plan; -1 if there was none."""
    found = json.loads(files.read(join(root, _OWNER)) or b"{}").get("taken_back", {})
    return int(found.get("micro_batch", -1)), str(found.get("plan", ""))


def _owner(files: Files, root: str) -> str | None:
    content = files.read(join(root, _OWNER))
    if content is None:
        return None
    try:
        return str(json.loads(content)["query_id"])
    except (ValueError, KeyError, TypeError):
        raise SinkError(
            f"{join(root, _OWNER)!r} is damaged: it does not name the query that owns the rows.",
            todo="remove it if the rows are this job's; the next micro-batch writes a new one",
        ) from None


def _may_be_directory(files: Files, root: str) -> bool:
    there = files.info(root)
    return there is None or there.is_directory


def _batches(files: Files, root: str) -> list[int]:
    """The numbers of the existing micro-batches."""
    names = [_BATCH.fullmatch(entry.name) for entry in files.entries(root) or ()]
    return sorted(number for number in (int(found[1]) for found in names if found is not None) if number >= 0)
