"""The sketch of hot keys against exact counts."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.engine.metrics.hot_keys import SAMPLE_MAX, SAMPLE_MIN, KeySketch, LargestKeys, sample_of
from holdfast.engine.metrics.step import StepMetrics
from tiers import examples

SETTINGS = settings(max_examples=examples(200), deadline=None)
BUNDLES = st.lists(st.lists(st.integers(0, 15), max_size=60), max_size=8)


@SETTINGS
@given(BUNDLES, st.integers(1, 8), st.integers(0, 8))
def test_counts_are_within_the_bound(bundles, capacity, place):
    """However the bundles are split between two sketches that are added up at the end."""
    sketches = KeySketch(capacity), KeySketch(capacity)
    exact = Counter()
    for number, bundle in enumerate(bundles):
        exact.update(bundle)
        sketches[number < place].give(Counter(bundle))
    sketch = sketches[0]
    sketch.add(sketches[1])
    assert sketch.total == sum(exact.values())
    assert len(sketch.counts) <= capacity
    assert sketch.error <= sketch.total / (capacity + 1)
    for key in range(16):
        counted = sketch.counts.get(key, 0)
        assert counted <= exact[key] <= counted + sketch.error
    # Whatever is more than that share of all is found.
    assert {key for key, count in exact.items() if count > sketch.total / (capacity + 1)} <= sketch.counts.keys()


@SETTINGS
@given(BUNDLES)
def test_few_keys_are_counted_exactly(bundles):
    sketch = KeySketch()
    for bundle in bundles:
        sketch.give(Counter(bundle))
    assert sketch.counts == Counter(key for bundle in bundles for key in bundle)
    assert sketch.error == 0


@SETTINGS
@given(st.lists(st.dictionaries(st.integers(0, 15), st.integers(1, 1000), max_size=10), max_size=6), st.integers(1, 8))
def test_the_largest_are_kept(seen, capacity):
    largest = LargestKeys(capacity)
    exact: dict[int, int] = {}
    for sizes in seen:
        other = LargestKeys(capacity)
        other.give(sizes)
        largest.add(other)
        exact = {key: max(exact.get(key, 0), sizes.get(key, 0)) for key in exact | sizes}
    assert sorted(largest.sizes.values(), reverse=True) == sorted(exact.values(), reverse=True)[:capacity]
    assert all(exact.get(key) == size for key, size in largest.sizes.items())


@SETTINGS
@given(st.integers(1, 20_000), st.booleans())
def test_a_sample_is_small_and_stands_for_all(elements, weighted):
    slots = [number % 7 for number in range(elements)]
    sample = sample_of(slots, [1] * elements if weighted else None)
    step = -(-elements // min(max(SAMPLE_MIN, elements // 64), SAMPLE_MAX)) | 1
    assert elements <= sum(sample.counts.values()) < elements + step
    if elements <= SAMPLE_MIN:
        assert sample.counts == Counter(slots)


def test_they_add_up_in_the_metrics():
    one, two = StepMetrics(), StepMetrics()
    one.hot.give({"a": 3, "b": 1})
    two.hot.give({"b": 5})
    two.heavy.give({"b": 100})
    one.add(two)
    assert [tuple(hot) for hot in one.hot_keys] == [("b", 6), ("a", 3)]
    assert [tuple(heavy) for heavy in one.heavy_keys] == [("b", 100)]
    assert "hot" not in set(one.names())
