"""Recipes that look at what follows what, each beside a plain model."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdfast as hf
from holdfast import recipes
from holdfast.testing import TestStream, run
from recipe_streams import MANY, SPANS, Played, check, streams

PAGES = st.sampled_from("abc")


@MANY
@given(streams(PAGES), SPANS, st.integers(1, 6))
def test_click_trails(played: Played, gap: int, clicks: int) -> None:
    def model(seen):
        visit: list[Any] = []
        for arrival in seen:
            if visit and arrival.time >= visit[-1].time + gap:
                yield told(visit)
                visit = []
            visit = [*visit, arrival]
            if len(visit) == clicks:
                yield told(visit)
                visit = []
        if visit:
            yield told(visit)

    def told(visit):
        return visit[0].key, visit[0].time, visit[-1].time, [arrival.value for arrival in visit]

    out = check(recipes.ClickTrail(gap, max_clicks=clicks), played, model)
    assert out.keys() == []
    for output in out:
        _, _, last, trail = output.value
        assert output.timestamp == (last if len(trail) == clicks else last + gap)


def places(draw=st.sampled_from([(0.0, 0.0), (0.0, 1.0), (0.0, 2.0), (45.0, 179.5), (45.0, -179.5), (90.0, 0.0)])):
    return draw.map(lambda place: {"lat": place[0], "lon": place[1], "city": f"{place}"})


def km_between(one: dict[str, Any], other: dict[str, Any]) -> float:
    """By the angle between two vectors, and not by the haversine."""

    def vector(place):
        lat, lon = math.radians(place["lat"]), math.radians(place["lon"])
        return math.cos(lat) * math.cos(lon), math.cos(lat) * math.sin(lon), math.sin(lat)

    a, b = vector(one), vector(other)
    cross = (a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0])
    return 6371.0088 * math.atan2(math.hypot(*cross), sum(x * y for x, y in zip(a, b, strict=True)))


@MANY
@given(streams(places(), times=st.integers(0, 20).map(lambda step: step * 300)), st.integers(1, 5))
def test_impossible_travel(played: Played, remembered: int) -> None:
    # A degree is 111 km, so that at 1000 km/h it takes between 300 and 600 seconds.
    def model(seen):
        for place, now in enumerate(seen):
            for before in reversed(seen[max(0, place - remembered) : place]):
                km, seconds = km_between(before.value, now.value), now.time - before.time
                if km >= 50 and km > 1000 * seconds / 3600:
                    yield now.key, before.value["city"], now.value["city"], pytest.approx(km, rel=1e-9), seconds
                    break

    recipe = recipes.ImpossibleTravel(min_km=50, remembered=remembered, place="city")
    assert check(recipe, played, model).keys() == []


@MANY
@given(streams(places(), times=st.integers(0, 20).map(lambda step: step * 300)))
def test_logins_that_are_forgotten(played: Played) -> None:
    """Nothing is compared with what is `forget_after` or more before, whenever the timer comes."""

    def model(seen):
        known: list[Any] = []
        for now in seen:
            if known and now.time >= known[-1].time + 600:
                known = []
            if any(km_between(before.value, now.value) >= 50 for before in known):
                yield now.key
            known = [*known, now][-5:]

    recipe = recipes.ImpossibleTravel(min_km=50, max_speed_kmh=1e-9, forget_after=600)
    out = run(recipe, played.stream(), requires_time_sorted_input=True)
    found = {key: [value[0] for value in out.values if value[0] == key] for key in ("ann", "bob")}
    assert found == {key: list(model(played.in_order(key))) for key in found}


@pytest.mark.parametrize(("lat", "lon"), [(91, 0), (0, 181), (float("nan"), 0), (None, 0), ("51.5", 0)])
def test_a_login_from_nowhere_is_refused(lat: Any, lon: Any) -> None:
    stream = TestStream().add_elements([("ann", {"lat": lat, "lon": lon})]).advance_watermark_to_infinity()
    with pytest.raises(hf.InputError, match=r"nowhere on Earth|finite number"):
        run(recipes.ImpossibleTravel(), stream, requires_time_sorted_input=True)


def test_the_distance_between_tokyo_and_new_york() -> None:
    assert recipes.great_circle_km(35.68, 139.69, 40.71, -74.01) == pytest.approx(10_850, abs=30)
    assert recipes.great_circle_km(0, 0, 0, 180) == pytest.approx(math.pi * 6371.0088)


@MANY
@given(streams(st.integers(1, 9)), st.integers(2, 5), SPANS)
def test_velocity(played: Played, count: int, within: int) -> None:
    def model(seen):
        recent: list[Any] = []
        for now in seen:
            recent = [*[past for past in recent if past.time >= now.time - within], now]
            if len(recent) == count:
                yield now.key, recent[0].time, sum(past.value for past in recent)
                recent = []

    assert check(recipes.Velocity(count, within), played, model).keys() == []


@MANY
@given(streams(PAGES), SPANS, st.booleans())
def test_a_sequence(played: Played, within: int, has_unless: bool) -> None:
    def model(seen):
        """Looks back from each b over what came before it."""
        used: set[int] = set()
        for place, now in enumerate(seen):
            if now.value != "b":
                continue
            for back in range(place - 1, -1, -1):
                value = seen[back].value
                if value == "c" and has_unless:
                    break
                if value == "b" and back in used:
                    break
                if value == "a":
                    if now.time - seen[back].time <= within:
                        used.add(place)
                        yield now.key, seen[back].time, "a", now.time, "b"
                    break

    unless = (lambda value: value == "c") if has_unless else None
    recipe = recipes.Sequence(lambda value: value == "a", lambda value: value == "b", within, unless=unless)
    assert check(recipe, played, model).keys() == []


@MANY
@given(streams(PAGES), SPANS)
def test_two_of_a_kind(played: Played, within: int) -> None:
    """First and then are the same: each pair ends one sequence and begins the next."""

    def model(seen):
        same = [arrival for arrival in seen if arrival.value == "a"]
        for one, two in itertools.pairwise(same):
            if two.time - one.time <= within:
                yield one.key, one.time, "a", two.time, "a"

    check(recipes.Sequence(lambda value: value == "a", lambda value: value == "a", within), played, model)


ORDER = {
    ("new", "pay"): "paid",
    ("new", "cancel"): "cancelled",
    ("paid", "ship"): "shipped",
    ("paid", "cancel"): "cancelled",
}
EVENTS = st.sampled_from(["pay", "ship", "cancel"])


@MANY
@given(streams(EVENTS), st.none() | SPANS)
def test_a_state_machine(played: Played, forget_after: int | None) -> None:
    def model(seen):
        state, moved = "new", 0.0
        for now in seen:
            if state in ("cancelled", "shipped") or (forget_after is not None and now.time >= moved + forget_after):
                state = "new"
            if (state, now.value) in ORDER:
                before, state, moved = state, ORDER[state, now.value], now.time
                yield now.key, before, now.value, state

    recipe = recipes.StateMachine(ORDER, "new", unexpected="ignore", forget_after=forget_after)
    out = check(recipe, played, model)
    if forget_after is not None:
        assert out.keys() == []


def test_an_event_that_is_not_in_the_table() -> None:
    stream = TestStream().add_elements([("o1", "pay"), ("o1", "refund")]).advance_watermark_to_infinity()
    with pytest.raises(hf.InputError) as raised:
        run(recipes.StateMachine(ORDER, "new"), stream, requires_time_sorted_input=True)
    assert "'refund' came in the state 'paid'" in str(raised.value)
    assert "'cancel', 'ship'" in str(raised.value)
    out = run(recipes.StateMachine(ORDER, "new"), stream, requires_time_sorted_input=True, on_error="dead_letter")
    assert out.values == [("o1", "new", "pay", "paid")]
    assert [letter.value for letter in out.tagged("dead_letter")] == ["refund"]
    assert out.state("o1")["state"][0] == "paid"
