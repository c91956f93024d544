"""Where steps are that may share an operator: labels, what manifests say, and what is wrong with stored state."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.checkpoint.labels import SLOTS_MAX, labels, labels_of_manifest, labels_of_slot, slot_of_label
from holdfast.checkpoint.layout import Checkpoint
from holdfast.checkpoint.step_operators import operator_count, step_operators
from holdfast.engine.stored.documents import Malformed
from holdfast.engine.stored.evolution import MANIFEST
from holdfast.engine.stored.manifest import Evolution, checked_manifest, make_manifest, manifest_bytes, reconcile
from holdfast.ops.upkeep.blob_check import _read, step_problems


def manifest(name: str = "a", **more: Any) -> dict[str, Any]:
    windowing = {"window_fn": {"id": "holdfast.GlobalWindows"}, "allowed_lateness_micros": 0}
    step = {"name": name, "cells": [], "timers": [], "windowing": windowing, "time_sorted": False}
    made = make_manifest(step, key=[{"name": "k", "type": "string"}], key_groups=4, backend="own")
    return {**made, **more}


@pytest.mark.parametrize("slot", [0, 1, SLOTS_MAX - 1])
def test_labels_of_a_slot(slot):
    found = labels_of_manifest(manifest(**({"slot": slot} if slot else {})))
    assert found == labels(4, slot)
    assert set(found) <= set(labels_of_slot(slot))
    assert {slot_of_label(label) for label in found} == {slot}
    assert max(labels_of_slot(slot)) < 2**31


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ({}, set()),
        ({"a": {}, "b": {}}, {0, 1}),
        ({"a": {}, "b": {"slot": 1}}, {0}),
        ({"a": {"operator": 1}, "b": {"operator": 1, "slot": 1}, "c": {"operator": 0, "slot": 2}}, {0, 1}),
        ({"a": {"operator": 0}, "b": {"slot": 1}}, {0}),
        ({"a": {"operator": 2}}, {2}),
    ],
)
def test_operators_by_their_manifests(steps, expected):
    assert step_operators(steps) == expected
    assert operator_count(steps) == max(expected, default=-1) + 1


def missing(steps: dict[str, Any], *present: int, own: tuple[int, ...] = ()) -> list[str]:
    """Which operators are missing; `own` are those of Spark's own that are there."""
    place = Checkpoint(None, "/c")  # type: ignore[arg-type]
    place.__dict__["manifest"] = {"steps": steps}
    step = SimpleNamespace(is_a_step=True, is_described=True)
    other = SimpleNamespace(is_a_step=False, is_described=True)
    operators: Any = [SimpleNamespace(**vars(step), number=number, path=f"/c/state/{number}") for number in present]
    operators += [SimpleNamespace(**vars(other), number=number, path=f"/c/state/{number}") for number in own]
    return [path.removeprefix("/c/") for path in place.missing_operators(operators)]


def test_missing_operators():
    shared = {"a": {"operator": 1}, "b": {"operator": 1, "slot": 1}, "c": {"operator": 0, "slot": 2}}
    assert missing(shared, 0, 1) == []
    assert missing(shared, 0, 1, own=(2,)) == []
    assert missing(shared, 0) == ["state/1"]
    assert missing(shared, 1) == ["state/0"]
    assert missing(shared) == ["state"]
    assert missing({"a": {"operator": 1}}, 1, own=(0,)) == []
    assert missing({"a": {}, "b": {}}, 0) == ["state/1"]
    assert missing({"a": {}, "b": {}}, 0, own=(1,)) == ["state/2"]
    assert missing({"a": {}, "b": {"slot": 1}}, 0) == []
    assert missing({}) == []


def test_the_form_of_a_manifest():
    assert checked_manifest(manifest(slot=SLOTS_MAX - 1, operator=3))["operator"] == 3
    for wrong in ({"slot": SLOTS_MAX}, {"slot": -1}, {"slot": "1"}, {"slot": None}, {"operator": -1}, {"operator": 10**6}):
        with pytest.raises(Malformed):
            checked_manifest(manifest(**wrong))


def test_a_place_is_no_change_of_code():
    agreed = reconcile(manifest(), manifest(slot=2, operator=1), Evolution())
    assert agreed.notes == ()
    assert reconcile(manifest(slot=2, operator=1), manifest(slot=2, operator=1), Evolution()).notes == ()


def test_a_key_group_among_those_of_another_step():
    stored = {MANIFEST: manifest_bytes(manifest(slot=1))}
    assert _read(labels(4, 1)[2], stored) == ("a", None)
    assert "its slot is 1" in str(_read(labels(4, 0)[2], stored)[1])
    spare = next(label for label in labels_of_slot(1) if label not in labels(4, 1))
    assert _read(spare, stored) == ("a", "there is no such key group among 4")


def test_steps_in_the_wrong_places():
    place: Any = SimpleNamespace(manifest={"steps": {"a": {"operator": 1}, "b": {"operator": 1, "slot": 1}}})
    assert step_problems(place, {"state/1": {("a", 0), ("b", 1)}}) == []
    assert step_problems(place, {"state/1": {("a", 0), ("b", 0)}}) == [
        ("state/1", "it has state of several steps in slot 0: 'a', 'b'")
    ]
    assert step_problems(place, {"state/1": {("a", 0), ("a", 1)}}) == [
        ("state/1", "it has state of 'a' in several slots: 0, 1")
    ]
    assert step_problems(place, {"state/1": {("a", 0), ("b", 1)}, "state/2": {("b", 1)}}) == [
        ("state/2", "it has state of 'b', and so has state/1")
    ]
    assert step_problems(place, {"state/1": {("a", 0), ("c", 1)}}) == [
        ("state/1", "it has state of 'c', but the job has the steps 'a', 'b'")
    ]
    assert step_problems(place, {"state/0": {("a", 0)}}) == [
        ("state/0", "it has state of 'a' in slot 0, but the job has it in slot 0 of state/1")
    ]


def test_without_operators_a_manifest_says_nothing_of_slots():
    place: Any = SimpleNamespace(manifest={"steps": {"a": {}, "b": {}}})
    assert step_problems(place, {"state/0": {("a", 0), ("b", 1)}}) == []
