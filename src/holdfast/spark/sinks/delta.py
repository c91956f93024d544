"""A Delta table, written with the library deltalake: it needs neither Delta's jars nor a JVM."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from holdfast.errors import InvalidStep, SinkError
from holdfast.spark.sinks.base import BatchInfo, Sink
from holdfast.spark.sinks.delta_access import TableAccess, columns_of, require_deltalake
from holdfast.spark.sinks.delta_fits import check_values, delta_fields, differences, nullable, row_problems
from holdfast.spark.sinks.delta_history import NoWayBack, version_before
from holdfast.spark.sinks.delta_merge import merge
from holdfast.spark.sinks.delta_notes import Upserted, Written, noted_commit, taken_back, written
from holdfast.spark.sinks.delta_storage import Storage
from holdfast.spark.sinks.succession import TAKE_OVER_AGAIN, TAKEN_OVER, Succession, other_job, was_taken_back
from holdfast.spark.sinks.upsert import Upsert
from holdfast.spark.types.arrow import arrow_type

if TYPE_CHECKING:
    from deltalake import DeltaTable

__all__ = ["Delta"]


class Delta(Sink):
    """Writes to a Delta table, which is created when the job starts if it is missing. Exactly-once: the rows of a
    micro-batch and its transaction ids are one commit, and a micro-batch that the table has is skipped, even if two
    processes write it at the same time. One without rows makes no commit.

    The rows of a micro-batch pass through the driver's memory. An existing table must have the same columns as the rows, of
    the same types. `partition_by`: columns by which a new table is partitioned. `storage_options` are deltalake's, and
    `storage_options_file` names a JSON file with more of them, which is read for each micro-batch; deltalake also reads
    the environment, such as AWS_SECRET_ACCESS_KEY. None of them is ever shown.

    Append: several queries may write to one table; each has its own micro-batches.

    Upsert: each row replaces the one with its key, by MERGE. The table belongs to one query, and all its rows are of it: one
    that has other rows is refused, and so are another query, another key, and appending. In a key, -0.0 is written as 0.0.

    `take_over=True`: if the checkpoint was rolled back, the table is restored to the version before the micro-batch that
    comes next, which is exact in both modes. This is refused if others have changed the table since, or if that version
    has been vacuumed. If an upserted table is another query's, all its rows are deleted. Without `take_over` both are
    errors. It holds for the first micro-batch after the job's start only.
    """

    evaluates_all = True

    def __init__(
        self,
        path: str | Path,
        *,
        partition_by: str | Sequence[str] = (),
        storage_options: Mapping[str, str] | None = None,
        storage_options_file: str | Path | None = None,
        take_over: bool = False,
    ) -> None:
        require_deltalake("hf.sinks.Delta")
        self.path = str(path)
        self._access = TableAccess(Storage(path, storage_options, storage_options_file), repr(self))
        self._partition_by = _names(partition_by)
        self._take_over = take_over
        self._begun = False
        """Whether this sink has written a micro-batch: also before the job was started again after a failure."""
        self._upsert: Upsert | None = None
        self._succession = Succession()

    def upserting(self, upsert: Upsert) -> Delta:
        same = copy.copy(self)
        same._upsert = upsert
        same._succession = Succession()
        return same

    @property
    def place(self) -> Hashable:
        return "delta", self._access.storage.place

    def __repr__(self) -> str:
        return f"Delta({self.path!r})"

    def open(self, spark: SparkSession, schema: StructType, query_id: str | None) -> None:
        self._begun = self._succession.has_begun(query_id)
        self._succession.start_again()
        rows = _arrow_schema(self, schema)

        def check() -> None:
            table = self._table(rows)
            upserted = self._check_mode(table)
            if upserted is not None and upserted.query_id not in (None, query_id) and not self._take_over:
                raise self._stranger(upserted.query_id)

        self._access.attempt(check)

    def write_batch(self, rows: DataFrame, info: BatchInfo) -> None:
        held = rows.toArrow()
        newest = held if self._upsert is None else self._upsert.newest(held)
        self._access.attempt(lambda: self._write(newest, info))
        self._begun = True

    def _write(self, rows: pa.Table, info: BatchInfo) -> None:
        """Writes a micro-batch with what the table is now. Raises Conflict if it has become another meanwhile."""
        table = self._table(rows.schema)
        self._check_mode(table)
        self._claim(table, info)
        has, comes = written(table, info.query_id), Written.of(info)
        if not has.is_same(comes):
            if has.number >= comes.number:
                has = self._go_back(table, has, info)
            elif has.number >= 0:
                self._succession.check(self, info, has.number, has, lambda: has.is_of(info.planned(has.number)))
                removed = taken_back(table, info.query_id)
                if was_taken_back(info, has.number, removed.number, removed.is_surely_of):
                    raise other_job(self, info, has.number)
            if rows.num_rows:
                self._put(table, rows, comes, info)
                has = comes
        self._succession.wrote(info.query_id, has)

    def _put(self, table: DeltaTable, rows: pa.Table, comes: Written, info: BatchInfo) -> None:
        from deltalake import write_deltalake

        check_values(rows, columns_of(table), table.metadata().partition_columns, repr(self))
        if self._upsert is not None:
            merge(table, rows, self._upsert, noted_commit(info.query_id, comes, micro_batch=info.batch_id))
            return
        # Rows that others append at the same time do not matter, so deltalake itself tries again.
        commit = noted_commit(info.query_id, comes, micro_batch=info.batch_id, retries=None)
        names = [field["name"] for field in columns_of(table)]
        write_deltalake(table, rows.select(names), mode="append", commit_properties=commit)

    def _table(self, rows: pa.Schema) -> DeltaTable:
        """The table, which fits the rows; a new one if there is none."""
        problems = [*row_problems(rows, self._partition_by)]
        if problems:
            raise InvalidStep.of_sink(self, problems)
        table = self._access.existing()
        if table is None:
            properties = {} if self._upsert is None else Upserted(self._upsert.key).property
            table = self._access.created(nullable(delta_fields(rows)), self._partition_by, properties)
        unfit = [*differences(delta_fields(rows), columns_of(table))]
        partitions = table.metadata().partition_columns
        if self._partition_by and self._partition_by != partitions:
            is_by, wanted = ", ".join(partitions) or "nothing", ", ".join(self._partition_by)
            unfit.append(f"It is partitioned by {is_by}, not by {wanted}.")
        if unfit:
            raise self._error("does not fit the rows.", detail="\n".join(unfit), todo="give another table, or alter it")
        return table

    def _check_mode(self, table: DeltaTable) -> Upserted | None:
        """How the table is upserted, if it is; raises SinkError if rows cannot be written as this sink does."""
        upserted = Upserted.of(table, repr(self))
        if self._upsert is None:
            if upserted is not None:
                raise SinkError(
                    f"{self!r} is upserted by the key {', '.join(upserted.key)}; rows cannot be appended to it.",
                    detail="It has one row for each key. Appended rows would be further ones, or be replaced.",
                    todo="write with mode='upsert' and this key; or give another table",
                )
            return None
        if upserted is not None and sorted(upserted.key) != sorted(self._upsert.key):
            raise self._error(f"is upserted by the key {', '.join(upserted.key)}, not by {self._upsert}.")
        if upserted is None and table.file_uris():
            raise self._error(
                "has rows that were not upserted; they cannot be from now on.",
                detail="A key may be in several of its rows, and which of them is the newest is not known.",
            )
        if table.metadata().configuration.get("delta.appendOnly", "").lower() == "true":
            raise self._error("can only be appended to: its property delta.appendOnly is true.")
        return upserted or Upserted(self._upsert.key)

    def _claim(self, table: DeltaTable, info: BatchInfo) -> None:
        """Makes an upserted table this query's; if it was another's, its rows are deleted first."""
        if self._upsert is None:
            return
        upserted = Upserted.of(table, repr(self))
        owner = None if upserted is None else upserted.query_id
        if upserted is not None and owner == info.query_id:
            return
        state = None
        if owner is not None:
            if not self._may_take_over:
                raise self._stranger(owner)
            table.delete(commit_properties=noted_commit(info.query_id, None))
            state = Written()
        table.alter.set_table_properties(
            Upserted(self._upsert.key, info.query_id).property,
            raise_if_not_exists=False,
            commit_properties=noted_commit(info.query_id, state),
        )

    @property
    def _may_take_over(self) -> bool:
        # Later on, a process that was taken for dead could undo what its successor has written.
        return self._take_over and not self._begun

    def _go_back(self, table: DeltaTable, has: Written, info: BatchInfo) -> Written:
        """Restores the table from before a micro-batch that comes anew, or refuses; returns what it then has."""
        if not self._may_take_over:
            raise self._taken_back(has.number, info)
        try:
            history, newest = table.history(), table.version()
            version = version_before(history, newest, info.query_id, info.batch_id)
            after = version_before(history, newest, info.query_id, info.batch_id + 1)
            return self._access.go_back(table, version, after, info.query_id, lambda kept: self._check_kept(kept, info))
        except NoWayBack as none:
            raise self._no_way_back(none, has.number, info) from None

    def _check_kept(self, kept: Written, info: BatchInfo) -> None:
        """Makes sure that the version to go back to has what this checkpoint has planned, and no more."""
        if kept.number >= info.batch_id:
            raise NoWayBack("its log does not go back so far")
        if kept.number >= 0 and not kept.is_of(info.planned(kept.number)):
            raise other_job(self, info, kept.number)

    def _taken_back(self, number: int, info: BatchInfo) -> SinkError:
        detail = "The checkpoint was rolled back. New rows would be mixed with those written before."
        todo = (
            "start once with hf.sinks.Delta(path, take_over=True), which restores the table from before "
            f"{info.batch_id}; or give another table"
        )
        if self._take_over:
            detail += TAKEN_OVER
            todo = TAKE_OVER_AGAIN
        return SinkError(
            f"{self!r} has micro-batches up to {number} of this query, but another {info.batch_id} comes next.",
            detail=detail,
            todo=todo,
            context={"query": info.query_id, "micro_batch": info.batch_id},
        )

    def _no_way_back(self, none: NoWayBack, number: int, info: BatchInfo) -> SinkError:
        restore = ""
        if none.version is not None:
            restore = (
                f"if what they did may be undone, call deltalake.DeltaTable(path).restore({none.version}), and start with "
                "take_over=True again; otherwise "
            )
        return SinkError(
            f"{self!r} has micro-batches up to {number} of this query, but another {info.batch_id} comes next, and the "
            f"table cannot go back: {none.why}.",
            todo=f"{restore}give another table",
            context={"query": info.query_id, "micro_batch": info.batch_id},
        )

    def _stranger(self, owner: str | None) -> SinkError:
        return self._error(
            f"has the rows of the query {owner}, not of this one.",
            detail="A new checkpoint makes a new query. It would put older values in the place of newer ones.",
            todo="give another table; or resume with the checkpoint that wrote it; or, if all rows of the table may be "
            "deleted, start once with hf.sinks.Delta(path, take_over=True)",
        )

    def _error(self, what: str, *, detail: str = "", todo: str = "give another table") -> SinkError:
        return SinkError(f"{self!r} {what}", detail=detail, todo=todo)


def _names(partition_by: str | Sequence[str]) -> list[str]:
    names = [partition_by] if isinstance(partition_by, str) else partition_by
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        raise InvalidStep.of("Delta", [f"partition_by is {partition_by!r}; give the name of a column, or a list of names."])
    return list(dict.fromkeys(names))


def _arrow_schema(sink: Delta, schema: StructType) -> pa.Schema:
    """Spark's columns as the rows will come."""
    fields, problems = [], []
    for field in schema.fields:
        try:
            fields.append(pa.field(field.name, arrow_type(field.dataType, strict=True), field.nullable))
        except InvalidStep:
            kind = field.dataType.simpleString()
            problems.append(f"The column {field.name!r} has the type {kind}, which cannot be in a Delta table; cast it.")
    if problems:
        raise InvalidStep.of_sink(sink, problems)
    return pa.schema(fields)
