"""The driver of a job of two steps and five sinks is killed with `kill -9` again and again: each sink has what it must."""

from __future__ import annotations

import random
import time
from typing import NamedTuple

import pytest

from .checker import History, check
from .events import make_events
from .pipeline_oracle import SINKS, differences, expected_sinks, read_written
from .running import Place
from .stream import write_files

# What is waited for, and how many seconds after it at most the program is killed.
PHASES = {"active": 3.0, "begun": 0.5, "state": 0.06, "committed": 0.06}
BY_DAY = 3
AT_NIGHT = 10
# Such a kill is of a program that waits for it: how many sinks have been written in a micro-batch.
BETWEEN = range(1, len(SINKS))


class Moment(NamedTuple):
    """When a life ends."""

    phase: str
    """One of `PHASES`, or "held"."""
    passes: int
    """How many times it is let pass before."""
    delay: float = 0.0
    """Seconds after it."""
    written: int = 0
    """If held: how many sinks have been written."""

    @property
    def arguments(self):
        """For the program."""
        held = ["--hold-written", str(self.written), "--hold-passes", str(self.passes)]
        return held if self.phase == "held" else []

    def __str__(self):
        return f"held, {self.written} sinks written" if self.phase == "held" else f"{self.delay:.3f} s after {self.phase}"


AFTER_DELTA = Moment("held", 1, written=3)
"""In the second micro-batch, after both Delta tables have been written, one appended to and one upserted."""


def moments(seed, kills):
    """The first is in the first micro-batch of all; the others come in any order."""
    if kills == 1:
        return [AFTER_DELTA]
    draw = random.Random(f"graph {seed}")
    gaps = draw.sample(BETWEEN, 3)

    def watched(phase):
        return Moment(phase, draw.randrange(2), draw.uniform(0, PHASES[phase]))

    def held(written):
        return Moment("held", draw.randrange(2), written=written)

    first = Moment("begun", 0, draw.uniform(0, PHASES["begun"]))
    later = [held(gaps[0]), watched("state")]
    later += [held(gaps[1]), held(gaps[2]), held(0), held(len(SINKS)), *map(watched, ("begun", "committed", "active"))]
    later = later[: kills - 1]
    draw.shuffle(later)
    return [first, *later]


def is_there(program, moment):
    """Waits for a moment; whether it has come before the program ended."""
    if moment.phase == "held":
        return program.until(lambda: any(line.startswith("held") for line in program.said), "the hold")
    if not program.until_phase(moment.phase, moment.passes + 1):
        return False
    time.sleep(moment.delay)
    return not program.ended


def files_for(kills):
    """Enough that some are left after the last kill: before each but the first, at most two micro-batches are let pass."""
    return 1 + 2 * kills


def judge(history, place, files):
    """A verdict for each sink."""
    verdicts = {}
    for sink in SINKS:

        def expected(sink=sink):
            return expected_sinks(place.micro_batches(files))[sink]

        def read(sink=sink):
            return read_written(place.output, sink)

        verdicts[sink] = verdict = check(history, read, expected)
        if verdict.valid in (True, False):
            counts = differences(read(), expected())
            history.note("sink", f"{sink}: {len(expected())} rows; {', '.join(f'{n} {kind}' for kind, n in counts.items())}")
    return verdicts


@pytest.mark.parametrize(
    ("sink", "kills"),
    [
        ("several", BY_DAY),
        pytest.param("several-delta", 1, marks=pytest.mark.night),
        pytest.param("several", AT_NIGHT, marks=pytest.mark.night),
        pytest.param("several-delta", AT_NIGHT, marks=pytest.mark.night),
    ],
)
def test_a_pipeline_is_killed(seed, sink, kills, start, tmp_path):
    place = Place(tmp_path, sink)
    files = make_events(seed, files_for(kills))
    write_files(place.input, files)
    history = History(faults_wanted=kills)
    in_batch = 0
    for moment in moments(seed, kills):
        program = start(place, *moment.arguments)
        if not is_there(program, moment):
            break
        program.kill()
        begun, committed = place.begun(), place.committed()
        in_batch += begun > committed
        history.note("kill", f"{moment} (begun {begun}, committed {committed}, state {place.state()})")
    program = start(place)
    program.finish()
    history.ended = True
    history.note("end", str(program.said))
    verdicts = judge(history, place, files)
    assert all(verdict.valid is True for verdict in verdicts.values()), "\n".join(f"{s}: {v}" for s, v in verdicts.items())
    assert in_batch >= max(1, kills // 2), f"only {in_batch} kills came in the middle of a micro-batch"


def test_the_events_have_some_of_everything(seed):
    """A kill shows only in what there is: repeats that pass and repeats that do not, refusals, letters, closed minutes."""
    files = make_events(seed, files_for(BY_DAY))
    written = expected_sinks(files)
    sound = [event for content in files for event in content if event.id and event.amount.removeprefix("-").isdigit()]
    passed = [row[0] for row in written["deduplicated"]]
    letters = written["dead"]
    assert len(sound) > len(passed) > len(set(passed))
    assert len(passed) > len(written["accepted"]) + sum(step == "limit" for step, *_ in letters)
    assert {(step, id == "") for step, id, *_ in letters} == {("dedup", True), ("dedup", False), ("limit", False)}
    assert {id for _, id, *_ in letters} & set(passed)
    places = [(user, minute) for user, minute, _ in written["minutes"]]
    assert len(places) > len(set(places)) > len(written["large"]) > 10
