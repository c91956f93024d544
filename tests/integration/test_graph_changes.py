"""Graphs that change between two starts: steps are added, removed, renamed and dropped on a checkpoint with state."""

from __future__ import annotations

import json

import pytest
from pyspark.sql import functions as F

import holdfast as hf
from holdfast.checkpoint import replacing
from holdfast.checkpoint.files.local import LocalFiles

KEYS = "abc"


class Counted(hf.DoFn):
    SEEN = hf.ValueStateSpec("seen", hf.VarIntCoder())

    def process(self, element, seen=hf.DoFn.StateParam(SEEN)):
        seen.write((seen.read() or 0) + 1)
        yield element[0], seen.read()


class Overdue(hf.DoFn):
    """Gives a key once event time has passed its first element by ten seconds."""

    SEEN = hf.ValueStateSpec("seen", hf.VarIntCoder())
    DUE = hf.TimerSpec("due", hf.TimeDomain.WATERMARK)

    def process(self, element, at=hf.DoFn.TimestampParam, seen=hf.DoFn.StateParam(SEEN), due=hf.DoFn.TimerParam(DUE)):
        if seen.read() is None:
            due.set(at + 10)
        seen.write((seen.read() or 0) + 1)
        yield from ()

    @hf.on_timer(DUE)
    def late(self, key=hf.DoFn.KeyParam, seen=hf.DoFn.StateParam(SEEN)):
        yield key, seen.read()


class Jobs:
    """Starts jobs of some steps over the same input and checkpoint, one after the other; each gets one more file."""

    def __init__(self, feed, path):
        self.input = feed
        self.checkpoint = path / "checkpoint"
        self.files = 0

    def frames(self):
        df = self.input.df
        keyed = hf.keyed(df, key="k", value="v")
        one = keyed.par_do(Counted(), output="k string, n int", name="one", key_groups=4)
        timed = hf.keyed(df, key="k", value="v", timestamp="t", watermark="0 seconds")

        def later(name):
            return hf.keyed(one.where("n > 1"), key="k", value="n").par_do(
                Counted(), output="k string, n int", name=name, key_groups=2
            )

        return {
            "one": one,
            "beside": keyed.par_do(Counted(), output="k string, n int", name="beside", key_groups=2),
            "later": later("later"),
            "renamed": later("renamed"),
            "timed": timed.par_do(Overdue(), output="k string, n int", name="timed", key_groups=2),
        }

    def feed(self, *keys):
        self.files += 1
        at = hf.Timestamp(100 * self.files).to_utc_datetime()
        self.input.add(*({"k": key, "v": self.files, "t": at} for key in keys or KEYS))

    def run(self, *names, **options):
        """The rows that each of these steps gives for the file that is new, by name."""
        self.feed()
        frames = self.frames()
        sinks = {name: hf.sinks.Collect() for name in names}
        job = hf.Job("graph", checkpoint=str(self.checkpoint), trigger="available now", **options)
        for name, sink in sinks.items():
            job.write(frames[name], sink)
        job.run()
        return {name: sorted(map(tuple, sink.rows)) for name, sink in sinks.items()}

    @property
    def places(self):
        steps = json.loads((self.checkpoint / "holdfast" / "manifest.json").read_text())["steps"]
        return {name: (step.get("operator"), step.get("slot")) for name, step in steps.items()}


@pytest.fixture
def jobs(feed, tmp_path):
    return Jobs(feed("k string, v int, t timestamp"), tmp_path)


def counts(number):
    return [(key, number) for key in KEYS]


def test_steps_come_and_go(jobs, capsys):
    assert jobs.run("one") == {"one": counts(1)}
    assert jobs.places == {"one": (None, None)}
    # Beside the first, in its operator.
    assert jobs.run("one", "beside") == {"one": counts(2), "beside": counts(1)}
    assert jobs.places == {"one": (0, 0), "beside": (0, 1)}
    # After it: there has to be another operator, and the state moves.
    assert jobs.run("one", "beside", "later") == {"one": counts(3), "beside": counts(2), "later": counts(1)}
    assert jobs.places == {"one": (1, 0), "beside": (1, 1), "later": (0, 2)}
    # What is removed is kept as it was, and goes on when it comes back.
    assert jobs.run("one") == {"one": counts(4)}
    assert jobs.run("beside", "later") == {"beside": counts(3), "later": counts(2)}
    assert jobs.run("one", "renamed", drop_steps=["beside"], rename_steps={"later": "renamed"}) == {
        "one": counts(6),
        "renamed": counts(3),
    }
    assert jobs.places == {"one": (1, 0), "renamed": (0, 2)}
    said = capsys.readouterr()
    assert "the step 'renamed' was called 'later'" in said.out + said.err
    assert "the stored state was rearranged" in said.out + said.err
    # Asked for again, both are done already.
    assert jobs.run("beside", "renamed", drop_steps=[], rename_steps={"later": "renamed"}) == {
        "beside": counts(1),
        "renamed": counts(4),
    }


@pytest.mark.night
def test_a_timer_waits_for_its_step_to_come_back(jobs):
    """It becomes due while the step is not in the job."""
    jobs.run("one", "timed")
    jobs.run("one")
    jobs.run("one")
    assert jobs.run("one", "timed")["timed"] == [(key, 2) for key in KEYS]


def test_a_job_goes_on_from_a_query_of_sparks_own(jobs):
    """Such a query records nothing about its steps, but the state itself says which they are."""
    jobs.feed()
    query = jobs.frames()["one"].writeStream.format("noop").option("checkpointLocation", str(jobs.checkpoint))
    query.trigger(availableNow=True).start().awaitTermination()
    assert jobs.run("one", "beside") == {"one": counts(2), "beside": counts(1)}
    assert jobs.places == {"one": (0, 0), "beside": (0, 1)}


@pytest.mark.night
def test_a_graph_gets_a_step_that_needs_another_clock(jobs):
    """Spark fixes how an operator keeps time: the state moves to one that keeps it as the new step needs."""
    jobs.run("one", "beside")
    jobs.run("one", "beside", "timed")
    assert jobs.run("one", "beside", "timed")["timed"] == [(key, 2) for key in KEYS]
    assert jobs.run("one", "beside")["one"] == counts(4)


@pytest.mark.night
def test_changes_that_make_no_sense_are_refused(jobs, spark):
    jobs.run("one", "beside")
    with pytest.raises(hf.InvalidStep) as refused:
        jobs.run("one", "beside", drop_steps=["one"], rename_steps={"beside": "one", "nothing": "beside", "one": "gone"})
    assert "drop_steps names 'one', which is a step of the job" in str(refused.value)
    assert "the checkpoint has state of both" in str(refused.value)
    assert "but the job has no such step" in str(refused.value)
    with pytest.raises(hf.StateConflict, match="state of the step 'beside', which the job has not, and the job has a new"):
        jobs.run("one", "timed")
    with pytest.raises(hf.InvalidStep, match="rename_steps names 'nothing', but the checkpoint has no such step"):
        jobs.run("one", "renamed", rename_steps={"nothing": "renamed"})
    before = spark.createDataFrame([("a", 7)], "k string, seen int")
    late = hf.keyed(jobs.input.df, key="k", value="v").par_do(
        Counted(), output="k string, n int", name="late", initial_state=before
    )
    job = hf.Job("graph", checkpoint=str(jobs.checkpoint), trigger="available now", progress=False)
    frames = jobs.frames()
    for frame in (late, frames["one"], frames["beside"]):
        job.write(frame, hf.sinks.Collect())
    with pytest.raises(hf.StateConflict, match="'late' is new in this checkpoint, which is not: its initial_state"):
        job.run()
    assert jobs.run("one", "beside")["one"] == [(key, n) for key in KEYS for n in (2, 3, 4, 5)]


def test_sources_stay_in_order(feed, tmp_path):
    """Spark finds a source's offsets by its number. A step whose name comes first may read the other source first."""
    inputs = {name: feed("k string, v int", name) for name in ("left", "right")}
    found = {}

    def run(*names):
        left, right = (hf.keyed(inputs[name].df, key="k", value="v") for name in ("left", "right"))
        keyed = {"b": left, "c": right, "a": right}
        job = hf.Job("sources", checkpoint=str(tmp_path / "checkpoint"), trigger="available now", progress=False)
        for name in names:
            sink = found[name] = hf.sinks.Collect()
            step = keyed[name].par_do(Counted(), output="k string, n int", name=name, key_groups=2)
            job.write(step, sink)
        job.run()
        return {name: sorted(map(tuple, found[name].rows)) for name in names}

    inputs["left"].add({"k": "l", "v": 1})
    inputs["right"].add({"k": "r", "v": 1})
    assert run("b", "c") == {"b": [("l", 1)], "c": [("r", 1)]}
    inputs["right"].add({"k": "r", "v": 2})
    assert run("a", "b", "c") == {"a": [("r", 1)], "b": [], "c": [("r", 2)]}
    with pytest.raises(hf.StateConflict, match="reads from 1 source, and its checkpoint has the offsets of 2 sources"):
        run("b")


@pytest.mark.night
def test_sources_that_are_read_several_times_stay_in_order(feed, tmp_path):
    """Spark has an offset for each time that a source is read. An unchanged job must not begin where another source was."""
    inputs = {name: feed("k string, v int, tags array<int>", name) for name in ("left", "right")}
    sinks = {}

    def run(*, exploded="left", again=False):
        left, right = (inputs[name].df for name in ("left", "right"))
        frames = {
            "counts": hf.keyed(left, key="k", value="v").par_do(Counted(), output="k string, n int", key_groups=2),
            "right": right.select("k", "v"),
            "tags": {"left": left, "right": right}[exploded].select("k", F.explode("tags")),
        }
        if again:
            frames["again"] = left.select(F.explode("tags"))
        job = hf.Job("sources", checkpoint=str(tmp_path / "checkpoint"), trigger="available now", progress=False)
        for name, frame in frames.items():
            job.write(frame, sinks.setdefault(name, hf.sinks.Collect()))
        job.run()
        return {name: len(sink.rows) for name, sink in sinks.items()}

    row = {"k": "a", "v": 1, "tags": [1, 2]}
    inputs["left"].add(row)
    for _ in range(4):
        inputs["right"].add(row)
    assert run() == {"counts": 1, "right": 4, "tags": 2}
    assert run() == {"counts": 1, "right": 4, "tags": 2}
    inputs["left"].add(row)
    inputs["right"].add(row)
    assert run() == {"counts": 2, "right": 5, "tags": 4}
    with pytest.raises(hf.StateConflict, match="sources are now read 3 times in all, and were 3 times, or others of them"):
        run(exploded="right")
    with pytest.raises(hf.StateConflict, match="sources are now read 4 times in all, and were 3 times"):
        run(again=True)


def test_steps_cannot_be_added_where_there_were_none(feed, tmp_path):
    rows = feed("k string, v int")
    rows.add({"k": "a", "v": 1})
    places = {"job": tmp_path / "job", "query": tmp_path / "query"}

    def job(frame, name):
        made = hf.Job(name, checkpoint=str(places[name]), trigger="available now", progress=False)
        return made.write(frame, hf.sinks.Collect())

    job(rows.df, "job").run()
    query = rows.df.writeStream.format("noop").option("checkpointLocation", str(places["query"]))
    query.trigger(availableNow=True).start().awaitTermination()
    step = hf.keyed(rows.df, key="k", value="v").par_do(Counted(), output="k string, n int")
    with pytest.raises(hf.StateConflict, match="The checkpoint is of a job without steps, and the job has 'Counted'"):
        job(step, "job").run()
    with pytest.raises(hf.StateConflict, match="has no state: it is of a query without steps"):
        job(step, "query").run()


@pytest.mark.parametrize("moves", [0, pytest.param(1, marks=pytest.mark.night), pytest.param(2, marks=pytest.mark.night)])
def test_a_rearrangement_that_is_interrupted(jobs, monkeypatch, moves):
    """Killed before, between and after the two renames: the next start leaves one whole state."""
    jobs.run("one", "beside")
    with monkeypatch.context() as patch:
        patch.setattr(replacing, "finish_replacing", _killed)
        if moves < 2:
            patch.setattr(LocalFiles, "move", _stops_at(LocalFiles.move, str(jobs.checkpoint), moves))
        with pytest.raises(KeyboardInterrupt):
            jobs.run("one", "beside", "later")
    found = jobs.run("one", "beside", "later")
    assert found["one"] == [(key, n) for key in KEYS for n in (2, 3)]
    assert found["later"] == [(key, n) for key in KEYS for n in (1, 2)]


def _killed(*_):
    raise KeyboardInterrupt


def _stops_at(move, checkpoint, moves):
    """Moves of the checkpoint's own state, of which only so many succeed."""
    left = [moves]

    def stops(files, source, target):
        if f"{checkpoint}/state" in (source, target):
            if not left[0]:
                raise KeyboardInterrupt
            left[0] -= 1
        return move(files, source, target)

    return stops
