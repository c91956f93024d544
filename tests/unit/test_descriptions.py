"""`doc=` on cells and timers: recorded, and no part of the state."""

from __future__ import annotations

from typing import Any

import pytest

import holdfast as hf
from holdfast.engine.stored.manifest import Evolution, make_manifest, reconcile
from holdfast.errors import InvalidStep
from holdfast.model.functions.options import StepOptions
from holdfast.model.functions.step import build_step
from holdfast.ops.inspect.schema import CellSchema, StepSchema, TimerSchema
from holdfast.ops.inspect.schema_text import schema_markdown
from holdfast.testing import TestStream, run


def described(cell_doc: str | None, timer_doc: str | None) -> hf.DoFn:
    class Described(hf.DoFn):
        COUNT = hf.ValueStateSpec("count", hf.VarIntCoder(), doc=cell_doc)
        DUE = hf.TimerSpec("due", doc=timer_doc)

        def process(self, element, count=hf.DoFn.StateParam(COUNT), due=hf.DoFn.TimerParam(DUE)):
            count.write((count.read() or 0) + 1)
            due.set(1_000)
            yield count.read()

        @hf.on_timer(DUE)
        def fire(self, key=hf.DoFn.KeyParam):
            yield key

    return Described()


def manifest(*docs: str | None) -> dict[str, Any]:
    step = build_step(described(*docs), StepOptions(name="step"))
    return make_manifest(step.describe(), key=[{"name": "k", "type": "string"}], key_groups=4, backend="heap")


def test_the_manifest_has_them():
    recorded = manifest("How many.", "When to tell.")
    assert recorded["cells"][0]["doc"] == "How many."
    assert recorded["timers"] == [{"name": "due", "time_domain": "watermark", "doc": "When to tell."}]


def test_without_one_nothing_is_recorded():
    recorded = manifest(None, None)
    assert "doc" not in recorded["cells"][0]
    assert "doc" not in recorded["timers"][0]


@pytest.mark.parametrize("after", [(None, None), ("Other.", "Words.")])
def test_another_one_is_no_change_of_state(after):
    agreed = reconcile(manifest("How many.", "When to tell."), manifest(*after), Evolution())
    assert agreed.notes == ()
    assert agreed.manifest == manifest(*after)


def test_the_step_goes_on_with_another_one():
    stream = TestStream().add_elements([("a", 1)])
    before = run(described("How many.", "When."), stream, name="step")
    assert run(described("Other.", "Words."), stream, name="step", start_from=before).values == [2]


@pytest.mark.parametrize("spec", [hf.BagStateSpec, hf.SetStateSpec, hf.MapStateSpec, hf.OrderedListStateSpec])
def test_every_kind_of_cell_takes_one(spec):
    assert spec("cell", doc="What is in it.").describe()["doc"] == "What is in it."
    assert hf.CombiningStateSpec("cell", sum, doc="A sum.").describe()["doc"] == "A sum."


@pytest.mark.parametrize("doc", [5, "", "  ", "\ud800"])
def test_what_is_no_description(doc):
    with pytest.raises(InvalidStep, match="The cell 'count' has") as refused:
        build_step(described(doc, None), StepOptions(name="step"))
    assert "doc" in str(refused.value)
    with pytest.raises(InvalidStep, match="The timer 'due' has"):
        hf.TimerSpec("due", doc=doc)


def schema(**changes: object) -> StepSchema:
    given = {
        "step": "alerts",
        "operator": 0,
        "key": "card string",
        "windows": "global",
        "aggregation": None,
        "is_time_sorted": False,
        "key_groups": 4,
        "parallel_over": "key",
        "backend": "heap",
        "parameters": {},
        "cells": [],
        "timers": [],
    }
    return StepSchema(**{**given, **changes})


def test_markdown():
    cells = [
        CellSchema("by_kind", "map", "str to varint", "1 hour after a write", "Per kind.", is_kept=False),
        CellSchema("old", "value", "varint", None, None, is_kept=True),
    ]
    lines = list(schema_markdown([schema(cells=cells, timers=[TimerSchema("due", "event time", "To tell.")])], "payments"))
    assert lines == [
        "# State of payments",
        "",
        "## alerts",
        "",
        "- key: card string",
        "- windows: global",
        "- key groups: 4",
        "- backend: heap",
        "",
        "| cell | kind | coder | time to live | what it holds |",
        "|---|---|---|---|---|",
        "| `by_kind` | map | `str to varint` | 1 hour after a write | Per kind. |",
        "| `old` | value, no longer declared | `varint` |  |  |",
        "",
        "| timer | follows | what it is for |",
        "|---|---|---|",
        "| `due` | event time | To tell. |",
    ]


def test_markdown_is_text_whatever_is_in_it():
    """Nothing that was stored ends a row, makes a link or a tag, or reaches a terminal."""
    cell = CellSchema("a|b`c", "value", "varint", None, "[x](y) <b>\nsecond | row\x1b", is_kept=False)
    (row,) = [line for line in schema_markdown([schema(cells=[cell])], None) if "varint" in line]
    assert row == "| a\\|b\\`c | value | `varint` |  | \\[x\\](y) \\<b\\> second \\| row\\\\x1b |"
