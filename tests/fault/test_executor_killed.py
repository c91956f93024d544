"""Executors are killed on a cluster of two, each with its JVM, its state stores and its part of the cached micro-batch."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pyspark
import pytest

from tiers import current_tier

from .checker import History, check
from .oracle import expected_rows
from .running import Place, read_sink
from .stream import make_files, write_files

KILLS = 2 * current_tier().kill_rounds - 1
FILES = 4 + 8 * KILLS


def spark_home(directory):
    """What pip installed, by links: Spark writes the executors' logs into its home, which must not be the package."""
    home = directory / "spark-home"
    home.mkdir()
    for entry in Path(pyspark.__file__).parent.iterdir():
        (home / entry.name).symlink_to(entry)
    return home


def executors(program):
    return [process for process in program.processes() if "CoarseGrainedExecutorBackend" in process.command]


@pytest.mark.night
def test_executors_are_killed(seed, start, tmp_path):
    draw = random.Random(f"executors {seed}")
    place = Place(tmp_path)
    files = make_files(seed, FILES)
    write_files(place.input, files)
    history = History(faults_wanted=KILLS)
    env = {"SPARK_HOME": str(spark_home(tmp_path)), "SPARK_LOCAL_IP": "127.0.0.1", "PATH": os.environ["PATH"]}
    program = start(place, "--master", "local-cluster[2,1,1024]", env=env)
    for _ in range(KILLS):
        last = place.committed()
        passed = draw.randrange(2, 5)
        if not program.until(lambda last=last, passed=passed: place.committed() >= last + passed, "a commit"):
            break
        delay = draw.uniform(0, 1)
        time.sleep(delay)
        found = program.until_there(executors, 2)
        if not found:
            break
        victim = draw.choice(found)
        if program.kill_one(victim):
            history.note("kill", f"executor {victim.pid}, {delay:.3f} s after a commit (committed {place.committed()})")
    program.finish()
    history.ended = True
    history.note("end", str(program.said))
    verdict = check(history, lambda: read_sink(place), lambda: expected_rows(place.micro_batches(files)))
    assert verdict.valid is True, str(verdict)
