"""The table of capabilities: each row names tests that are there, and what it says of backends is so."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.backends import KeyValueBackend
from holdfast.testing import Results, TestStream, run

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "capabilities.md"

_ROW = re.compile(r"^\| (\d+) \|(.*)\|$", re.MULTILINE)
_CELL = re.compile(r"(?<!\\)\|")
_TEST = re.compile(r"`([^`]+)`")


def rows() -> list[list[str]]:
    """Number, capability, status, what is here, tests."""
    text = PAGE.read_text(encoding="utf-8")
    return [[number, *(cell.strip() for cell in _CELL.split(rest))] for number, rest in _ROW.findall(text)]


@cache
def names_in(path: str) -> set[str]:
    """The tests of a file, by name, or by class and name: read, and not imported."""
    found = set()
    for node in ast.parse((ROOT / path).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef):
            found |= {f"{node.name}::{method.name}" for method in node.body if isinstance(method, ast.FunctionDef)}
    return {name for name in found if name.rpartition("::")[2].startswith("test_")}


def is_there(test: str) -> bool:
    path, _, name = test.partition("::")
    return path.startswith("tests/") and (ROOT / path).is_file() and name in names_in(path)


def test_all_points_are_there_in_order():
    assert [int(row[0]) for row in rows()] == list(range(1, 181))
    assert {len(row) for row in rows()} == {5}


def test_each_row_has_a_status_and_says_why_if_it_is_not_simply_there():
    statuses = [row[2] for row in rows()]
    assert set(statuses) <= {"yes", "otherwise", "later", "no"}
    counted = [f"{statuses.count(status)} {status}" for status in ("yes", "otherwise", "later", "no") if status in statuses]
    assert f"Of 180 points: {', '.join(counted)}." in PAGE.read_text(encoding="utf-8")
    assert [row[:2] for row in rows() if row[2] not in ("yes", "later") and not row[3]] == []


def test_each_row_names_tests_that_are_there():
    assert [row[0] for row in rows() if not _TEST.findall(row[4])] == []
    missing = [(row[0], test) for row in rows() for test in _TEST.findall(row[4]) if not is_there(test)]
    assert missing == []


def test_a_test_that_is_not_there_is_noticed():
    assert is_there("tests/unit/test_capabilities.py::test_a_test_that_is_not_there_is_noticed")
    assert is_there("tests/contract/test_cells.py::TestValue::test_empty")
    assert not is_there("tests/contract/test_cells.py::test_empty")
    assert not is_there("tests/unit/test_capabilities.py::rows")
    assert not is_there("tests/unit/test_nothing.py::test_nothing")
    assert not is_there("../etc/passwd::test_nothing")


class Shelf(KeyValueBackend):
    """A backend of one's own: a dict for each key group, which outlives the workers."""

    name = "shelf"
    shelves: dict[str, dict[bytes, bytes]] = {}

    def init(self, place):
        self.entries = self.shelves.setdefault(place.name, {})
        self.changes = {}

    def get(self, key):
        return self.entries.get(key)

    def put(self, key, value):
        self.changes[key] = value

    def remove(self, key):
        self.changes[key] = None

    def commit(self):
        for key, value in self.changes.items():
            if value is None:
                self.entries.pop(key, None)
            else:
                self.entries[key] = value
        self.changes = {}

    def abort(self):
        self.changes = {}

    def iterator(self):
        return iter(list(self.entries.items()))


class Cells(hf.DoFn):
    VALUE = hf.ValueStateSpec("value")
    BAG = hf.BagStateSpec("bag")
    SET = hf.SetStateSpec("set")
    MAP = hf.MapStateSpec("map")
    LIST = hf.OrderedListStateSpec("list")
    SUM = hf.CombiningStateSpec("sum", sum)

    def process(
        self,
        element,
        value=hf.DoFn.StateParam(VALUE),
        bag=hf.DoFn.StateParam(BAG),
        members=hf.DoFn.StateParam(SET),
        entries=hf.DoFn.StateParam(MAP),
        ordered=hf.DoFn.StateParam(LIST),
        total=hf.DoFn.StateParam(SUM),
    ):
        n = element[1]
        value.write(n)
        bag.add(n)
        members.add(n)
        entries.put(n, n)
        ordered.add((n, n))
        total.add(n)


class Timers(hf.DoFn):
    SOON = hf.TimerSpec("soon", hf.TimeDomain.WATERMARK)
    LATER = hf.TimerSpec("later", hf.TimeDomain.REAL_TIME)

    def process(self, element, soon=hf.DoFn.TimerParam(SOON), later=hf.DoFn.TimerParam(LATER)):
        soon.set(5)
        later.set(7)

    @hf.on_timer(SOON)
    def on_soon(self, key=hf.DoFn.KeyParam):
        yield key, "soon"

    @hf.on_timer(LATER)
    def on_later(self, key=hf.DoFn.KeyParam):
        yield key, "later"


class Count(hf.DoFn):
    COUNT = hf.ValueStateSpec("count")

    def process(self, element, count=hf.DoFn.StateParam(COUNT)):
        if element[1] is None:
            raise ValueError("nothing to count")
        count.write((count.read() or 0) + 1)
        yield element[0], count.read()


class CountForAnHour(Count):
    COUNT = hf.ValueStateSpec("count", ttl="1 hour")

    def process(self, element, count=hf.DoFn.StateParam(COUNT)):
        return super().process(element, count)


class CountAndLast(hf.DoFn):
    COUNT = hf.ValueStateSpec("count")
    LAST = hf.ValueStateSpec("last")

    def process(self, element, count=hf.DoFn.StateParam(COUNT), last=hf.DoFn.StateParam(LAST)):
        yield element[0], count.read(), last.read()


class Renamed(hf.DoFn):
    NUMBER = hf.ValueStateSpec("number", was="count")

    def process(self, element, number=hf.DoFn.StateParam(NUMBER)):
        yield element[0], number.read()


Played = Callable[..., Results]


def pair(number=1):
    return TestStream().add_elements([("k", 1)] * number)


def every_kind_of_cell(play: Played) -> bool:
    state = play(Cells(), TestStream().add_elements([("k", 2)]).crash().add_elements([("k", 1)])).state("k")
    return state == {"value": 1, "bag": [2, 1], "set": {1, 2}, "map": {2: 2, 1: 1}, "list": [(1, 1), (2, 2)], "sum": 3}


def both_clocks(play: Played) -> bool:
    out = play(Timers(), pair().crash().advance_watermark_to(5).crash().advance_processing_time(7))
    return out.values == [("k", "soon"), ("k", "later")]


def windows_end(play: Played) -> bool:
    out = play(Count(), pair().crash().advance_watermark_to(10), windowing=hf.FixedWindows(10))
    return out.values == [("k", 1)] and out.keys() == []


def lives_end(play: Played) -> bool:
    stream = pair().crash().advance_processing_time(3600).add_elements([("k", 1)])
    return play(CountForAnHour(), stream).values == [("k", 1), ("k", 1)]


def aggregations(play: Played) -> bool:
    stream = pair(2).crash().add_elements([("k", 5)]).advance_watermark_to_infinity()
    kinds = (hf.FixedWindows(10), hf.Sessions(10))
    return all(play(hf.CombinePerKey(sum), stream, windowing=kind).values == [("k", 7)] for kind in kinds)


def dead_letters(play: Played) -> bool:
    stream = TestStream().add_elements([("k", 1), ("k", None)]).crash().add_elements([("k", 1)])
    out = play(Count(), stream, on_error="dead_letter", outputs=["dead_letter"])
    return out.values == [("k", 1), ("k", 2)] and len(out.tagged("dead_letter")) == 1


def order_of_time(play: Played) -> bool:
    elements = [hf.TimestampedValue(("k", n), n) for n in (3, 1, 2)]

    class Same(hf.DoFn):
        def process(self, element):
            yield element[1]

    stream = TestStream().add_elements(elements).crash().advance_watermark_to_infinity()
    return play(Same(), stream, requires_time_sorted_input=True).values == [1, 2, 3]


def new_cells(play: Played) -> bool:
    return play(CountAndLast(), pair(), start_from=play(Count(), pair(2))).values == [("k", 2, None)]


def renamed_cells(play: Played) -> bool:
    return play(Renamed(), pair(), start_from=play(Count(), pair(2))).values == [("k", 2)]


def limits(play: Played) -> bool:
    stream = TestStream().add_elements([("a", 1)]).add_elements([("b", 1)]).crash().add_elements([("c", 1)])
    return play(Count(), stream, limits=hf.Limits(max_keys=2, policy="evict_oldest")).keys() == ["b", "c"]


def goes_on_from_the_heap(play: Played) -> bool:
    return play(Count(), pair(), start_from=run(Count(), pair(2), backend="heap", name="step")).values == [("k", 3)]


PROBES = {
    "cells of every kind": every_kind_of_cell,
    "timers in event time and processing time": both_clocks,
    "windows that end": windows_end,
    "times to live": lives_end,
    "aggregations, sessions among them": aggregations,
    "dead letters": dead_letters,
    "elements in order of time": order_of_time,
    "new cells beside stored ones": new_cells,
    "renamed cells": renamed_cells,
    "limits that evict": limits,
    "going on with what the heap has stored": goes_on_from_the_heap,
}
BACKENDS: dict[str, Any] = {"`heap`": "heap", "`disk`": "disk", "your own": Shelf()}


def matrix() -> dict[str, list[str]]:
    """What the page says: for each capability, what is in the columns."""
    lines = PAGE.read_text(encoding="utf-8").partition("## What runs where")[2].partition("\n## ")[0].splitlines()
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    assert table[0] == ["", *BACKENDS]
    return {name: said for name, *said in table[2:]}


def found(probe: Callable[[Played], bool], backend: object) -> str:
    """Whether it works, or is refused in our words: one or the other."""

    def play(fn, stream, **options):
        # A store of one's own knows a step by its name.
        return run(fn, stream, backend=backend, name="step", **options)

    Shelf.shelves.clear()
    try:
        assert probe(play)
    except hf.HoldfastError:
        return "no"
    return "yes"


@pytest.mark.parametrize("capability", PROBES)
def test_the_matrix_is_what_the_code_says(capability):
    assert matrix()[capability] == [found(PROBES[capability], backend) for backend in BACKENDS.values()]


def test_the_matrix_has_nothing_else():
    assert list(matrix()) == list(PROBES)
