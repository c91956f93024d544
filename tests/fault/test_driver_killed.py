"""The driver, with its JVM, is killed with `kill -9` again and again, in every phase of a micro-batch."""

from __future__ import annotations

import random
import time

import pytest

from tiers import current_tier

from .checker import History
from .judging import finish_and_judge
from .running import Place
from .stream import make_files, write_files

# What is waited for, and how many seconds after it at most the program is killed.
PHASES = {"active": 3.0, "begun": 0.5, "state": 0.06, "written": 0.04, "committed": 0.06}
ROUNDS = current_tier().kill_rounds
# In a single round the sinks share the phases; those that are left, and more, `test_graph_killed.py` has.
SHARED = {"sqlite": ["active", "state"], "parquet": ["state", "written"], "delta": ["state", "written"]}
CHOSEN = SHARED if ROUNDS == 1 else dict.fromkeys(SHARED, list(PHASES) * ROUNDS)
KILLS = len(CHOSEN["sqlite"])
MID_BATCH_MIN = max(1, KILLS * 3 // 10)
# Enough that some are left after the last kill.
FILES = 6 + 3 * KILLS


def moments(seed, sink):
    """For each kill: the phase, how many times it is let pass before, and the seconds after it."""
    draw = random.Random(f"moments {seed} {sink}")
    phases = list(CHOSEN[sink])
    draw.shuffle(phases)
    return [(phase, draw.randrange(2), draw.uniform(0, PHASES[phase])) for phase in phases]


# By day it is enough that the runs that are killed are right.
@pytest.mark.night
@pytest.mark.parametrize(("sink", "at_once"), [("sqlite", 1), ("parquet", 1), ("delta", 1), ("sqlite", 2)])
def test_a_run_that_is_never_disturbed(seed, sink, at_once, start, tmp_path):
    """What the others are compared with is right in the first place, also where a micro-batch has several files."""
    place = Place(tmp_path, sink)
    files = make_files(seed, FILES)
    write_files(place.input, files)
    history = History()
    verdict = finish_and_judge(start(place, "--files-at-once", str(at_once)), place, files, history)
    assert verdict.valid is True, str(verdict)


# By day the driver of the pipeline is killed, which has more steps and more sinks.
@pytest.mark.night
@pytest.mark.parametrize("sink", list(SHARED))
def test_the_driver_is_killed(seed, sink, start, tmp_path):
    place = Place(tmp_path, sink)
    files = make_files(seed, FILES)
    write_files(place.input, files)
    history = History(faults_wanted=KILLS)
    in_batch = 0
    for phase, skipped, delay in moments(seed, sink):
        program = start(place)
        if not program.until_phase(phase, skipped + 1):
            break
        time.sleep(delay)
        if program.ended:
            break
        program.kill()
        begun, committed = place.begun(), place.committed()
        in_batch += begun > committed
        history.note("kill", f"{delay:.3f} s after {phase} (begun {begun}, committed {committed}, state {place.state()})")
    verdict = finish_and_judge(start(place), place, files, history)
    assert verdict.valid is True, str(verdict)
    assert in_batch >= MID_BATCH_MIN, f"only {in_batch} kills came in the middle of a micro-batch"
