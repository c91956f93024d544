"""Recipes on columns beside their namesakes: the same rows, the same state, whichever of them a stream began with."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast as hf
from holdfast.recipes import (
    AssignIndex,
    AssignIndexColumns,
    FirstOccurrence,
    FirstOccurrenceColumns,
    RunningCount,
    RunningCountColumns,
)
from holdfast.testing import Results, TestStream, run
from tiers import examples

SETTINGS = settings(max_examples=examples(100), deadline=None)

values = st.one_of(st.integers(-5, 5), st.none())
bundles = st.lists(st.lists(st.tuples(st.sampled_from("abc"), values, st.integers(0, 30)), max_size=6), max_size=5)

PAIRS: list[Any] = [
    (RunningCount(), RunningCountColumns(), ("key", "count")),
    (AssignIndex(), AssignIndexColumns(), ("key", "index", "value")),
    (FirstOccurrence(), FirstOccurrenceColumns(), ("key", "value")),
]


def rows(results: Results, names: tuple[str, ...]) -> list[tuple[Any, ...]]:
    """The outputs as tuples; those of a plain recipe are tuples already."""
    found = [tuple(row[name] for name in names) if isinstance(row, dict) else tuple(row) for row in results.values]
    return sorted(found, key=repr)


def play(fn: Any, stream: TestStream, **options: Any) -> Results:
    return run(fn, stream, windowing=hf.FixedWindows(10), name="recipe", **options)


@pytest.mark.parametrize(("plain", "columns", "names"), PAIRS, ids=["count", "index", "first"])
@SETTINGS
@given(bundles, bundles)
def test_the_same_rows_and_state(plain, columns, names, before, after):
    first, then = TestStream(), TestStream()
    for bundle in before:
        first = first.add_elements([hf.TimestampedValue((key, value), at) for key, value, at in bundle])
    for bundle in after:
        then = then.add_elements([hf.TimestampedValue((key, value), at) for key, value, at in bundle]).crash()
    expected, found = play(plain, first), play(columns, first)
    assert rows(found, names) == rows(expected, names)
    ends = [play(fn, then, start_from=begun) for fn in (plain, columns) for begun in (expected, found)]
    assert len({repr(rows(end, names)) for end in ends}) == 1


def test_named_values_keep_their_columns_and_nulls():
    stream = TestStream().add_elements([("a", {"x": 1, "y": None}), ("a", {"x": 2, "y": "u"}), ("b", {"x": 3, "y": None})])
    assert run(FirstOccurrenceColumns("k"), stream).values == [{"k": "a", "x": 1, "y": None}, {"k": "b", "x": 3, "y": None}]
    assert run(AssignIndexColumns(), stream).values[1] == {"key": "a", "index": 1, "x": 2, "y": "u"}
