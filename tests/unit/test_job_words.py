"""Flink's words for a job's options: what each means, and what is refused."""

from __future__ import annotations

from datetime import timedelta

import pytest

pytest.importorskip("pyspark")

import holdfast as hf
from holdfast.engine.backends.choice import backend_of
from holdfast.errors import InvalidStep
from holdfast.model.functions.options import StepOptions
from holdfast.spark.job.triggers import AvailableNow, Every
from holdfast.spark.job.words import backend_of_job, failures_of, pause_seconds, state_dir_of, trigger_of
from holdfast.testing import TestStream, run


def asked(function, *given):
    """What a function makes of what was given; there must be no problem with it."""
    problems: list[str] = []
    made = function(*given, problems)
    assert problems == []
    return made


def refused(function, *given):
    """The one problem that a function has."""
    problems: list[str] = []
    function(*given, problems)
    (problem,) = problems
    return problem


def test_an_interval_is_a_trigger():
    for given in ("60 seconds", timedelta(minutes=1), hf.Duration.of_millis(60_000)):
        trigger = asked(trigger_of, None, given)
        assert isinstance(trigger, Every)
        assert hf.Duration.of(trigger.interval) == 60
    assert asked(trigger_of, "available now", None) == AvailableNow()
    assert asked(trigger_of, None, None) == Every(0)


@pytest.mark.parametrize("given", [60_000, 60.0, True])
def test_a_number_without_a_unit_is_refused(given):
    """In Flink 60_000 is a minute, and here it would be sixteen hours."""
    for problem in (refused(trigger_of, None, given), refused(pause_seconds, given)):
        assert f" is {given!r}; give the unit with it, such as '30 seconds'" in problem
        assert "milliseconds in Flink, and seconds here" in problem


@pytest.mark.parametrize("given", ["available now", "soon", "", timedelta(-1)])
def test_what_is_no_span_is_refused(given):
    assert refused(trigger_of, None, given).startswith(f"checkpoint_interval is {given!r}, which is no span of time")
    assert refused(pause_seconds, given).startswith(f"min_pause is {given!r}, which is no span of time")


def test_a_pause():
    assert asked(pause_seconds, None) == 0
    assert asked(pause_seconds, "30 seconds") == asked(pause_seconds, hf.Duration.of_millis(30_000)) == 30
    assert asked(pause_seconds, timedelta(milliseconds=1_500)) == 1.5


def test_failures():
    assert asked(failures_of, None, None) == 0
    assert asked(failures_of, 3, None) == asked(failures_of, None, 3) == 3


@pytest.mark.parametrize(("ours", "flinks"), [(3, 3), (0, 3), (3, 0)])
def test_two_words_for_one_thing_are_refused_also_if_they_agree(ours, flinks):
    told = f"tolerated_failures={ours} and tolerable_failures={flinks} are two words for one thing: give one of them."
    assert refused(failures_of, ours, flinks) == told
    assert "two words for one thing" in refused(trigger_of, "10 seconds", "10 seconds")


def test_backends():
    assert asked(backend_of_job, None) is None
    assert [asked(backend_of_job, word) for word in ("heap", "hashmap", "disk", "rocksdb")] == [
        "heap",
        "heap",
        "disk",
        "disk",
    ]
    assert "that of a job can be 'heap' or 'disk'" in refused(backend_of_job, "tape")
    assert "to the steps that are to have it" in refused(backend_of_job, object())


@pytest.mark.parametrize(("word", "ours"), [("hashmap", "heap"), ("rocksdb", "disk"), (None, "heap")])
def test_a_step_takes_flinks_words_too(word, ours):
    class Count(hf.DoFn):
        COUNT = hf.ValueStateSpec("count")

        def process(self, element, count=hf.DoFn.StateParam(COUNT)):
            count.write((count.read() or 0) + 1)
            yield element[0], count.read()

    options = StepOptions.of("count", {"backend": word})
    assert backend_of(options) == ours
    first = run(Count(), TestStream().add_elements([("a", 1)]), backend=word)
    then = run(Count(), TestStream().add_elements([("a", 1)]), backend=ours, start_from=first)
    assert then.values == [("a", 2)]


def test_a_directory(tmp_path):
    assert asked(state_dir_of, None) is None
    assert asked(state_dir_of, tmp_path) == asked(state_dir_of, f"file:{tmp_path}") == str(tmp_path)
    assert "which is no local path: working files are on the workers' own disks" in refused(state_dir_of, "s3a://bucket/x")
    assert "give an absolute path" in refused(state_dir_of, "state")
    assert "give the path of a directory" in refused(state_dir_of, 5)
    assert "give the path of a directory" in refused(state_dir_of, "")


def test_a_job_tells_all_of_it_together():
    with pytest.raises(InvalidStep) as told:
        hf.Job(
            "",
            checkpoint="checkpoint",
            trigger="10 seconds",
            checkpoint_interval=60_000,  # type: ignore[arg-type]
            min_pause="soon",
            tolerated_failures=1,
            tolerable_failures=-1,
            backend="tape",  # type: ignore[arg-type]
            state_dir="state",
        )
    assert len(told.value.problems) == 8


def test_a_job_in_flinks_words():
    job = hf.Job(
        "rides",
        checkpoint="checkpoint",
        checkpoint_interval="60 seconds",
        min_pause="30 seconds",
        tolerable_failures=3,
        backend="rocksdb",
        state_dir="/tmp/flink-state",
    )
    assert (job._trigger, job._tolerated_failures, job._backend) == (Every(hf.Duration(60)), 3, "disk")


def test_a_job_that_cannot_be_built_is_called_a_job(tmp_path):
    with pytest.raises(InvalidStep) as refused:
        hf.Job("rides", checkpoint=str(tmp_path), min_pause=30_000, tolerable_failures=-1)
    assert str(refused.value).startswith("The job 'rides' cannot be built: 2 problems.")
    assert "tolerable_failures, is -1" in str(refused.value)


@pytest.mark.parametrize("given", [None, "", " ", 7])
def test_a_checkpoint_is_a_path(given):
    """Text of None would be one, of a directory that nobody would look for."""
    with pytest.raises(InvalidStep, match="give the path of a directory") as refused:
        hf.Job("j", checkpoint=given)
    assert f"checkpoint is {given!r}" in str(refused.value)
