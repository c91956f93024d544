"""Checkpoints of one query that are restored from each other, rescaled and killed, in any order, and write to one table.
After each micro-batch the table has exactly the rows of the checkpoint that wrote it, or the sink has refused and changed
nothing."""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import types as t

import holdfast as hf
from holdfast.spark.sinks import BatchInfo
from tiers import examples

SCHEMA = t.StructType([t.StructField("k", t.LongType())])


class Rows:
    """What a sink needs of a DataFrame."""

    def __init__(self, numbers):
        self._table = pa.table({"k": pa.array(list(numbers), pa.int64())})

    def toArrow(self):
        return self._table


@dataclass(frozen=True)
class Batch:
    plan: str
    rows: range


@dataclass
class Checkpoint:
    """What a sink sees of one: which micro-batches it has planned, of rows that are numbered in their order."""

    batches: dict[int, Batch] = field(default_factory=dict)
    committed: int = -1

    def plan_next(self, plan, size):
        """The number of the next micro-batch, which may have been planned before."""
        number = self.committed + 1
        begin = self.batches[self.committed].rows.stop if self.committed >= 0 else 0
        self.batches.setdefault(number, Batch(plan, range(begin, begin + size)))
        return number

    def restored(self, number, with_plan):
        kept = {n: batch for n, batch in self.batches.items() if n <= number + with_plan}
        return Checkpoint(kept, number)

    def planned(self, number):
        return self.batches[number].plan if number in self.batches else ""

    def rows_up_to(self, number):
        return sorted(row for n, batch in self.batches.items() if n <= number for row in batch.rows)


class Story:
    """Checkpoints, the sinks of jobs that run on them, and the table that all of them write to."""

    def __init__(self, place):
        self.place = place
        self.checkpoints = [Checkpoint()]
        self.running = {}
        self.plans = 0

    def do(self, what, which, number, flag, sizes):
        which %= len(self.checkpoints)
        checkpoint = self.checkpoints[which]
        if what == "restore":
            if checkpoint.committed >= 0:
                self.checkpoints.append(checkpoint.restored(number % (checkpoint.committed + 1), flag))
        elif what == "rescale":
            if checkpoint.committed >= 0 and checkpoint.committed + 1 not in checkpoint.batches:
                checkpoint.committed = checkpoint.plan_next(self.new_plan(), 0)
                self.running.pop(which, None)
        else:
            if what == "start":
                self.running.pop(which, None)
            self.run(which, flag, sizes, is_killed=number % 4 == 0)

    def run(self, which, take_over, sizes, is_killed):
        checkpoint = self.checkpoints[which]
        if which not in self.running:
            self.running[which] = self.place.sink(take_over)
            self.running[which].open(None, SCHEMA, "q" if checkpoint.committed >= 0 else None)
        for size in sizes:
            number = checkpoint.plan_next(self.new_plan(), size)
            batch, before = checkpoint.batches[number], self.place.read()
            try:
                self.running[which].write_batch(Rows(batch.rows), BatchInfo("q", number, batch.plan, checkpoint.planned))
            except hf.SinkError:
                assert self.place.read() == before
                del self.running[which]
                return
            assert self.place.read() == checkpoint.rows_up_to(number)
            if is_killed and size == sizes[-1]:
                # After the sink has written, and before Spark learns of it.
                del self.running[which]
                return
            checkpoint.committed = number

    def new_plan(self):
        self.plans += 1
        return f"plan {self.plans}"


class Sqlite:
    def __init__(self, folder):
        self.path = folder / "rows.db"

    def sink(self, take_over):
        return hf.sinks.Sqlite(self.path, "rows", take_over=take_over)

    def read(self):
        with closing(sqlite3.connect(self.path)) as database:
            names = [name for [name] in database.execute("SELECT name FROM sqlite_master")]
            return sorted(k for [k] in database.execute("SELECT k FROM rows")) if "rows" in names else []


class DuckDB:
    def __init__(self, folder):
        pytest.importorskip("duckdb")
        self.path = str(folder / "rows.duckdb")

    def sink(self, take_over):
        return hf.sinks.DuckDB(self.path, "rows", batch_column="batch", take_over=take_over)

    def read(self):
        import duckdb

        with duckdb.connect(self.path) as connection:
            there = connection.execute("SELECT 1 FROM duckdb_tables() WHERE table_name = 'rows'").fetchall()
            return sorted(k for [k] in connection.execute("SELECT k FROM rows").fetchall()) if there else []


class Delta:
    def __init__(self, folder):
        pytest.importorskip("deltalake")
        self.path = folder / "rows"

    def sink(self, take_over):
        return hf.sinks.Delta(self.path, take_over=take_over)

    def read(self):
        from deltalake import DeltaTable

        there = (self.path / "_delta_log").is_dir()
        return sorted(DeltaTable(self.path).to_pyarrow_table()["k"].to_pylist()) if there else []


STEPS = st.tuples(
    st.sampled_from(["start", "start", "go on", "go on", "restore", "rescale"]),
    st.integers(0, 3),
    st.integers(0, 9),
    st.booleans(),
    st.lists(st.integers(0, 3), min_size=1, max_size=3),
)


@pytest.mark.parametrize(
    "place",
    [
        Sqlite,
        pytest.param(DuckDB, marks=[pytest.mark.slow, pytest.mark.night]),
        pytest.param(Delta, marks=pytest.mark.night),
    ],
)
@settings(max_examples=examples(40))
@given(steps=st.lists(STEPS, min_size=3, max_size=20))
def test_a_table_has_the_rows_of_one_checkpoint(place, steps):
    with tempfile.TemporaryDirectory() as folder:
        story = Story(place(Path(folder)))
        for step in steps:
            story.do(*step)
