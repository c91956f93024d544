"""New code on the checkpoint of old code, and cells that expire, on real Spark."""

from __future__ import annotations

import json
import shutil

import pytest

import holdfast as hf
from holdfast import ops

ROWS = "k string, v int"


class Cents(hf.DoFn):
    TOTAL = hf.ValueStateSpec("total", hf.VarIntCoder())
    SEEN = hf.BagStateSpec("seen")

    def process(self, element, total=hf.DoFn.StateParam(TOTAL), seen=hf.DoFn.StateParam(SEEN)):
        total.write((total.read() or 0) + element[1])
        seen.add(element[1])
        yield element[0], float(total.read())


class Euros(hf.DoFn):
    TOTAL = hf.ValueStateSpec("euros", hf.FloatCoder(), was="total", upgrade=lambda cents: cents / 100)
    COUNT = hf.CombiningStateSpec("count", sum)

    def process(self, element, total=hf.DoFn.StateParam(TOTAL), count=hf.DoFn.StateParam(COUNT)):
        total.write((total.read() or 0.0) + element[1] / 100)
        count.add(1)
        yield element[0], total.read()


def step(source, fn, **options):
    stream = hf.keyed(source.df, key="k", value="v")
    return stream.par_do(fn, output="k string, total double", name="totals", key_groups=4, **options)


def rows(found):
    return sorted(map(tuple, found[0]))


def add(source, **values):
    source.add(*({"k": key, "v": value} for key, value in values.items()))


@pytest.mark.parametrize(
    "backends",
    [
        pytest.param(("heap", "heap"), marks=pytest.mark.night),
        ("heap", "disk"),
        pytest.param(("disk", "heap"), marks=pytest.mark.night),
    ],
    ids="-".join,
)
def test_new_code_goes_on_with_old_state(feed, run_job, tmp_path, backends, capsys):
    before, after = backends
    source = feed(ROWS)
    add(source, a=250, b=100)
    assert rows(run_job(step(source, Cents(), backend=before))) == [("a", 250.0), ("b", 100.0)]
    add(source, a=50)
    assert rows(run_job(step(source, Euros(), backend=after))) == [("a", 3.0)]
    add(source, a=100, b=100)
    assert rows(run_job(step(source, Euros(), backend=after))) == [("a", 4.0), ("b", 2.0)]
    manifest = json.loads((tmp_path / "checkpoint" / "holdfast" / "manifest.json").read_text())
    cells = {cell["name"]: cell.get("kept", False) for cell in manifest["steps"]["totals"]["cells"]}
    assert cells == {"euros": False, "count": False, "seen": True}


def test_what_is_refused_leaves_the_checkpoint_alone(feed, run_job):
    class Text(hf.DoFn):
        TOTAL = hf.ValueStateSpec("total", hf.StrUtf8Coder())
        SEEN = hf.BagStateSpec("seen")

        def process(self, element, total=hf.DoFn.StateParam(TOTAL), seen=hf.DoFn.StateParam(SEEN)):
            yield element[0], 0.0

    source = feed(ROWS)
    add(source, a=1)
    run_job(step(source, Cents()))
    add(source, a=2)
    with pytest.raises(hf.StateConflict, match="the coder of the cell 'total' was"):
        run_job(step(source, Text()))
    assert rows(run_job(step(source, Cents()))) == [("a", 3.0)]


@pytest.mark.parametrize("backend", ["heap", pytest.param("disk", marks=pytest.mark.night)])
def test_a_checkpoint_taken_back_to_before_the_new_code(feed, run_job, tmp_path, backend):
    """The workers have the state as the new code keeps it, and the log is the old code's again."""
    source = feed(ROWS)
    add(source, a=250, b=100)
    run_job(step(source, Cents(), backend=backend))
    shutil.copytree(tmp_path / "checkpoint", tmp_path / "copy")
    add(source, a=50, b=50)
    once = rows(run_job(step(source, Euros(), backend=backend)))
    shutil.rmtree(tmp_path / "checkpoint")
    shutil.copytree(tmp_path / "copy", tmp_path / "checkpoint")
    again = rows(run_job(step(source, Euros(), backend=backend)))
    assert once == again == [("a", 3.0), ("b", 1.5)]


@pytest.mark.night
def test_a_job_says_what_is_different(feed, tmp_path, capsys):
    source = feed(ROWS)
    add(source, a=1)

    def job(fn, **options):
        made = hf.Job("told", checkpoint=str(tmp_path / "checkpoint"), trigger="available now")
        return made.write(step(source, fn, **options), hf.sinks.Collect())

    job(Cents()).run()
    capsys.readouterr()
    add(source, a=1)
    job(Euros()).run()
    said = capsys.readouterr().err
    assert "the cell 'euros' was called 'total'" in said
    assert "the cell 'seen' is no longer declared; its state is kept" in said


@pytest.mark.night
@pytest.mark.parametrize("backend", ["heap", "disk"])
def test_cells_expire_by_the_watermark(feed, run_job, backend):
    class Once(hf.DoFn):
        SEEN = hf.ValueStateSpec("seen", ttl=hf.Ttl("1 hour", time="event"))

        def process(self, element, seen=hf.DoFn.StateParam(SEEN)):
            if seen.read() is None:
                yield element
            seen.write(True)

    source = feed("k string, v int, at timestamp")

    def send(key, value, hour):
        import datetime

        at = datetime.datetime(2024, 1, 1, hour, tzinfo=datetime.timezone.utc)
        source.add({"k": key, "v": value, "at": at})

    stream = hf.keyed(source.df, key="k", value="v", timestamp="at", watermark="1 minute")
    out = stream.par_do(Once(), output="k string, v int", backend=backend)
    send("a", 1, 1)
    send("a", 2, 1)
    send("b", 3, 4)
    send("b", 4, 4)
    send("a", 5, 4)
    found = run_job(out)
    assert rows(found) == [("a", 1), ("a", 5), ("b", 3)]


class Text(hf.DoFn):
    """What became of Euros: with a third form of the total."""

    TOTAL = hf.ValueStateSpec("text", hf.StrUtf8Coder(), was="euros", upgrade=lambda euros: f"{euros:.2f}")
    COUNT = hf.CombiningStateSpec("count", sum)

    def process(self, element, total=hf.DoFn.StateParam(TOTAL), count=hf.DoFn.StateParam(COUNT)):
        yield element[0], float(total.read() or -1)


class Renamed(hf.DoFn):
    """As Euros, once nobody remembers the older name."""

    TOTAL = hf.ValueStateSpec("euros", hf.FloatCoder())
    COUNT = hf.CombiningStateSpec("count", sum)

    def process(self, element, total=hf.DoFn.StateParam(TOTAL), count=hf.DoFn.StateParam(COUNT)):
        yield element[0], total.read() or -1.0


@pytest.mark.parametrize(
    ("last", "outputs"),
    [(Text, 1), pytest.param(Renamed, 1, marks=pytest.mark.night), pytest.param(Renamed, 2, marks=pytest.mark.night)],
    ids=["upgraded twice", "name forgotten", "name forgotten, in a line"],
)
def test_a_key_without_input_has_every_change(feed, run_job, spark, tmp_path, last, outputs):
    """The code changes twice, and most keys get no input in between."""

    def ran(fn, **options):
        frames = [step(source, fn, **options)]
        if outputs == 2:
            beside = hf.keyed(source.df, key="k", value="v").par_do(
                Cents(), output="k string, total double", name="beside", key_groups=2
            )
            frames.append(beside)
        return rows(run_job(*frames))

    keys = "abcdefgh"
    source = feed(ROWS)
    add(source, **dict.fromkeys(keys, 250))
    ran(Cents())
    add(source, a=50)
    assert ran(Euros(), drop_cells=["seen"]) == [("a", 3.0)]
    state = ops.read_state(spark, str(tmp_path / "checkpoint"), step="totals")
    assert {row.cell for row in state.select("cell").distinct().collect()} == {"euros", "count"}
    add(source, **dict.fromkeys(keys, 0))
    assert ran(last()) == [(key, 3.0 if key == "a" else 2.5) for key in keys]


def test_an_upgrade_that_raises_leaves_the_checkpoint_alone(feed, run_job):
    class Broken(hf.DoFn):
        TOTAL = hf.ValueStateSpec("total", hf.FloatCoder(), upgrade=lambda cents: cents / 0)
        SEEN = hf.BagStateSpec("seen")

        def process(self, element, total=hf.DoFn.StateParam(TOTAL), seen=hf.DoFn.StateParam(SEEN)):
            yield element[0], total.read()

    source = feed(ROWS)
    add(source, a=1)
    run_job(step(source, Cents()))
    add(source, a=2)
    with pytest.raises(hf.UserCodeError, match="upgrade of the cell 'total' raised ZeroDivisionError"):
        run_job(step(source, Broken()))
    assert rows(run_job(step(source, Cents()))) == [("a", 3.0)]


@pytest.mark.night
def test_code_may_change_freely_until_something_is_committed(feed, run_job):
    """There is nothing stored that it would have to fit."""

    class Wrong(hf.DoFn):
        TOTAL = hf.BagStateSpec("total")
        DUE = hf.TimerSpec("due", hf.TimeDomain.REAL_TIME)

        def process(self, element, total=hf.DoFn.StateParam(TOTAL)):
            raise ValueError("not yet")

        @hf.on_timer(DUE)
        def on_due(self):
            pass

    source = feed(ROWS)
    add(source, a=1)
    with pytest.raises(hf.UserCodeError, match="not yet"):
        run_job(step(source, Wrong()))
    stream = hf.keyed(source.df, key="k", value="v")
    other = stream.par_do(Cents(), output="k string, total double", name="another", key_groups=2)
    assert rows(run_job(other)) == [("a", 1.0)]
    add(source, a=1)
    assert rows(run_job(other)) == [("a", 2.0)]
