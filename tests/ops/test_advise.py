"""`holdfast advise`: the numbers are measured, and what is advised follows from them."""

from __future__ import annotations

import json
import os
import shutil
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from holdfast.checkpoint.parts import Offsets
from holdfast.cli.main import main
from holdfast.ops.inspect.summary import state_ls
from holdfast.ops.upkeep.advise import Goals, advise_from
from holdfast.ops.upkeep.measure import Measured, StepMeasured, _intervals, measure
from holdfast.testing.spark_runtime import scripted_session

from .shared import copied, payments, tree

GB = 1 << 30

STEP = StepMeasured(
    step="totals",
    operator=0,
    backend="heap",
    key_groups=32,
    keys=1000,
    entries=2000,
    live_bytes=50_000,
    stored_bytes=20_000,
    file_bytes=100_000,
    keys_per_batch=0.0,
    changelog_bytes=2_000.0,
    largest_share=1.0,
    is_windowed=False,
    lasting_cells=("count",),
)
MEASURED = Measured(
    checkpoint="/data/checkpoint",
    batch=99,
    batches=100,
    interval_seconds=10.0,
    duration_seconds=3.0,
    cost_seconds=1.0,
    partitions=4,
    restore_bytes=30_000,
    restore_seconds=0.5,
    steps=[STEP],
)
GOALS = Goals(workers=4)


def advised(setting, measured=MEASURED, goals=GOALS, **step):
    """The recommendation for a setting, with a step that is different in some ways."""
    measured = replace(measured, steps=[replace(STEP, **step)])
    found = [r for r in advise_from(measured, goals).recommendations if r.setting == setting]
    return found[0] if found else None


def test_the_size_of_the_state():
    size = advise_from(replace(MEASURED, steps=[replace(STEP, keys_per_batch=0.5)]), GOALS).sizes[0]
    assert (size.keys, size.bytes_per_key, size.versions) == (1000, 50.0, 2.0)
    assert size.bytes == 1000 * 50 * 2
    # 8,640 micro-batches a day, half a key each.
    assert size.bytes_in_a_day == (1000 + 4320) * 50 * 2
    assert advise_from(replace(MEASURED, steps=[replace(STEP, keys=0, live_bytes=0)]), GOALS).sizes[0].bytes == 0


def test_the_interval_of_checkpoints():
    interval = advise_from(MEASURED, GOALS).interval
    assert interval.tolerance == 60 / 3
    assert interval.interval_batches == pytest.approx(1 / (3 * 20))
    assert interval.shortest_seconds == 1 / 0.1
    # Two seconds of work for ten of input, and 60 - 0.5 - 1 seconds to do it in.
    assert interval.longest_seconds == pytest.approx(58.5 / 0.2)


def test_an_interval_that_is_well_stays():
    trigger = advised("trigger=")
    assert not trigger.is_a_change
    assert "10% of the time at an interval of 10 s" in trigger.why


@pytest.mark.parametrize(
    ("goals", "measured", "recommended"),
    [
        ({"interval_seconds": 2.0}, {}, "about every 10 s"),
        ({"interval_seconds": 20.0}, {}, "about every 20 s"),
        ({"interval_seconds": 600.0}, {}, "about every 5 min"),
        ({"overhead": 0.05}, {}, "about every 20 s"),
        ({}, {"cost_seconds": 2.9}, "about every 29 s"),
        ({"recovery_seconds": 3.5}, {}, "about every 10 s"),
        ({}, {"cost_seconds": 3.0, "overhead": 0.1}, "about every 30 s"),
    ],
)
def test_an_interval_between_its_bounds(goals, measured, recommended):
    measured = dict(measured)
    measured.pop("overhead", None)
    trigger = advised("trigger=", replace(MEASURED, **measured), replace(GOALS, **goals))
    assert trigger.recommended == recommended


def test_bounds_that_contradict_each_other():
    trigger = advised("trigger=", replace(MEASURED, restore_seconds=59.5))
    assert trigger.recommended == "about every 10 s"
    assert "would need one every 0 ms" in trigger.why


def test_a_job_that_works_all_the_time():
    assert "busy nearly all the time" in advised("trigger=", replace(MEASURED, duration_seconds=9.8)).why
    assert "busy nearly all the time" not in advised("trigger=").why


def test_a_clock_that_was_set_back_says_nothing():
    offsets = [Offsets(batch, 0, at, {}, ()) for batch, at in enumerate((10_000, 12_000, 2_000, 4_000))]
    assert _intervals(offsets) == [2.0, 2.0]


def test_nothing_could_be_timed():
    nothing = replace(MEASURED, interval_seconds=None, duration_seconds=None, cost_seconds=None)
    found = advise_from(nothing, GOALS)
    assert found.interval is None
    assert {r.setting for r in found.recommendations} >= {"key_groups=", "backend=", "spark.sql.shuffle.partitions"}
    assert "trigger=" not in {r.setting for r in found.recommendations}


def test_how_many_to_retain():
    assert advised("retained_batches=").recommended == "360"
    assert advised("retained_batches=", goals=replace(GOALS, history_seconds=60)).recommended == "10"


def test_how_many_changelogs_between_snapshots():
    setting = "spark.sql.streaming.stateStore.minDeltasForSnapshot"
    assert advised(setting).recommended == "10"
    # A changelog takes 5 of the 15 seconds that replaying may take.
    assert advised(setting, replace(MEASURED, restore_bytes=4_000, restore_seconds=10.0)).recommended == "3"
    assert advised(setting, replace(MEASURED, restore_bytes=0, restore_seconds=0.0)) is None


@pytest.mark.parametrize(
    ("partitions", "step", "recommended"),
    [(4, {}, "4"), (2, {}, "4"), (64, {}, "32"), (40, {"key_groups": 50}, "8"), (8, {"key_groups": 2}, "2")],
)
def test_partitions(partitions, step, recommended):
    found = advised("spark.sql.shuffle.partitions", replace(MEASURED, partitions=partitions), **step)
    assert found.recommended == recommended
    assert ("holdfast rescale" in found.why) == found.is_a_change


def test_a_few_keys_that_have_most():
    assert "2.5 times an even share" in advised("spark.sql.shuffle.partitions", largest_share=2.5).why


@pytest.mark.parametrize(
    ("step", "recommended"),
    [
        ({}, "32"),
        ({"key_groups": 4}, "16"),
        ({"key_groups": 4096}, "16"),
        ({"key_groups": 8, "stored_bytes": 8 * GB}, "512"),
        ({"key_groups": 512, "stored_bytes": 8 * GB, "keys": 10**8}, "512"),
    ],
)
def test_key_groups(step, recommended):
    assert advised("key_groups=", **step).recommended == recommended


@pytest.mark.parametrize(
    ("step", "recommended"),
    [
        ({}, "heap"),
        ({"stored_bytes": 4 * GB}, "disk"),
        ({"backend": "disk"}, "heap"),
        ({"backend": "disk", "stored_bytes": GB, "entries": 10**7}, "disk"),
        # 100 MB now, and 87 times as many keys in a day.
        ({"entries": 2_000_000, "keys": 1000, "keys_per_batch": 10.0}, "disk"),
    ],
)
def test_the_backend(step, recommended):
    assert advised("backend=", **step).recommended == recommended
    assert advised("backend=", **{**step, "backend": "own"}) is None


def test_state_that_only_grows():
    found = advised("ttl=", keys_per_batch=2.0)
    assert found.recommended == "on count"
    assert "17,280 a day" in found.why
    for step in ({"keys_per_batch": -1.0}, {"is_windowed": True}, {"lasting_cells": ()}, {"keys_per_batch": None}):
        assert advised("ttl=", **{"keys_per_batch": 2.0, **step}) is None


# On a real checkpoint


@pytest.fixture(scope="module")
def checkpoint():
    path = payments().checkpoint
    before = tree(path)
    yield path
    assert tree(path) == before


def test_what_is_measured(checkpoint):
    spark = scripted_session()
    found = measure(spark, checkpoint)
    last = found.batch
    times = [_head(checkpoint, batch)["batchTimestampMs"] / 1000 for batch in range(last + 1)]
    assert found.batches == last + 1
    gaps = sorted(b - a for a, b in pairwise(times))
    assert gaps[0] <= found.interval_seconds <= gaps[-1]
    assert 0 < found.cost_seconds <= found.duration_seconds <= gaps[-1] + 60
    assert found.restore_bytes > 0
    assert found.restore_seconds > 0
    now, first = ({s.step: s for s in state_ls(spark, checkpoint, batch)} for batch in (last, 0))
    for step in found.steps:
        assert step.keys == now[step.step].keys
        assert step.keys_per_batch == (now[step.step].keys - first[step.step].keys) / last
        files = [p for p in (Path(checkpoint) / "state" / str(step.operator)).glob("[0-9]*/**/*") if p.is_file()]
        assert step.file_bytes <= sum(p.stat().st_size for p in files)
        assert step.changelog_bytes > 0
    by_name = {step.step: step for step in found.steps}
    assert by_name["everything"].is_windowed
    assert not by_name["running"].is_windowed
    assert by_name["running"].lasting_cells == ("total",)
    assert "by_kind" not in by_name["everything"].lasting_cells


def _head(checkpoint, batch):
    return json.loads((Path(checkpoint) / "offsets" / str(batch)).read_text().splitlines()[1])


def test_the_command(checkpoint, capfd):
    assert main(["advise", checkpoint, "--json", "--workers", "2", "--interval", "5", "--recovery-target", "30"]) == 0
    result = json.loads(capfd.readouterr().out)
    assert [size["step"] for size in result["sizes"]] == ["everything", "running"]
    assert result["interval"]["shortest_seconds"] > 0
    assert {"trigger=", "retained_batches=", "key_groups=", "backend="} <= {r["setting"] for r in result["recommendations"]}
    assert main(["advise", checkpoint]) == 0
    said = capfd.readouterr().out
    for text in (
        "State size = keys x bytes per key x versions",
        "Checkpoint interval",
        "trigger=: about every",
        "recovery",
    ):
        assert text in said


def test_a_copy_says_nothing_about_times(tmp_path, capfd):
    copy = copied(tmp_path / "copy")
    now = time.time()
    for path in (Path(copy) / "commits").iterdir():
        os.utime(path, (now + 5000, now + 5000))
    last = measure(scripted_session(), copy)
    # Only of the last one it cannot be told.
    assert last.cost_seconds is None or last.cost_seconds > 1000


def test_bad_input(tmp_path, capfd):
    copy = copied(tmp_path / "copy")
    shutil.rmtree(Path(copy) / "commits")
    before = tree(copy)
    for arguments, text in (
        ([str(tmp_path / "none")], "There is nothing at"),
        ([str(tmp_path)], "is not a checkpoint of a streaming query"),
        ([copy], "nothing has been committed"),
    ):
        assert main(["advise", *arguments]) == 1
        assert text in capfd.readouterr().err
    for wrong in (["--interval", "0"], ["--overhead", "2"], ["--workers", "0"], ["--recovery-target", "soon"]):
        assert main(["advise", copy, *wrong]) == 2
    assert tree(copy) == before
