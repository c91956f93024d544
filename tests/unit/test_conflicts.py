"""Errors of stored state that the code cannot go on with: every problem is told, and told once."""

from __future__ import annotations

import pytest

from holdfast.engine.stored.manifest import Evolution, reconcile
from holdfast.errors import StateConflict

STORED = {
    "name": "cells",
    "cells": [{"name": "total", "kind": "value", "coder": {"id": "varint", "version": 1}}],
    "timers": [],
    "windowing": {"window_fn": {"id": "holdfast.GlobalWindows"}, "allowed_lateness_micros": 0},
    "time_sorted": False,
    "key": [{"name": "k", "type": "string"}],
    "key_groups": 8,
    "parallel_over": "key",
    "backend": "heap",
}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"key_groups": 4}, ["key_groups was 8 and is 4 now."]),
        ({"key_groups": 4, "time_sorted": True}, ["key_groups was 8 and is 4 now.", "time_sorted was False"]),
    ],
)
def test_every_problem_is_told_once(changes, told):
    with pytest.raises(StateConflict) as refused:
        reconcile(STORED, {**STORED, **changes}, Evolution())
    for problem in told:
        assert str(refused.value).count(problem) == 1
