"""Recipes that measure and learn, each beside a plain model."""

from __future__ import annotations

import math
import statistics
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdfast as hf
from holdfast import recipes
from holdfast.testing import TestStream, run
from recipe_streams import KEYS, MANY, SPANS, Played, check, outputs, streams

# Sums of these are exact in any order.
AMOUNTS = st.integers(-40, 40).map(lambda number: number / 4)


@MANY
@given(streams(AMOUNTS, times=st.integers(0, 16).map(lambda number: number * 25)), st.booleans(), st.none() | st.just(0.5))
def test_anomalies_by_welford(played: Played, learns: bool, change: float | None) -> None:
    def model(seen):
        held: list[float] = []
        given = None
        newest = None
        for now in seen:
            if newest is not None and now.time >= newest + 100:
                held, given = [], None
            newest, score = now.time, None
            if len(held) >= 3:
                score = abs(now.value - statistics.fmean(held)) / max(statistics.stdev(held), 0.5)
                is_anomaly = score >= 2
                if given is None or given[1] != is_anomaly or (change is not None and abs(score - given[0]) >= change):
                    given = score, is_anomaly
                    yield now.key, now.time, pytest.approx(score, rel=1e-9, abs=1e-9), is_anomaly
            if learns or score is None or score < 2:
                held.append(now.value)

    recipe = recipes.Anomalies(
        # Just off what round numbers give, so that rounding does not decide.
        2 - 1e-7,
        model=recipes.Moments(warmup=3, min_spread=0.5),
        change=None if change is None else change - 1e-7,
        learns_anomalies=learns,
        forget_after=100,
    )
    assert check(recipe, played, model).keys() == []


@given(st.lists(AMOUNTS, min_size=1, max_size=30), st.sampled_from([0.1, 0.5]))
def test_moving_moments(values: list[float], weight: float) -> None:
    """Mean and variance with the weights written out: each value has (1 - weight) to the power of those after it."""
    model = recipes.MovingMoments(weight, warmup=2)
    state = model.create()
    for value in values:
        state = model.learn(state, value)
    shares = [weight * (1 - weight) ** (len(values) - 1 - place) for place in range(len(values))]
    shares[0] /= weight
    mean = math.fsum(share * value for share, value in zip(shares, values, strict=True))
    variance = math.fsum(share * (value - mean) ** 2 for share, value in zip(shares, values, strict=True))
    assert state[0] == len(values)
    assert state[1:] == (pytest.approx(mean), pytest.approx(variance, abs=1e-9))


@MANY
@given(streams(AMOUNTS), SPANS, st.integers(-4, 4), st.integers(0, 4), st.integers(1, 3))
def test_a_rolling_alert(played: Played, span: int, above: int, width: int, at_least: int) -> None:
    def model(seen):
        is_alert = False
        for place, now in enumerate(seen):
            if is_alert and now.time >= seen[place - 1].time + span:
                is_alert = False
                yield now.key, "silent", seen[place - 1].time + span, None
            held = [past.value for past in seen[: place + 1] if past.time > now.time - span]
            average = sum(held) / len(held)
            if is_alert and average < above - width:
                is_alert = False
                yield now.key, "recovered", now.time, average
            elif not is_alert and average > above and len(held) >= at_least:
                is_alert = True
                yield now.key, "alert", now.time, average
        if is_alert:
            yield seen[-1].key, "silent", seen[-1].time + span, None

    recipe = recipes.RollingAlert(span, above=above, below=above - width, at_least=at_least)
    out = check(recipe, played, model)
    assert out.keys() == []
    assert all(output.timestamp == output.value[2] for output in out)


TRADES = st.tuples(AMOUNTS, st.integers(0, 8)).map(lambda pair: {"price": pair[0], "volume": pair[1]})


@MANY
@given(streams(TRADES), SPANS)
def test_moving_prices(played: Played, span: int) -> None:
    def model(seen):
        for place, now in enumerate(seen):
            held = [past.value for past in seen[: place + 1] if past.time > now.time - span]
            volume = sum(trade["volume"] for trade in held)
            value = sum(trade["price"] * trade["volume"] for trade in held)
            mean = sum(trade["price"] for trade in held) / len(held)
            yield now.key, now.time, mean, value / volume if volume else None, len(held)

    assert check(recipes.MovingPrices(span), played, model).keys() == []


def test_a_negative_volume_is_refused() -> None:
    stream = TestStream().add_elements([("acme", {"price": 5, "volume": -1})]).advance_watermark_to_infinity()
    with pytest.raises(hf.InputError, match="volume -1"):
        run(recipes.MovingPrices(5), stream, requires_time_sorted_input=True)


EVENTS = st.tuples(st.sampled_from("abcd"), st.integers(0, 4)).map(lambda pair: {"topic": pair[0], "clicks": pair[1]})


@MANY
@given(streams(EVENTS), SPANS, st.integers(1, 4), st.booleans())
def test_decaying_features(played: Played, half_life: int, size: int, is_sorted: bool) -> None:
    def model(seen):
        held: dict[str, float] = {}
        newest = None
        for now in seen:
            latest = now.time if newest is None else max(newest, now.time)
            if newest is not None:
                held = {name: weight * 0.5 ** ((latest - newest) / half_life) for name, weight in held.items()}
            newest = latest
            held = {name: weight for name, weight in held.items() if weight >= 0.0999}
            topic = now.value["topic"]
            held[topic] = held.get(topic, 0.0) + now.value["clicks"] * 0.5 ** ((latest - now.time) / half_life)
            strongest = sorted(held, key=lambda name: (-round(held[name], 9), name))[:size]
            held = {name: held[name] for name in strongest if held[name] >= 0.0999}
            if not held:
                newest = None
            yield now.key, latest, {name: pytest.approx(weight) for name, weight in held.items()}

    recipe = recipes.DecayingFeatures(half_life, category="topic", weight="clicks", least=0.0999, size=size)
    assert check(recipe, played, model, is_sorted=is_sorted).keys() == []


class TestDecayingFeatures:
    def test_weights_halve(self) -> None:
        views = [hf.TimestampedValue(("ann", topic), time) for topic, time in (("tea", 0), ("tea", 60), ("rum", 120))]
        out = run(recipes.DecayingFeatures(60), TestStream().add_elements(views))
        assert [value[2] for value in out.values] == [{"tea": 1.0}, {"tea": 1.5}, {"rum": 1.0, "tea": 0.75}]

    def test_an_old_event_counts_as_much_as_it_has_faded_to(self) -> None:
        views = [hf.TimestampedValue(("ann", topic), time) for topic, time in (("tea", 120), ("tea", 0), ("rum", 60))]
        out = run(recipes.DecayingFeatures(60), TestStream().add_elements(views))
        assert out.values[-1] == ("ann", 120, {"tea": 1.25, "rum": 0.5})

    def test_a_user_is_forgotten_when_all_has_faded(self) -> None:
        stream = TestStream().add_elements([hf.TimestampedValue(("ann", "tea"), 0)]).advance_watermark_to(120)
        recipe = recipes.DecayingFeatures(60, least=0.25)
        assert run(recipe, stream).keys() == ["ann"]
        assert run(recipe, stream.advance_watermark_to(120.001)).keys() == []


class TestRows:
    RIDES = [{"total": 10.0, "zone": 1}, {"total": None, "zone": 1}, {"total": -2.5, "zone": 2}]

    @given(st.lists(st.sampled_from(RIDES)), st.integers(0, 5))
    def test_rides(self, rides: list[dict[str, Any]], cut: int) -> None:
        totals = [ride["total"] for ride in rides if ride["total"] is not None]
        mean = statistics.fmean(totals) if totals else None
        wanted = (len(rides), sum(totals), mean, max(totals, default=None))
        assert combined(recipes.ZoneRides("total"), rides, cut) == wanted

    @given(st.lists(TRADES), st.integers(0, 5))
    def test_vwap(self, trades: list[dict[str, Any]], cut: int) -> None:
        volume = sum(trade["volume"] for trade in trades)
        value = sum(trade["price"] * trade["volume"] for trade in trades)
        assert combined(recipes.Vwap(), trades, cut) == (value / volume if volume else None)

    def test_vwap_of_decimals(self) -> None:
        trades = [{"price": Decimal("0.1"), "volume": 1}, {"price": Decimal("0.2"), "volume": 2}]
        assert recipes.Vwap().apply([*trades, {"price": None, "volume": 5}]) == Decimal("0.5") / 3

    @given(st.lists(EVENTS), st.integers(0, 5), st.integers(1, 4), st.booleans())
    def test_top_items(self, events: list[dict[str, Any]], cut: int, n: int, by_clicks: bool) -> None:
        totals: dict[str, int] = {}
        for event in events:
            totals[event["topic"]] = totals.get(event["topic"], 0) + (event["clicks"] if by_clicks else 1)
        wanted = sorted(totals.items(), key=lambda pair: (-pair[1], pair[0]))[:n]
        assert combined(recipes.TopItems(n, "topic", amount="clicks" if by_clicks else None), events, cut) == wanted

    def test_rows_without_an_item_or_an_amount_are_left_out(self) -> None:
        rows = [{"page": "a", "views": 1}, {"page": None, "views": 5}, {"page": "b", "views": None}]
        assert recipes.TopItems(5, "page", amount="views").apply(rows) == [("a", 1)]


def combined(fn: hf.CombineFn[Any, Any, Any], rows: list[Any], cut: int) -> Any:
    """The result of rows that are combined in two parts, and merged with nothing."""
    parts = [fn.create_accumulator(), *(fn.add_inputs(fn.create_accumulator(), part) for part in (rows[:cut], rows[cut:]))]
    return fn.extract_output(fn.merge_accumulators(parts))


SIDES = st.tuples(st.sampled_from(["row", "table"]), st.integers(0, 3)).map(
    lambda pair: {"side": pair[0], "amount": pair[1], "rate": pair[1] or None}
)


@MANY
@given(streams(SIDES), st.sampled_from(["left", "inner"]))
def test_a_temporal_join(played: Played, how: str) -> None:
    def model(seen):
        """Looks back from each row for the newest change before it."""
        for place, now in enumerate(seen):
            if now.value["side"] == "row":
                changes = [past.value["rate"] for past in seen[:place] if past.value["side"] == "table"]
                rate = changes[-1] if changes else None
                if rate is not None or how == "left":
                    yield now.key, now.value["amount"], rate

    out = check(recipes.TemporalJoin(row=["amount"], table=["rate"], how=how), played, model)
    for key in KEYS:
        changes = [past.value["rate"] for past in played.in_order(key) if past.value["side"] == "table"]
        assert out.state(key) == ({"entry": (changes[-1],)} if changes and changes[-1] else {})


def test_a_late_change_is_told_and_not_applied() -> None:
    def change(rate, time):
        return hf.TimestampedValue(("eur", {"side": "table", "rate": rate}), time)

    stream = TestStream().add_elements([change(2.0, 10)]).advance_watermark_to(20).add_elements([change(3.0, 15)])
    out = run(recipes.TemporalJoin(["amount"], ["rate"]), stream, requires_time_sorted_input=True, outputs=["late"])
    assert out.state("eur") == {"entry": (2.0,)}
    assert [value["rate"] for _, value in out.tagged("late")] == [3.0]
    assert outputs(out)["ann"] == []
