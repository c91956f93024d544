"""Thresholds: the defaults, others from a mapping or a file, and what is refused."""

from __future__ import annotations

import dataclasses

import pytest

import holdfast as hf
from histories import Story
from holdfast.watch import Level, Limit, Thresholds, judge

GB = 1 << 30


def test_the_defaults_are_those_of_the_table():
    found = Thresholds()
    assert found.state_bytes == Limit(GB, 5 * GB)
    assert found.checkpoint_ms == Limit(10_000, 30_000)
    assert found.update_ms == Limit(10, 50)
    assert found.cleanup_ms == Limit(5_000, 15_000)
    assert found.memory_bytes == Limit(2 * GB, 4 * GB)


def test_each_measure_has_a_threshold_and_each_threshold_a_measure():
    limits = [each.name for each in dataclasses.fields(Thresholds) if isinstance(each.default, Limit)]
    assert sorted(measure.name for measure in judge(Story(batches=3).history()).measures) == sorted(limits)


def test_from_a_mapping():
    found = Thresholds.from_mapping({"state_bytes": {"critical": 7 * GB}, "update_ms": {"warning": 5}, "window_batches": 10})
    assert found == Thresholds(state_bytes=Limit(GB, 7 * GB), update_ms=Limit(5, 50), window_batches=10)


def test_from_a_file(tmp_path):
    file = tmp_path / "thresholds.toml"
    file.write_text("growth_ms = 60_000\n\n[source_lag]\nwarning = 1_000_000\n", encoding="utf-8")
    assert Thresholds.from_file(str(file)) == Thresholds(growth_ms=60_000, source_lag=Limit(1_000_000))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"state_byte": {}}, "'state_byte' is not a threshold; did you mean 'state_bytes'?"),
        ({"state_bytes": 5}, "state_bytes is 5; give {warning = …, critical = …}"),
        ({"state_bytes": {"warn": 5}}, "state_bytes is {'warn': 5}; give"),
        ({"state_bytes": {"warning": "1GB"}}, "state_bytes.warning is '1GB', not a number from 0 on"),
        ({"state_bytes": {"warning": float("nan")}}, "state_bytes.warning is nan"),
        ({"state_bytes": {"warning": 6 * GB}}, "state_bytes is critical from 5.36871e+09 on, before it is a warning"),
        ({"window_batches": 0}, "window_batches is 0, not a whole number from 1 on"),
        ({"window_batches": {"warning": 1}}, "window_batches is {'warning': 1}, not a whole number"),
        ({"growth_ms": True}, "growth_ms is True"),
    ],
)
def test_what_is_refused(given, told):
    with pytest.raises(hf.InputError) as raised:
        Thresholds.from_mapping(given)
    assert told in str(raised.value)


def test_all_that_is_wrong_is_told():
    with pytest.raises(hf.InputError) as raised:
        Thresholds.from_mapping({"a": 1, "skew": 2, "idle_ms": -1})
    assert str(raised.value).count("\n  - ") == 3


def test_made_directly():
    with pytest.raises(hf.InputError, match="skew is 3, not a Limit"):
        Thresholds(skew=3)
    with pytest.raises(hf.InputError, match="idle_ms is one whole number"):
        Thresholds(idle_ms=Limit(1, 2))


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"a = ", "is not TOML"),
        (b"\xff\xfe", "is not TOML"),
        (b"what = 1", "'what' is not a threshold"),
        (b"#" * (2 << 20), "larger"),
    ],
    ids=["cut", "no text", "unknown", "large"],
)
def test_files_that_are_refused(tmp_path, content, told):
    file = tmp_path / "thresholds.toml"
    file.write_bytes(content)
    with pytest.raises(hf.InputError, match=told):
        Thresholds.from_file(str(file))


def test_no_file(tmp_path):
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(hf.InputError, match="there is no file"):
            Thresholds.from_file(str(path))


def test_they_hold():
    story = Story(commit_ms=8, groups=32)
    assert judge(story.history()).level == Level.OK
    assert judge(story.history(), Thresholds(update_ms=Limit(5, 7))).level == Level.CRITICAL
    assert judge(story.history(), Thresholds(update_ms=Limit(5))).symptom("slow_state_access").level == Level.WARNING
