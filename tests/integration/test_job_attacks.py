"""Ways to hurt a job that have hurt one before: threads, two outputs in one place, sinks that end oddly, clocks."""

from __future__ import annotations

import functools
import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest
from pyspark.sql import functions as F

import holdfast as hf
from holdfast import ops
from holdfast.checkpoint.lock import LOCK_FILE, current_lock
from integration.functions import Count
from integration.waiting import until

ROWS = "k string, v string"
OUTPUT = "k string, n int"


class Clocked(hf.DoFn):
    """The time that a step without timers of processing time sees."""

    COUNT = hf.ValueStateSpec("count", hf.VarIntCoder())

    def process(self, element, count=hf.DoFn.StateParam(COUNT)):
        yield element[0], str(hf.Timestamp.now().micros)


class ClockedByEvents(Clocked):
    """The same with a timer, for which Spark's operator runs in event time."""

    LATER = hf.TimerSpec("later", hf.TimeDomain.WATERMARK)

    def process(self, element, later=hf.DoFn.TimerParam(LATER)):
        later.set(1000)
        yield element[0], str(hf.Timestamp.now().micros)

    @hf.on_timer(LATER)
    def on_later(self): ...


class Both(hf.DoFn):
    COUNT = hf.ValueStateSpec("count", hf.VarIntCoder())

    def process(self, element, count=hf.DoFn.StateParam(COUNT)):
        yield element
        yield hf.TaggedOutput("other", element)


@pytest.mark.night
def test_jobs_that_are_started_by_several_threads(make, source, tmp_path):
    stdout = sys.stdout
    sinks = [hf.sinks.Collect() for _ in range(3)]
    retained = [3, None, 7]
    jobs = []
    for n, (sink, kept) in enumerate(zip(sinks, retained, strict=True)):
        rows = hf.keyed(source.df, key="k", value="v").par_do(Count(), output=OUTPUT, name=f"Count{n}")
        job = hf.Job(f"thread{n}", checkpoint=str(tmp_path / f"c{n}"), retained_batches=kept, progress=False)
        jobs.append(job.write(rows, sink))
    threads = [threading.Thread(target=job.start) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    until(lambda: all(sink.rows for sink in sinks))
    for job in jobs:
        job.stop()
    assert sys.stdout is stdout
    for n in range(3):
        assert f'"Count{n}"' in (tmp_path / f"c{n}" / "holdfast" / "manifest.json").read_text()


def test_two_outputs_need_two_places(source, tmp_path):
    outputs = hf.keyed(source.df, key="k", value="v").par_do(Both(), output=ROWS, outputs={"other": ROWS})
    collect = hf.sinks.Collect()
    for first, second in [
        (hf.sinks.Parquet(tmp_path / "rows"), hf.sinks.Parquet(f"file:{tmp_path}/rows/")),
        (hf.sinks.Sqlite(tmp_path / "d.db", "t"), hf.sinks.Sqlite(tmp_path / "d.db", "T")),
        (collect, collect),
    ]:
        job = hf.Job("twice", checkpoint=str(tmp_path / "checkpoint")).write(outputs.main, first)
        with pytest.raises(hf.InvalidStep, match="by another output of this job already"):
            job.write(outputs.other, second)
    job = hf.Job("twice", checkpoint=str(tmp_path / "checkpoint"), trigger="available now", progress=False)
    job.write(outputs.main, collect).write(outputs.other, hf.sinks.Collect()).run()
    assert len(collect.rows) == 1


@pytest.mark.parametrize(
    "end", [lambda: sys.exit(3), pytest.param(lambda: (_ for _ in ()).throw(KeyboardInterrupt), marks=pytest.mark.night)]
)
def test_a_sink_that_exits_fails_its_micro_batch(make, tmp_path, end):
    job = make(hf.sinks.ForeachBatch(lambda rows, number: end()), trigger="available now")
    with pytest.raises(hf.JobFailed, match=r"A sink ended with (SystemExit|KeyboardInterrupt)"):
        job.run()
    assert not list((tmp_path / "checkpoint" / "commits").glob("[0-9]*"))


def test_functions_that_would_write_nothing_are_refused():
    async def waits(rows, number): ...

    def yields(rows, number):
        yield 1

    class Callable:
        def __call__(self, rows, number): ...

    for wrong in (waits, yields, functools.partial(yields), lambda rows: None, lambda a, b, c, d: None, 5):
        with pytest.raises(hf.InvalidStep):
            hf.sinks.ForeachBatch(wrong)
    for right in (
        lambda rows, number: None,
        lambda a, b, info: None,
        Callable(),
        functools.partial(lambda a, b, c: 0, 1),
        print,
    ):
        hf.sinks.ForeachBatch(right)


def test_the_lock_stays_as_long_as_the_handler_writes(make, tmp_path):
    inside, leave = threading.Event(), threading.Event()

    def stuck(rows, number):
        inside.set()
        leave.wait(60)

    job = make(hf.sinks.ForeachBatch(stuck)).start()
    assert inside.wait(60)
    stopping = threading.Thread(target=lambda: job.stop(timeout_seconds=0.1))
    stopping.start()
    until(lambda: job._life.asked == 2)
    time.sleep(2.5)
    assert current_lock(None, str(tmp_path / "checkpoint")) is not None
    leave.set()
    stopping.join(90)
    until(lambda: not Path(tmp_path / "checkpoint", LOCK_FILE).exists())


@pytest.mark.night
def test_one_signal_waits_however_long_it_takes(make, tmp_path):
    inside, wrote = threading.Event(), []

    def slow(rows, number):
        inside.set()
        time.sleep(2)
        wrote.append(number)

    job = make(hf.sinks.ForeachBatch(slow))

    def interrupt():
        inside.wait(60)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=interrupt, daemon=True).start()
    job.run()
    assert wrote == [0]
    assert (tmp_path / "checkpoint" / "commits" / "0").exists()


def test_a_sink_object_that_is_used_again_notices_a_checkpoint_taken_back(spark, make, source, tmp_path):
    sink = hf.sinks.Parquet(tmp_path / "rows")
    make(sink, trigger="available now").run()
    ops.savepoint_create(None, str(tmp_path / "checkpoint"), str(tmp_path / "savepoint"))
    for _ in range(2):
        source.add({"k": "a", "v": "x"})
    make(sink, trigger="available now").run()
    ops.savepoint_restore(None, str(tmp_path / "savepoint"), str(tmp_path / "restored"))
    with pytest.raises(hf.SinkError):
        make(sink, checkpoint="restored", trigger="available now").run()


def test_who_takes_over_a_path_has_it_alone(spark, make, source, tmp_path):
    source.add({"k": "a", "v": "x"})
    make(hf.sinks.Parquet(tmp_path / "rows"), trigger="available now").run()
    make(hf.sinks.Collect(), checkpoint="other", trigger=hf.Batches(1)).run()
    make(hf.sinks.Parquet(tmp_path / "rows", take_over=True), checkpoint="other", trigger="available now").run()
    assert [tuple(row) for row in spark.read.parquet(str(tmp_path / "rows")).collect()] == [("a", 2, 1)]


@pytest.mark.parametrize(
    "fn", [pytest.param(Clocked(), marks=pytest.mark.night), ClockedByEvents()], ids=["no time mode", "event time"]
)
def test_all_of_a_micro_batch_has_one_time_and_a_replay_sees_it_again(source, tmp_path, fn):
    source.add(*({"k": f"k{n}", "v": "x"} for n in range(50)))
    seen = {}
    stream = hf.keyed(
        source.df.withColumn("at", F.timestamp_seconds(F.lit(5))), key="k", value="v", timestamp="at", watermark="0 s"
    )

    def shaky(rows, number):
        seen.setdefault(number, []).append({row.v for row in rows.collect()})
        if number == 1 and len(seen[1]) == 1:
            raise OSError("away")

    checkpoint = str(tmp_path / "checkpoint")
    job = hf.Job("clock", checkpoint=checkpoint, trigger="available now", tolerated_failures=1, progress=False)
    job.write(stream.par_do(fn, output=ROWS), hf.sinks.ForeachBatch(shaky)).run()
    first, again = seen[1]
    assert len(first) == 1
    assert first == again
    assert abs(int(first.pop()) / 1e6 - time.time()) < 600


def test_a_job_that_could_not_be_built_can_be_tried_again(source, tmp_path):
    rows = [
        hf.keyed(source.df, key="k", value="v").par_do(Count(), output=OUTPUT, name=name) for name in ("first", "second")
    ]
    job = hf.Job("graph", checkpoint=str(tmp_path / "checkpoint"), progress=False)
    job.write(rows[0], hf.sinks.Collect()).write(rows[1].dropDuplicates(), hf.sinks.Collect())
    for _ in range(2):
        with pytest.raises(hf.InvalidStep, match="Deduplicate, which does not treat each row by itself"):
            job.run()
    job.stop()


def test_a_job_whose_very_first_micro_batch_was_killed_as_it_was_noted(make, source, tmp_path):
    folder = tmp_path / "checkpoint" / "offsets"
    folder.mkdir(parents=True)
    # What Spark leaves: it renames the file when it is whole.
    (folder / ".0.6c1f2d0e-7d0b-4b0f-9d53-1f6b3ad7c1aa.tmp").write_text("v1\n{")
    source.add({"k": "b", "v": "1"})
    sink = hf.sinks.Collect()
    make(sink, trigger="available now").run()
    assert ("b", 1) in [tuple(row) for row in sink.rows]


@pytest.mark.night
def test_a_relative_checkpoint_stays_where_it_is(make, source, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("holdfast.checkpoint.lock._TRUST_SECONDS", 0.0)
    sink = hf.sinks.Collect()
    rows = hf.keyed(source.df, key="k", value="v").par_do(Count(), output=OUTPUT)
    job = hf.Job("relative", checkpoint="here", progress=False).write(rows, sink).start()
    until(lambda: sink.rows)
    (tmp_path / "elsewhere").mkdir()
    os.chdir(tmp_path / "elsewhere")
    source.add({"k": "a", "v": "x"})
    until(lambda: len(sink.rows) == 2)
    job.stop()
    assert not (tmp_path / "here" / "holdfast" / "lock.json").exists()


def test_a_failure_is_not_swallowed_by_a_stop(make):
    def broken(rows, number):
        raise OSError("away")

    job = make(hf.sinks.ForeachBatch(broken)).start()
    until(lambda: not job.query.isActive)
    with pytest.raises(hf.JobFailed, match="away"):
        job.__exit__(None, None, None)
    # Whoever has been told is not told again.
    job.stop()


@pytest.mark.night
def test_several_that_wait_when_a_worker_dies(make, tmp_path):
    mark = tmp_path / "mark"

    class Once(hf.DoFn):
        COUNT = hf.ValueStateSpec("count", hf.VarIntCoder())

        def __init__(self, mark):
            self.mark = mark

        def process(self, element, count=hf.DoFn.StateParam(COUNT)):
            if not os.path.exists(self.mark):
                open(self.mark, "w").close()
                os._exit(9)
            yield element[0], 1

    sink, problems = hf.sinks.Collect(), []
    job = make(sink, Once(str(mark))).start()

    def wait():
        try:
            job.wait(60)
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=wait, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    until(lambda: sink.rows or problems)
    assert problems == []
    assert (tmp_path / "checkpoint" / LOCK_FILE).exists()
    job.stop()
    for thread in threads:
        thread.join(60)
    assert problems == []


@pytest.mark.parametrize(
    "options",
    [
        {"tolerated_failures": "3"},
        {"tolerated_failures": -1},
        {"retained_batches": 0},
        {"trigger": -5},
        {"trigger": hf.Batches(0)},
    ],
)
def test_options_that_make_no_sense(options):
    with pytest.raises(hf.InvalidStep):
        hf.Job("odd", checkpoint="x", **options)


def test_databases_that_are_gone_with_their_connection():
    for path in ("", ":memory:"):
        with pytest.raises(hf.InvalidStep, match="lost with each connection"):
            hf.sinks.Sqlite(path, "t")


def test_files_where_directories_should_be(make, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(hf.SinkError, match="is a file"):
        make(hf.sinks.Parquet(tmp_path / "file"), trigger="available now").run()
    with pytest.raises(hf.CheckpointError, match="is a file"):
        make(hf.sinks.Collect(), checkpoint="file", trigger="available now").run()


def test_an_error_of_sparks_own_is_told_once(feed, tmp_path, capfd):
    """PySpark writes a line of JSON to standard error when it makes an exception, before anybody could have caught it."""
    source = feed("k string")
    source.add({"k": "seven"})
    job = hf.Job("numbers", checkpoint=str(tmp_path / "checkpoint"), trigger="available now", progress=False)
    with pytest.raises(hf.JobFailed, match="CAST_INVALID_INPUT"):
        job.write(source.df.selectExpr("cast(k AS int) AS n"), hf.sinks.Collect()).run()
    assert "CAST_INVALID_INPUT" not in capfd.readouterr().err
