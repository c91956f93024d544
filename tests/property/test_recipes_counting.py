"""Recipes that count, deduplicate, limit and batch, each beside a plain model."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdfast as hf
from holdfast import recipes
from holdfast.testing import TestStream, run
from recipe_streams import MANY, SPANS, Played, check, outputs, streams

VALUES = st.integers(0, 9)


@MANY
@given(streams(VALUES))
def test_a_running_count(played: Played) -> None:
    check(recipes.RunningCount(), played, lambda seen: [(a.key, n) for n, a in enumerate(seen, start=1)])


@MANY
@given(streams(VALUES))
def test_an_index(played: Played) -> None:
    check(recipes.AssignIndex(), played, lambda seen: [(a.key, n, a.value) for n, a in enumerate(seen)])


@MANY
@given(streams(VALUES), SPANS, st.booleans())
def test_a_count_while_a_key_is_active(played: Played, idle: int, is_sorted: bool) -> None:
    def model(seen):
        newest, count = None, 0
        for arrival in seen:
            count = 1 if newest is None or arrival.time >= newest + idle else count + 1
            newest = arrival.time if newest is None else max(newest, arrival.time)
            yield arrival.key, count

    recipe = recipes.CountWhileActive(idle)
    assert check(recipe, played, model, is_sorted=is_sorted).keys() == []


@MANY
@given(streams(VALUES))
def test_a_first_occurrence(played: Played) -> None:
    check(recipes.FirstOccurrence(), played, lambda seen: [(a.key, a.value) for a in seen[:1]])


@MANY
@given(streams(VALUES), SPANS, st.booleans())
def test_a_first_occurrence_within_some_time(played: Played, ttl: int, is_sorted: bool) -> None:
    def model(seen):
        first = None
        for arrival in seen:
            if first is None or abs(arrival.time - first) >= ttl:
                first = arrival.time if first is None else max(first, arrival.time)
                yield arrival.key, arrival.value

    recipe = recipes.FirstOccurrenceWithin(ttl)
    assert check(recipe, played, model, is_sorted=is_sorted).keys() == []


@MANY
@given(streams(VALUES), st.integers(1, 4))
def test_a_limit_for_each_window(played: Played, limit: int) -> None:
    """In windows of ten seconds; none is late, since the watermark waits for all."""
    out = run(recipes.CountLimit(limit, refused="no"), played.stream(), windowing=hf.FixedWindows(10))
    for key in ("ann", "bob"):
        passed, refused, counts = [], [], {}
        for arrival in played.of(key):
            window = arrival.time // 10
            counts[window] = counts.get(window, 0) + 1
            (passed if counts[window] <= limit else refused).append((key, arrival.value))
        assert outputs(out)[key] == passed
        assert outputs(out, "no")[key] == refused
    assert out.keys() == []


@MANY
@given(streams(VALUES), st.integers(1, 4), SPANS)
def test_a_limit_in_any_span(played: Played, limit: int, per: int) -> None:
    def model(seen):
        passed = []
        for arrival in seen:
            if sum(arrival.time - per < time <= arrival.time for time in passed) < limit:
                passed.append(arrival.time)
                yield arrival.key, arrival.value

    assert check(recipes.SlidingLimit(limit, per), played, model).keys() == []


@MANY
@given(streams(VALUES), st.integers(1, 4), SPANS)
def test_a_bucket_of_tokens(played: Played, capacity: int, refill: int) -> None:
    """The model has a number of tokens, in exact fractions, where the recipe has a time."""

    def model(seen):
        tokens, since = Fraction(capacity), Fraction(0)
        for arrival in seen:
            tokens = min(Fraction(capacity), tokens + (Fraction(arrival.time) - since) / refill)
            since = Fraction(arrival.time)
            if tokens >= 1:
                tokens -= 1
                yield arrival.key, arrival.value

    assert check(recipes.TokenBucket(capacity, refill), played, model).keys() == []


def test_what_is_refused_goes_where_it_is_named() -> None:
    calls = [hf.TimestampedValue(("ann", name), time) for name, time in (("a", 0), ("b", 1), ("c", 10))]
    stream = TestStream().add_elements(calls).advance_watermark_to_infinity()
    for recipe in (recipes.SlidingLimit(1, 10, refused="refused"), recipes.TokenBucket(1, 10, refused="refused")):
        out = run(recipe, stream, requires_time_sorted_input=True, outputs=["refused"])
        assert out.values == [("ann", "a"), ("ann", "c")]
        assert out.tagged("refused") == [("ann", "b")]


@MANY
@given(streams(st.text("ab", max_size=6)), st.integers(1, 5), st.integers(1, 12))
def test_batches_by_count_and_bytes(played: Played, count: int, size: int) -> None:
    def model(seen):
        batch: list[str] = []
        for arrival in seen:
            if batch and sum(map(len, batch)) + len(arrival.value) > size:
                yield arrival.key, batch
                batch = []
            batch = [*batch, arrival.value]
            if len(batch) == count or sum(map(len, batch)) >= size:
                yield arrival.key, batch
                batch = []
        if batch:
            yield seen[-1].key, batch

    recipe = recipes.GroupIntoBatches(count, max_bytes=size, max_wait="1 hour")
    check(recipe, played, model)


class TestBatches:
    def test_what_has_waited_is_given(self) -> None:
        stream = TestStream().add_elements([("k", "a")]).advance_processing_time(20).add_elements([("k", "b")])
        stream.crash().advance_processing_time(10).add_elements([("k", "c")])
        out = run(recipes.GroupIntoBatches(max_wait=30), stream)
        assert out.values == [("k", ["a", "b"])]
        assert out.state("k")["values"] == ["c"]
        assert [time for *_, time in out.timers("k")] == [60]

    def test_a_full_batch_takes_its_timer_with_it(self) -> None:
        stream = TestStream().add_elements([("k", "a"), ("k", "b")])
        out = run(recipes.GroupIntoBatches(2, max_wait=30), stream)
        assert out.values == [("k", ["a", "b"])]
        assert out.keys() == []

    def test_the_rest_is_given_when_the_window_ends(self) -> None:
        elements = [hf.TimestampedValue(("k", n), n) for n in range(5)]
        stream = TestStream().add_elements(elements).advance_watermark_to(10)
        out = run(recipes.GroupIntoBatches(3), stream, windowing=hf.FixedWindows(10))
        assert out.values == [("k", [0, 1, 2]), ("k", [3, 4])]
        assert out.keys() == []

    def test_a_row_is_given_as_a_dict(self) -> None:
        out = run(recipes.GroupIntoBatches(2), TestStream().add_elements([("k", hf.recipes.TopItem("a", 1)), ("k", 2)]))
        assert out.values == [("k", [{"item": "a", "total": 1}, 2])]

    def test_a_size_that_is_none_is_refused(self) -> None:
        recipe = recipes.GroupIntoBatches(max_bytes=5, size_of=lambda value: -1)
        with pytest.raises(hf.InputError, match="size_of gave -1"):
            run(recipe, TestStream().add_elements([("k", "a")]))

    @pytest.mark.parametrize(("value", "size"), [("é", 2), (b"abc", 3), (7, len(hf.PlainCoder().encode(7)))])
    def test_the_size_of_a_value(self, value: object, size: int) -> None:
        assert recipes.stored_size(value) == size


def test_a_duplicate_that_comes_after_its_time_is_let_through() -> None:
    """The state is gone by then, which is what it costs to be free of it."""
    stream = TestStream().add_elements([hf.TimestampedValue(("k", "a"), 0)]).advance_watermark_to(10)
    out = run(recipes.FirstOccurrenceWithin(10), stream)
    assert out.keys() == []
    stream.add_elements([hf.TimestampedValue(("k", "b"), 5)])
    assert run(recipes.FirstOccurrenceWithin(10), stream).values == [("k", "a"), ("k", "b")]
