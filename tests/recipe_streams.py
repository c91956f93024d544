"""Streams for the tests of `holdfast.recipes`: elements in any order, cut into micro-batches anyhow, with crashes between.

The watermark is as far as it may be without making an element late: so what comes out must be what the plain model says
of all elements together, however they came.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from hypothesis import settings
from hypothesis import strategies as st

import holdfast as hf
from holdfast.testing import Results, TestStream, run
from tiers import examples

KEYS = ("ann", "bob")
SPANS = st.sampled_from([5, 10, 15, 20])
MANY = settings(max_examples=examples(300))


class Arrival(NamedTuple):
    key: str
    value: Any
    time: float


Model = Callable[[Sequence[Arrival]], Iterable[Any]]


class Played(NamedTuple):
    """Elements in order of arrival, and after which of them a micro-batch ends, perhaps with a crash."""

    arrivals: list[Arrival]
    cuts: list[int]
    """For each element: 0 the micro-batch goes on, 1 it ends, 2 the watermark moves too, 3 and the worker dies."""

    def stream(self) -> TestStream:
        stream, bundle = TestStream(), []
        for place, (arrival, cut) in enumerate(zip(self.arrivals, self.cuts, strict=True)):
            bundle.append(hf.TimestampedValue((arrival.key, arrival.value), arrival.time))
            if cut or place == len(self.arrivals) - 1:
                stream.add_elements(bundle)
                bundle = []
            rest = [later.time for later in self.arrivals[place + 1 :]]
            if cut >= 2 and rest:
                stream.advance_watermark_to(min(rest))
            if cut == 3:
                stream.crash()
        return stream.advance_watermark_to_infinity()

    def of(self, key: str) -> list[Arrival]:
        return [arrival for arrival in self.arrivals if arrival.key == key]

    def in_order(self, key: str) -> list[Arrival]:
        """By time; of equal times, by arrival."""
        return sorted(self.of(key), key=lambda arrival: arrival.time)


def streams(values: st.SearchStrategy[Any], *, times: st.SearchStrategy[float] | None = None) -> st.SearchStrategy[Played]:
    """Streams of two keys. Their times are whole multiples of five, as `SPANS` are: so they tie, and meet limits exactly."""
    if times is None:
        times = st.integers(0, 12).map(lambda number: number * 5)
    one = st.tuples(st.builds(Arrival, st.sampled_from(KEYS), values, times), st.integers(0, 3))
    # Most streams that are drawn without a least length are too short to show anything.
    return st.lists(one, min_size=8, max_size=30).map(lambda pairs: Played([a for a, _ in pairs], [c for _, c in pairs]))


def outputs(results: Results, tag: str = "main") -> dict[str, list[Any]]:
    """What came out for each key, in order."""
    found: dict[str, list[Any]] = {key: [] for key in KEYS}
    for value in results.tagged(tag):
        found[value[0]].append(value)
    return found


def check(recipe: hf.DoFn, played: Played, model: Model, *, is_sorted: bool | None = None) -> Results:
    """The recipe gives for each key what the model makes of the key's elements: in order of time if it needs that or
    `is_sorted` says so, else in order of arrival."""
    ordered = recipe.needs_time_sorted_input if is_sorted is None else is_sorted
    out = run(recipe, played.stream(), requires_time_sorted_input=ordered)
    wanted = {key: list(model(played.in_order(key) if ordered else played.of(key))) for key in KEYS}
    assert outputs(out) == wanted
    return out
