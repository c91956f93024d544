"""Feature vectors: what a user is interested in, with old interest fading."""

from __future__ import annotations

import math
from collections.abc import Iterator

import holdfast as hf
from holdfast.recipes.arguments import Recipe, Span
from holdfast.recipes.rows import number_in, read

__all__ = ["DecayingFeatures"]


class DecayingFeatures(Recipe):
    """With each event the vector of its user: (key, time, {category: weight}).

    Each event adds 1, or the number in the field `weight`, to its category, which is the text in the field `category` or
    the value itself. All weights halve every `half_life`. A category whose weight is below `least` is dropped; of more than
    `size` categories the weakest go, by name among equals. The time is that of the newest event so far, as of which all
    weights are given.

    Keeps for each key and window: at most `size` categories, each with its weight and the time it was taken at.

    Frees it: when the watermark is beyond the time at which the last category falls below `least`.

    Order: any. An event that is older than others counts as much as it would have faded to; what comes out with it is as of
    the newest event. The weights are floats, so their last digits may depend on the order of arrival, as does which
    category goes when there are too many.
    """

    WEIGHTS = hf.MapStateSpec(
        "weights",
        hf.StrUtf8Coder(),
        hf.TupleCoder([hf.FloatCoder(), hf.TimestampCoder()]),
        doc="The weight of each category, and as of when.",
    )
    NEWEST = hf.ValueStateSpec("newest", hf.TimestampCoder(), doc="The time of the newest event.")
    FADED = hf.TimerSpec("faded", hf.TimeDomain.WATERMARK)

    def __init__(
        self,
        half_life: Span,
        *,
        category: str | None = None,
        weight: str | None = None,
        least: float = 0.01,
        size: int = 100,
    ) -> None:
        super().__init__()
        check = self._arguments
        self._half_life = check.span("half_life", half_life)
        self._category = check.optional_field("category", category)
        self._weight = check.optional_field("weight", weight)
        self._least = check.number("least", least, above=0.0)
        self._size = check.whole("size", size)

    def process(
        self,
        element: tuple[object, object],
        at: hf.Timestamp = hf.DoFn.TimestampParam,
        weights: hf.MapState[str, tuple[float, hf.Timestamp]] = hf.DoFn.StateParam(WEIGHTS),
        newest: hf.ValueState[hf.Timestamp] = hf.DoFn.StateParam(NEWEST),
        faded: hf.Timer = hf.DoFn.TimerParam(FADED),
    ) -> Iterator[tuple[object, hf.Timestamp, dict[str, float]]]:
        key, event = element
        category, added = self._read(event)
        before = newest.read()
        now = at if before is None else max(before, at)
        # What is too weak by now goes first: so it makes no difference whether the timer has come already.
        vector = self._faded_to(now, weights)
        weights.put(category, (vector.get(category, 0.0) + self._faded(added, at, now), now))
        vector = self._faded_to(now, weights)
        if not vector:
            newest.clear()
            faded.clear()
        else:
            newest.write(now)
            faded.set(now + self._half_life * math.log2(max(vector.values()) / self._least) + 1e-6)
        yield key, now, vector

    @hf.on_timer(FADED)
    def on_faded(
        self,
        weights: hf.MapState[str, tuple[float, hf.Timestamp]] = hf.DoFn.StateParam(WEIGHTS),
        newest: hf.ValueState[hf.Timestamp] = hf.DoFn.StateParam(NEWEST),
    ) -> None:
        weights.clear()
        newest.clear()

    def _read(self, event: object) -> tuple[str, float]:
        category = read(event, self._category)
        if not isinstance(category, str):
            raise hf.InputError(f"The category of an event is {category!r:.200}; it must be a text.")
        added = 1.0 if self._weight is None else number_in(event, self._weight)
        if added < 0:
            raise hf.InputError(f"The weight of an event is {added}; it cannot be negative.")
        return category, added

    def _faded(self, weight: float, since: hf.Timestamp, now: hf.Timestamp) -> float:
        return weight * math.pow(2.0, -(now - since).micros / self._half_life.micros)

    def _faded_to(self, now: hf.Timestamp, weights: hf.MapState[str, tuple[float, hf.Timestamp]]) -> dict[str, float]:
        """The vector as of now, after the categories that are too weak, or too many, have gone."""
        vector = {category: self._faded(held, since, now) for category, (held, since) in weights.items()}
        strongest = sorted(vector, key=lambda category: (-vector[category], category))
        kept = [category for category in strongest[: self._size] if vector[category] >= self._least]
        for category in vector.keys() - kept:
            weights.remove(category)
        return {category: vector[category] for category in kept}
