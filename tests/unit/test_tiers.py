"""Every file of tests is in a tier, and what `make test` leaves out can be told by one mark."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings

import scheduling
import tiers

TESTS = Path(__file__).parents[1]
FILES = sorted(path.relative_to(TESTS).as_posix() for path in TESTS.rglob("test_*.py"))


def collected(tier: str, *arguments: str) -> list[str]:
    """What a tier has: a line for each file, with the number of its tests."""
    command = [sys.executable, "-m", "pytest", "-qq", "--collect-only", "-p", "no:cacheprovider", "--tier", tier, *arguments]
    # With one seed, so that the tiers differ in nothing but which tests they have.
    environment = {**os.environ, "HOLDFAST_FAULT_SEED": "1"}
    done = subprocess.run(command, cwd=TESTS.parent, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return sorted(line for line in done.stdout.splitlines() if ".py: " in line)


@pytest.mark.night
@pytest.mark.slow
def test_every_file_is_in_a_tier():
    found = {line.partition(": ")[0] for line in collected("all")}
    assert found == {f"tests/{name}" for name in FILES}


@pytest.mark.night
@pytest.mark.slow
def test_what_is_left_for_the_night_is_marked():
    by_day = collected("test", "tests/fault")
    assert by_day == collected("all", "-m", "not night", "tests/fault")
    assert by_day != collected("all", "tests/fault")


def test_marks_decide():
    in_tiers = {
        marks: [name for name, tier in tiers.TIERS.items() if tiers.is_in_tier(tier, set(marks))]
        for marks in [(), ("slow",), ("night",), ("slow", "night"), ("parametrize",)]
    }
    assert in_tiers == {
        (): ["fast", "test", "all"],
        ("slow",): ["test", "all"],
        ("night",): ["all"],
        ("slow", "night"): ["all"],
        ("parametrize",): ["fast", "test", "all"],
    }


def test_folders_that_need_spark_are_not_fast():
    slow = {name for name in {Path(file).parts[0] for file in FILES} if "slow" in tiers.marks_of_folder(name)}
    assert slow >= {"fault", "integration", "ops"}
    assert not slow & {"contract", "property", "texts", "unit"}


def test_a_larger_tier_has_more_of_everything():
    fast, test, everything = tiers.TIERS.values()
    for smaller, larger in ((fast, test), (test, everything)):
        assert smaller.examples_percent < larger.examples_percent
        assert smaller.stops <= larger.stops
        assert smaller.kill_rounds <= larger.kill_rounds
        assert set(smaller.fault_seeds.split(",")) <= set(larger.fault_seeds.split(","))


def test_the_profile_is_that_of_the_tier():
    assert settings.default.max_examples == tiers.examples(100)
    assert tiers.examples(1000) == 10 * tiers.current_tier().examples_percent
    assert settings.default.deadline is None


def test_a_test_that_starts_spark_is_not_fast():
    tiers.refuse_spark("subprocess.Popen", ("git", ["git", "status"]))
    tiers.refuse_spark("open", ("spark-submit", ["spark-submit"]))
    with pytest.raises(RuntimeError, match=r"mark it with @pytest\.mark\.slow"):
        tiers.refuse_spark("subprocess.Popen", ("bash", ["/spark/bin/spark-submit", "pyspark-shell"]))


def test_the_longest_files_are_there_and_begin_first():
    assert [name for name in scheduling.LONGEST if name not in FILES] == []
    order = sorted(FILES, key=scheduling.rank)
    assert order[: len(scheduling.LONGEST)] == list(scheduling.LONGEST)
    assert order[-1].startswith("unit/")


def test_a_file_stays_together_unless_its_tests_stand_alone():
    split = scheduling.LongestFirst._split_scope
    assert split(None, "tests/ops/test_lock.py::TestA::test_b[c::d]") == "tests/ops/test_lock.py"
    alone = f"tests/{scheduling.APART[0]}::test_b[c]"
    assert split(None, alone) == alone
