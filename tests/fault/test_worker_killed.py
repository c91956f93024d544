"""Python workers are killed while the query runs; Spark tries their tasks again, in the same driver."""

from __future__ import annotations

import random
import time

from tiers import current_tier

from .checker import History, check
from .oracle import expected_rows
from .running import Place, read_sink
from .stream import make_files, write_files

KILLS = 6 * current_tier().kill_rounds - 4
FILES = 8 + 4 * KILLS


def workers(program):
    """The workers are forks of a daemon, and look like it."""
    alike = [process for process in program.processes() if "holdfast.spark.stages.daemon" in process.command]
    pids = {process.pid for process in alike}
    return [process for process in alike if process.parent in pids]


def test_workers_are_killed(seed, start, tmp_path):
    """With little memory for key groups, so that workers also evict and read again all the time."""
    draw = random.Random(f"workers {seed}")
    place = Place(tmp_path)
    files = make_files(seed, FILES)
    write_files(place.input, files)
    history = History(faults_wanted=KILLS)
    # A local master that tries a task four times, which by default it does not.
    program = start(place, "--master", "local[2,4]", "--memory-budget-bytes", "400000")
    for _ in range(KILLS):
        last = place.committed()
        passed = draw.randrange(1, 4)
        if not program.until(lambda last=last, passed=passed: place.committed() >= last + passed, "a commit"):
            break
        delay = draw.uniform(0, 0.6)
        time.sleep(delay)
        found = program.until_there(workers)
        if not found:
            break
        victim = draw.choice(found)
        if program.kill_one(victim):
            history.note("kill", f"worker {victim.pid}, {delay:.3f} s after a commit (committed {place.committed()})")
    program.finish()
    history.ended = True
    history.note("end", str(program.said))
    verdict = check(history, lambda: read_sink(place), lambda: expected_rows(place.micro_batches(files)))
    assert verdict.valid is True, str(verdict)
