"""Upserting with jobs: the newest row of each key, once, whatever comes late, again or in another mode."""

from __future__ import annotations

import datetime
import json
import shutil
import sqlite3
from contextlib import closing

import pytest

import holdfast as hf
from holdfast.ops import savepoint_create, savepoint_restore
from integration.functions import Both, Count

UTC = datetime.timezone.utc
COUNTS = "k string, n int"


def at(second):
    return datetime.datetime.fromtimestamp(1_700_000_000 + second, tz=UTC)


def table_rows(path, table="counts"):
    with closing(sqlite3.connect(path)) as database:
        return sorted(database.execute(f"SELECT * FROM {table}").fetchall())


@pytest.fixture
def counts(feed):
    """A stream, and the running counts of its keys."""
    source = feed("k string, v int")
    return source, hf.keyed(source.df, key="k", value="v").par_do(Count(), output=COUNTS)


def job_at(folder, checkpoint="checkpoint"):
    return hf.Job("upserts", checkpoint=str(folder / checkpoint), trigger="available now", progress=False)


class Panes:
    """What a table of early, on-time and late panes must hold, in plain Python: sums by key and window."""

    SIZE, DELAY, LATENESS = 10, 5, 20

    def __init__(self):
        self.sums = {}
        self.dropped = 0
        self._latest = self._watermark = float("-inf")

    def batch(self, events):
        self._watermark = max(self._watermark, self._latest - self.DELAY)
        for key, value, second in events:
            start = second - second % self.SIZE
            if start + self.SIZE + self.LATENESS <= self._watermark:
                self.dropped += 1
            else:
                self.sums[key, start] = self.sums.get((key, start), 0) + value
            self._latest = max(self._latest, second)


class Watched(hf.sinks.Sqlite):
    """Reads the table after each micro-batch."""

    def __init__(self, path, table):
        super().__init__(path, table)
        self.seen = []

    def write_batch(self, rows, info):
        super().write_batch(rows, info)
        self.seen.append(table_rows(self.path, self.table))


BATCHES = [
    [("a", 1, 1), ("b", 2, 3), ("a", 4, 11)],
    [("a", 8, 2), ("b", 16, 12)],
    [("a", 32, 21)],
    [("a", 64, 4), ("b", 128, 14)],  # Late for the first windows, early for the second.
    [("b", 256, 60)],
    [("a", 512, 1), ("a", 1024, 48), ("b", 2048, 33)],  # Too late, in time, late.
]


@pytest.mark.night
def test_early_and_late_panes_replace_each_other(feed, tmp_path):
    source, sink, panes = feed("k string, v int, at timestamp"), Watched(tmp_path / "rows.db", "sums"), Panes()
    for events in BATCHES:
        source.add(*({"k": k, "v": v, "at": at(second)} for k, v, second in events))
    stream = hf.keyed(source.df, key="k", value="v", timestamp="at", watermark=Panes.DELAY).window_into(
        hf.FixedWindows(Panes.SIZE),
        allowed_lateness=Panes.LATENESS,
        trigger=hf.AfterWatermark(early=hf.Repeatedly(hf.AfterCount(1)), late=hf.AfterCount(1)),
        accumulation_mode="accumulating",
    )
    sums = stream.combine_per_key({"total": hf.Sum()}, "total long", panes=True)
    job_at(tmp_path).write(sums, sink, mode="upsert", key=["k", "window"]).run()
    timings = set()
    for number, rows in enumerate(sink.seen):
        # At the end there may be a micro-batch without input, for the watermark.
        panes.batch(BATCHES[number] if number < len(BATCHES) else [])
        held = {(k, datetime.datetime.fromisoformat(json.loads(window)["start"])): total for k, window, total, _ in rows}
        assert held == {(k, at(start)): total for (k, start), total in panes.sums.items()}, f"after micro-batch {number}"
        assert len(rows) == len(held)
        timings |= {json.loads(pane)["timing"] for *_, pane in rows}
    assert len(sink.seen) >= len(BATCHES)
    assert panes.dropped == 1
    assert timings == {"EARLY", "ON_TIME", "LATE"}


def total(key, values, state):
    state.update((state.getOption or 0) + sum(values))
    return key, state.get


class Falling(hf.sinks.Sqlite):
    """Ends after it has written a micro-batch, so that Spark does not learn of it. With the signatures that sinks had."""

    def __init__(self, path, table, falls_at):
        super().__init__(path, table)
        self.falls_at = falls_at

    def write_batch(self, rows, info):
        super().write_batch(rows, info)
        if info.batch_id in self.falls_at:
            raise OSError("the power is off")


def test_a_micro_batch_that_comes_again_changes_nothing(feed, tmp_path):
    source = feed("k string, v int")
    totals = hf.keyed(source.df, key="k", value="v").map_groups_with_state(total, "k string, total long")

    def run(sink):
        job_at(tmp_path).write(totals, sink, mode="upsert", key="k").run()

    source.add({"k": "a", "v": 1}, {"k": "b", "v": 2})
    source.add({"k": "a", "v": 10})
    with pytest.raises(hf.JobFailed, match="the power is off"):
        run(Falling(tmp_path / "rows.db", "counts", {1}))
    assert table_rows(tmp_path / "rows.db") == [("a", 11), ("b", 2)]
    with closing(sqlite3.connect(tmp_path / "rows.db")) as database, database:
        database.execute("UPDATE counts SET total = -1 WHERE k = 'a'")
    run(hf.sinks.Sqlite(tmp_path / "rows.db", "counts"))
    assert table_rows(tmp_path / "rows.db") == [("a", -1), ("b", 2)], "the second time must write nothing"
    source.add({"k": "a", "v": 100})
    run(hf.sinks.Sqlite(tmp_path / "rows.db", "counts"))
    assert table_rows(tmp_path / "rows.db") == [("a", 111), ("b", 2)]
    assert [batch for _, _, batch, *_ in table_rows(tmp_path / "rows.db", "holdfast_batches")] == [0, 1, 2]


def test_the_last_row_of_a_micro_batch_wins(counts, tmp_path):
    """Each key has as many rows as it has elements, over several partitions and blocks of Arrow."""
    source, rows = counts
    source.add(*({"k": f"k{n % 7}", "v": n} for n in range(7 * 60)))
    held = hf.sinks.Collect()
    job = job_at(tmp_path).write(rows, hf.sinks.Sqlite(tmp_path / "rows.db", "counts"), mode="upsert", key="k")
    job.write(rows.where("n > 1"), held, mode="upsert", key=["k"]).run()
    assert table_rows(tmp_path / "rows.db") == [(f"k{n}", 60) for n in range(7)]
    assert sorted(map(tuple, held.rows)) == [(f"k{n}", 60) for n in range(7)]


@pytest.mark.night
def test_one_output_is_upserted_and_another_appended(feed, tmp_path):
    source = feed("k string, v int")
    source.add(*({"k": "a", "v": v} for v in (1, 2, 4, 7)))
    outputs = hf.keyed(source.df, key="k", value="v").par_do(
        Both(), output="k string, v int, seen int", outputs={"odd": "k string, v int"}
    )
    job = job_at(tmp_path).write(outputs.main, hf.sinks.Sqlite(tmp_path / "rows.db", "evens"), mode="upsert", key="k")
    job.write(outputs.odd, hf.sinks.Sqlite(tmp_path / "rows.db", "odds")).run()
    assert table_rows(tmp_path / "rows.db", "evens") == [("a", 4, 3)]
    assert table_rows(tmp_path / "rows.db", "odds") == [("a", 1), ("a", 7)]


@pytest.mark.night
def test_a_job_does_not_start_in_another_mode(counts, tmp_path):
    source, rows = counts
    source.add({"k": "a", "v": 1})
    sink = hf.sinks.Sqlite(tmp_path / "rows.db", "counts")
    job_at(tmp_path).write(rows, sink, mode="upsert", key="k").run()
    with pytest.raises(hf.SinkError, match="is upserted by the key k; rows cannot be appended"):
        job_at(tmp_path).write(rows, sink).start()
    with pytest.raises(hf.SinkError, match="not by n"):
        job_at(tmp_path).write(rows, sink, mode="upsert", key="n").start()
    with pytest.raises(hf.SinkError, match="has the rows of the query"):
        job_at(tmp_path, "another").write(rows, sink, mode="upsert", key="k").start()
    assert table_rows(tmp_path / "rows.db") == [("a", 1)]


@pytest.mark.night
def test_an_older_savepoint_with_and_without_the_database_of_its_time(counts, tmp_path):
    source, rows = counts
    database, copied = tmp_path / "rows.db", tmp_path / "copy.db"

    def run(checkpoint, **options):
        sink = hf.sinks.Sqlite(database, "counts", **options)
        job_at(tmp_path, checkpoint).write(rows, sink, mode="upsert", key="k").run()

    source.add({"k": "a", "v": 0}, {"k": "b", "v": 0})
    run("one")
    savepoint_create(None, str(tmp_path / "one"), str(tmp_path / "early"))
    shutil.copy(database, copied)
    source.add({"k": "a", "v": 1})
    run("one")
    # Done after the savepoint, by rows that do not come again.
    with closing(sqlite3.connect(database)) as written, written:
        written.execute("INSERT INTO counts VALUES ('gone', 1)")
    for n in (2, 3):
        source.add({"k": "a", "v": n})
        run("one")
    assert table_rows(database) == [("a", 4), ("b", 1), ("gone", 1)]
    for checkpoint in ("two", "three"):
        savepoint_restore(None, str(tmp_path / "early"), str(tmp_path / checkpoint))
    with pytest.raises(hf.SinkError, match="micro-batches up to 3 of this query, but another 1 comes next"):
        run("two")
    assert table_rows(database) == [("a", 4), ("b", 1), ("gone", 1)]
    run("two", take_over=True)
    assert table_rows(database) == [("a", 4), ("b", 1), ("gone", 1)]
    shutil.copy(copied, database)
    run("three")
    assert table_rows(database) == [("a", 4), ("b", 1)]


class Newest(hf.sinks.Sink):
    """A user's own, which can upsert."""

    def __init__(self, held, upsert=None):
        self.held, self.upsert = held, upsert

    def upserting(self, upsert):
        return Newest(self.held, upsert)

    def write_batch(self, rows, info):
        for row in self.upsert.newest(rows.toArrow()).to_pylist():
            self.held.append(tuple(row.values()))


class Appended(hf.sinks.Sink):
    """A user's own, of the time before sinks could upsert."""

    def __init__(self):
        self.held = []

    def open(self, spark, schema, query_id):
        self.held.append(schema.names)

    def write_batch(self, rows, info):
        self.held += map(tuple, rows.collect())


def test_sinks_of_users(counts, tmp_path):
    source, rows = counts
    source.add({"k": "a", "v": 1}, {"k": "a", "v": 2})
    newest, appended = [], Appended()
    job_at(tmp_path).write(rows, Newest(newest), mode="upsert", key="k").write(rows, appended).run()
    assert newest == [("a", 2)]
    assert appended.held == [["k", "n"], ("a", 1), ("a", 2)]
    with pytest.raises(hf.InvalidStep, match="Appended cannot upsert"):
        job_at(tmp_path).write(rows, Appended(), mode="upsert", key="k")


@pytest.mark.night
def test_a_row_without_a_key_fails_its_micro_batch_and_a_filter_mends_it(counts, tmp_path):
    source, rows = counts
    rows = rows.selectExpr("nullif(k, 'b') AS k", "n")
    source.add({"k": "a", "v": 1}, {"k": "b", "v": 2})
    sink = hf.sinks.Sqlite(tmp_path / "rows.db", "counts")
    with pytest.raises(hf.SinkError, match="no value in the key column 'k'"):
        job_at(tmp_path).write(rows, sink, mode="upsert", key="k").run()
    assert table_rows(tmp_path / "rows.db") == []
    job_at(tmp_path).write(rows.where(rows["k"].isNotNull()), sink, mode="upsert", key="k").run()
    assert table_rows(tmp_path / "rows.db") == [("a", 1)]


def test_everything_wrong_is_told_when_the_output_is_bound(counts, tmp_path):
    _, rows = counts
    with pytest.raises(hf.InvalidStep) as refused:
        job_at(tmp_path).write(rows, hf.sinks.Parquet(tmp_path / "rows"), mode="upsert", key=["gone", "k", "k"])
    told = "\n".join(refused.value.problems)
    assert "'gone'" in told
    assert "'k' twice" in told
    assert "cannot upsert" in told
    with pytest.raises(hf.InvalidStep, match="A key is for mode='upsert'"):
        job_at(tmp_path).write(rows, hf.sinks.Collect(), key="k")
