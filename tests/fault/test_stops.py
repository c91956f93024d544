"""Stops at every point of a micro-batch, of a start and of a restart: nothing is lost, and nothing is done twice.

One checkpoint goes through many lives. Each is stopped somewhere; the next goes on. The sink notes what it is given. After
every stop, each micro-batch that Spark holds for committed must be in the sink, whole; at the end the rows must be those
that a plain loop over the input gives, each once. `HOLDFAST_STOPS=60`, or the tier, makes it as many stops for
each trigger.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.testing.spark_runtime import scripted_session
from tiers import current_tier

from .checker import History
from .judging import finish_and_judge
from .running import Place
from .stream import make_files, write_files

STOPS = int(os.environ.get("HOLDFAST_STOPS", current_tier().stops))
KEYS = 5
ROWS = 20
OUTPUT = "k string, v long, n long, total long"

TRIGGERS = {
    "at once": lambda: None,
    "every": lambda: "200 milliseconds",
    "available now": lambda: "available now",
    "batches": lambda: hf.Batches(3),
}


class Totals(hf.DoFn):
    """What a lost, doubled or reordered element would change for good."""

    COUNT = hf.ValueStateSpec("count", hf.VarIntCoder())
    TOTAL = hf.ValueStateSpec("total", hf.VarIntCoder())

    def process(self, element, count=hf.DoFn.StateParam(COUNT), total=hf.DoFn.StateParam(TOTAL)):
        key, value = element
        count.write((count.read() or 0) + 1)
        total.write(((total.read() or 0) * 31 + value) % 1_000_003)
        yield key, value, count.read(), total.read()


def check_rows(rows, files):
    """Each element is there once; and for each key, in the order of the counts, the totals follow from the values.

    In which order a key got its elements is Spark's choice: stopped between noting a file and beginning a micro-batch, it
    gives that file to the next one, together with its own.
    """
    assert sorted((k, v) for k, v, _, _ in rows) == sorted(element for content in files for element in content)
    for key in {k for k, _, _, _ in rows}:
        total = 0
        for number, (n, value, given) in enumerate(sorted((n, v, t) for k, v, n, t in rows if k == key), start=1):
            total = (total * 31 + value) % 1_000_003
            assert (n, given) == (number, total), f"{key}: element {value} came as number {n} with {given}"


class Source:
    """Files of which Spark takes one a micro-batch; more can be added."""

    def __init__(self, folder):
        self.folder = folder
        self.files = []
        folder.mkdir(parents=True)

    def add(self, count):
        for _ in range(count):
            number = len(self.files)
            content = [(f"k{(number * 7 + i) % KEYS}", number * ROWS + i) for i in range(ROWS)]
            partial = self.folder / f".{number:05d}.json"
            partial.write_text("".join(json.dumps({"k": k, "v": v}) + "\n" for k, v in content))
            os.utime(partial, (1_700_000_000 + number, 1_700_000_000 + number))
            partial.rename(self.folder / f"{number:05d}.json")
            self.files.append(content)

    def frame(self, spark):
        reader = spark.readStream.schema("k string, v long").option("maxFilesPerTrigger", 1)
        return reader.json(str(self.folder))


class Noted:
    """A sink's function that notes what it is given, and calls back at three points."""

    def __init__(self):
        self.batches = {}
        self.before = self.inside = self.after = lambda: None

    def __call__(self, rows, batch_id):
        self.before()
        taken = sorted(map(tuple, rows.collect()))
        self.inside()
        assert self.batches.setdefault(batch_id, taken) == taken, "a micro-batch came again with other rows"
        self.after()


def committed(checkpoint):
    folder = Path(checkpoint) / "commits"
    return {int(name) for name in os.listdir(folder) if name.isdigit()} if folder.exists() else set()


class Rig:
    """One checkpoint and its lives."""

    def __init__(self, folder, stateful=True):
        self.spark = scripted_session()
        self.source = Source(folder / "input")
        self.checkpoint = str(folder / "checkpoint")
        self.noted = Noted()
        self.stateful = stateful

    def job(self, trigger):
        frame = self.source.frame(self.spark)
        if self.stateful:
            frame = hf.keyed(frame, key="k", value="v").par_do(Totals(), output=OUTPUT, key_groups=2)
        job = hf.Job(f"stops in {self.source.folder}", checkpoint=self.checkpoint, trigger=trigger, progress=False)
        return job.write(frame, hf.sinks.ForeachBatch(self.noted))

    def check(self):
        missing = committed(self.checkpoint) - self.noted.batches.keys()
        assert not missing, f"Spark holds {sorted(missing)} for committed, and nobody has processed them"

    def finish(self):
        self.noted.before = self.noted.inside = self.noted.after = lambda: None
        self.job("available now").run()
        self.check()
        rows = [row for batch in sorted(self.noted.batches) for row in self.noted.batches[batch]]
        if self.stateful:
            check_rows(rows, self.source.files)
        else:
            assert sorted(rows) == sorted(row for content in self.source.files for row in content)


def in_thread(function):
    thread = threading.Thread(target=function, daemon=True)
    thread.start()
    return thread


def stop_at(rig, job, point, draw):
    """Runs a job and stops it at a point; gives when that is over."""
    reached = threading.Event()
    hook = {"before": "before", "inside": "inside", "after": "after", "by the handler": "inside", "in between": "after"}
    skip = [draw.randrange(3)]

    def reach():
        skip[0] -= 1
        if skip[0] < 0:
            reached.set()
            if point == "by the handler":
                job.stop()

    if point in hook:
        setattr(rig.noted, hook[point], reach)
    stopping = []
    if point == "while it starts":
        starting = in_thread(lambda: job.start())
        wait_for(lambda: job._life.phase.value != "new" or not starting.is_alive())
        time.sleep(draw.random() * 2.5)
        job.stop()
        starting.join(120)
    else:
        job.start()
        if point == "soon":
            time.sleep(draw.random() * 2)
        else:
            wait_for(lambda: reached.is_set() or not job.query.isActive)
        time.sleep(draw.random() * 0.1 if point in ("in between", "after") else 0)
        if point != "by the handler":
            stopping = [in_thread(job.stop) for _ in range(draw.choice([1, 1, 2, 3]))]
        job.wait()
        for thread in stopping:
            thread.join(120)
            assert not thread.is_alive()
    rig.noted.before = rig.noted.inside = rig.noted.after = lambda: None
    assert not job.query.isActive if job._query is not None else True


def wait_for(is_so, seconds=120):
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.005)


POINTS = ["while it starts", "before", "inside", "after", "in between", "by the handler", "soon"]


def play(rig, trigger, stops, seed):
    draw = random.Random(f"stops {trigger} {rig.stateful} {seed}")
    for number in range(stops):
        point = POINTS[number % len(POINTS)] if stops >= len(POINTS) else draw.choice(POINTS)
        rig.source.add(draw.randrange(3, 6))
        print(f"{number:4} {trigger:14} {point}", flush=True)
        stop_at(rig, rig.job(TRIGGERS[trigger]()), point, draw)
        rig.check()
    rig.finish()


@pytest.mark.parametrize(
    "trigger", [pytest.param(trigger, marks=[pytest.mark.night] * (trigger == "every")) for trigger in TRIGGERS]
)
def test_no_stop_loses_a_micro_batch(tmp_path, trigger, seed):
    play(Rig(tmp_path), trigger, STOPS, seed)


def test_no_stop_loses_a_micro_batch_without_state(tmp_path, seed):
    play(Rig(tmp_path, stateful=False), "at once", STOPS, seed)


@pytest.mark.night
def test_no_stop_loses_a_micro_batch_on_a_busy_machine(tmp_path, seed):
    burn = "import os, time\nend = time.time() + 1800\nwhile time.time() < end and os.getppid() != 1: pass"
    burners = [subprocess.Popen([sys.executable, "-c", burn]) for _ in range(8)]
    try:
        play(Rig(tmp_path), "at once", STOPS // 2, seed)
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


@pytest.mark.parametrize(
    "signals",
    [
        ("Ctrl-C",),
        *(pytest.param(signals, marks=pytest.mark.night) for signals in [("Ctrl-C", "SIGTERM"), ("SIGTERM twice",)]),
    ],
)
def test_signals_from_outside(seed, signals, start, tmp_path):
    """A program with a JVM of its own. Ctrl-C at a terminal reaches all of its processes."""
    place, draw = Place(tmp_path, "sqlite"), random.Random(f"signals {signals} {seed}")
    sent = signals * max(1, STOPS // 10)
    # Enough that some are left for each.
    files = make_files(seed, 4 + 2 * len(sent))
    write_files(place.input, files)
    history = History(faults_wanted=len(sent))
    for number, how in enumerate(sent):
        program = start(place, "--until-stopped")
        # None: while it starts.
        seen, skipped = place.committed(), number % 3
        if not program.until(lambda seen=seen, skipped=skipped: place.committed() >= seen + skipped, "a commit"):
            break
        time.sleep(draw.random() * 0.5)
        program.signal(signal.SIGINT if how == "Ctrl-C" else signal.SIGTERM, everybody=how == "Ctrl-C")
        if how == "SIGTERM twice":
            time.sleep(draw.random() * 0.2)
            program.signal(signal.SIGTERM, everybody=False)
        program.finish()
        history.note("kill", f"{how} (begun {place.begun()}, committed {place.committed()}, state {place.state()})")
    verdict = finish_and_judge(start(place), place, files, history)
    assert verdict.valid is True, str(verdict)


@pytest.mark.night
def test_jobs_that_run_side_by_side_are_stopped_each_for_itself(tmp_path, seed):
    rigs = [Rig(tmp_path / str(number)) for number in range(3)]
    draw = random.Random(f"side by side {seed}")
    for _ in range(max(1, STOPS // 8)):
        jobs = []
        for rig in rigs:
            rig.source.add(3)
            jobs.append(rig.job(None).start())
        wait_for(lambda: all(rig.noted.batches for rig in rigs))
        time.sleep(draw.random())
        for thread in [in_thread(job.stop) for job in jobs]:
            thread.join(120)
        for rig in rigs:
            rig.check()
    for rig in rigs:
        rig.finish()


def test_a_sink_that_looks_at_a_part_of_the_rows_loses_no_state(tmp_path):
    rig = Rig(tmp_path)
    frame = hf.keyed(rig.source.frame(rig.spark), key="k", value="v").par_do(Totals(), output=OUTPUT, key_groups=2)
    seen = []

    def careless(rows, batch_id):
        if batch_id % 2:
            seen.extend(rows.take(1))

    rig.source.add(4)
    job = hf.Job("careless", checkpoint=rig.checkpoint, trigger="available now", progress=False)
    job.write(frame.where("n > 0"), hf.sinks.ForeachBatch(careless)).run()
    assert len(seen) == 2
    rig.source.add(1)
    rows = []
    job = hf.Job("careless", checkpoint=rig.checkpoint, trigger="available now", progress=False)
    job.write(frame.where("n > 0"), hf.sinks.ForeachBatch(lambda batch, _: rows.extend(batch.collect()))).run()
    assert sorted(n for _, _, n, _ in rows) == sorted(n for n in range(17, 21) for _ in range(KEYS))
