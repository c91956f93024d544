"""What recipes say of themselves, and what they say about arguments that cannot be right."""

from __future__ import annotations

import inspect
import math
import pickle
import re
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

import holdfast as hf
from holdfast import recipes
from holdfast.model.functions.step import build_step
from holdfast.testing import TestStream, run

FUNCTIONS = [
    thing for thing in vars(recipes).values() if inspect.isclass(thing) and issubclass(thing, (hf.DoFn, hf.CombineFn))
]
DOFNS = [thing for thing in FUNCTIONS if issubclass(thing, hf.DoFn)]
TABLE = {("new", "pay"): "paid"}
NO_PAIR: Any = {"new": "paid"}


def anything(value: object) -> bool:
    return True


MADE: list[hf.DoFn] = [
    recipes.Anomalies(),
    recipes.AssignIndex(),
    recipes.AssignIndexColumns(),
    recipes.ClickTrail("30 minutes"),
    recipes.CountLimit(5),
    recipes.CountWhileActive(timedelta(hours=1)),
    recipes.DecayingFeatures("1 day"),
    recipes.FirstOccurrence(),
    recipes.FirstOccurrenceColumns(),
    recipes.FirstOccurrenceWithin(60),
    recipes.GroupIntoBatches(100, max_bytes=10_000, max_wait=5),
    recipes.ImpossibleTravel(),
    recipes.MovingPrices(hf.Duration(60)),
    recipes.RollingAlert(60, above=30, below=28),
    recipes.RunningCount(),
    recipes.RunningCountColumns(),
    recipes.Sequence(anything, anything, 60, unless=anything),
    recipes.SlidingLimit(5, 60),
    recipes.StateMachine(TABLE, "new"),
    recipes.TemporalJoin(["amount"], ["rate"]),
    recipes.TokenBucket(5, 1),
    recipes.Velocity(5, "3 minutes"),
]


def problems_of(fn: hf.DoFn) -> list[str]:
    with pytest.raises(hf.InvalidStep) as raised:
        run(fn, TestStream(), requires_time_sorted_input=True)
    return raised.value.problems


class TestDocstrings:
    @pytest.mark.parametrize("recipe", FUNCTIONS, ids=lambda recipe: recipe.__name__)
    def test_each_says_what_it_keeps_when_that_goes_and_in_what_order_it_needs_its_elements(self, recipe: type) -> None:
        parts = re.findall(r"^(Keeps for each key|Frees it:|Order:)", inspect.getdoc(recipe), re.MULTILINE)
        assert parts == ["Keeps for each key", "Frees it:", "Order:"]

    @pytest.mark.parametrize("recipe", DOFNS, ids=lambda recipe: recipe.__name__)
    def test_what_each_says_of_order_is_what_its_step_demands(self, recipe: type[hf.DoFn]) -> None:
        order = inspect.getdoc(recipe).partition("\nOrder: ")[2]
        is_told = order.startswith("by event time, so the step needs `requires_time_sorted_input=True`")
        assert is_told or order.startswith("any")
        assert recipe.needs_time_sorted_input is is_told

    def test_all_are_listed_and_made_here(self) -> None:
        assert recipes.__all__ == sorted(recipes.__all__, key=lambda name: (name[0].islower(), name))
        assert {type(fn) for fn in MADE} == set(DOFNS)
        assert hf.recipes is recipes


class TestOrder:
    @pytest.mark.parametrize("fn", MADE, ids=lambda fn: type(fn).__name__)
    def test_a_step_that_does_not_ask_for_the_order_is_refused(self, fn: hf.DoFn) -> None:
        if not fn.needs_time_sorted_input:
            run(fn, TestStream())
            return
        with pytest.raises(hf.InvalidStep) as raised:
            run(fn, TestStream())
        [problem] = raised.value.problems
        assert problem == (
            f"{type(fn).__name__} is right only if a key's elements come in order of event time; give the step "
            "requires_time_sorted_input=True."
        )
        run(fn, TestStream(), requires_time_sorted_input=True)

    def test_a_function_of_ones_own_may_demand_it_too(self) -> None:
        class Latest(hf.DoFn):
            needs_time_sorted_input = True

            def process(self, element: Any) -> None: ...

        with pytest.raises(hf.InvalidStep, match="Latest is right only if"):
            build_step(Latest())


@pytest.mark.parametrize("fn", MADE, ids=lambda fn: type(fn).__name__)
def test_each_can_travel_and_describes_its_cells(fn: hf.DoFn) -> None:
    # Functions that are given are found by their names; a lambda is carried by Spark.
    copy = pickle.loads(pickle.dumps(fn))
    assert copy.state_parameters() == fn.state_parameters()
    cells = [spec for spec in vars(type(fn)).values() if isinstance(spec, hf.StateSpec)]
    assert cells
    assert [cell.name for cell in cells if not cell.doc] == []


WRONG: list[tuple[hf.DoFn, list[str]]] = [
    (recipes.CountWhileActive("soon"), ["idle is 'soon', which is not a duration"]),
    (recipes.FirstOccurrenceWithin(0), ["ttl is 0; it must be longer than zero."]),
    (recipes.FirstOccurrenceWithin(None), ["ttl is None, which is not a duration"]),
    (recipes.CountLimit(0), ["limit is 0; it must be a whole number of at least 1."]),
    (recipes.CountLimit(True, refused=""), ["refused is ''", "limit is True"]),
    (recipes.SlidingLimit(2.5, -1), ["limit is 2.5", "per is -1; it must be longer than zero."]),
    (recipes.TokenBucket("5", "1 fortnight"), ["refill is '1 fortnight'", "capacity is '5'"]),
    (recipes.GroupIntoBatches(), ["Nothing says when a batch is given: name max_count, max_bytes or max_wait."]),
    (
        recipes.GroupIntoBatches(0, max_bytes=0, size_of=7),
        ["max_count is 0", "max_bytes is 0", "size_of is 7; it must be a function."],
    ),
    (
        recipes.ClickTrail("1 hour", click="", max_clicks=0),
        ["click is ''; it must be the name of a field.", "max_clicks is 0"],
    ),
    (recipes.ImpossibleTravel(max_speed_kmh=0), ["max_speed_kmh is 0; it must be a number above 0."]),
    (recipes.ImpossibleTravel(min_km=math.nan, lat=None), ["min_km is nan; it must be a number.", "lat is None"]),
    (recipes.Velocity(1, "3 minutes"), ["count is 1; it must be a whole number of at least 2."]),
    (recipes.Anomalies(0, model=5), ["threshold is 0", "model is 5, which is no OnlineModel: it has no name and no create"]),
    (recipes.Anomalies(learns_anomalies="no"), ["learns_anomalies is 'no'; it can be False or True."]),
    (recipes.RollingAlert(60, above=1, below=2), ["below is 2; it cannot be higher than above, which is 1."]),
    (recipes.MovingPrices(60, price=5), ["price is 5; it must be the name of a field."]),
    (recipes.DecayingFeatures(60, least=0, size=0), ["least is 0", "size is 0"]),
    (
        recipes.TemporalJoin("amount", [], how="outer"),
        ["row is 'amount'; it must be a list", "table is empty", "how is 'outer'"],
    ),
    (recipes.Sequence("a", None, 60, unless=5), ["first is 'a'; it must be a function.", "then is None", "unless is 5"]),
    (recipes.StateMachine({}, "new"), ["transitions is {}; it must be a dict {(state, event): next state}."]),
    (recipes.StateMachine(NO_PAIR, "new"), ["transitions has 'new': 'paid'; it must be (state, event): next state"]),
    (recipes.StateMachine(TABLE, "paid"), ["initial is 'paid'; nothing leads out of it. There is 'new'."]),
    (
        recipes.StateMachine({**TABLE, ("lost", "find"): "new"}, "new"),
        ["transitions leads out of 'lost', but from 'new' nothing leads there."],
    ),
    (recipes.StateMachine(TABLE, "new", unexpected="drop"), ["unexpected is 'drop'; it can be 'fail' or 'ignore'."]),
]


@pytest.mark.parametrize(("fn", "wanted"), WRONG, ids=lambda part: type(part).__name__)
def test_arguments_that_cannot_be_right(fn: hf.DoFn, wanted: list[str]) -> None:
    found = problems_of(fn)
    assert len(found) == len(wanted)
    for problem, beginning in zip(found, wanted, strict=True):
        assert problem.startswith(beginning)


@pytest.mark.parametrize(
    ("make", "wanted"),
    [
        (lambda: recipes.Vwap(price=""), "price is ''"),
        (lambda: recipes.ZoneRides(None), "total is None"),
        (lambda: recipes.TopItems(0, "page"), "n is 0"),
        (lambda: recipes.Moments(warmup=1), "warmup is 1; it must be a whole number of at least 2."),
        (lambda: recipes.Moments(min_spread=0), "min_spread is 0; it must be a number above 0."),
        (lambda: recipes.MovingMoments(1.0), "weight is 1.0; it must be below 1."),
        (lambda: recipes.MovingMoments(0), "weight is 0; it must be a number above 0."),
    ],
)
def test_combiners_and_models_refuse_theirs_at_once(make: Any, wanted: str) -> None:
    with pytest.raises(hf.InvalidStep) as raised:
        make()
    assert wanted in str(raised.value)


@pytest.mark.parametrize("value", [None, "5", True, math.inf, math.nan])
def test_what_is_no_number_is_refused_with_its_field(value: object) -> None:
    stream = TestStream().add_elements([("k", {"celsius": value})]).advance_watermark_to_infinity()
    with pytest.raises(hf.InputError) as raised:
        run(recipes.RollingAlert(60, above=1, field="celsius"), stream, requires_time_sorted_input=True)
    assert f"The field 'celsius' of a value is {value!r}; it must be a finite number." in str(raised.value)
    assert "dead_letter" in raised.value.todo
    with pytest.raises((hf.UserCodeError, hf.InputError), match="is no finite number"):
        run(recipes.Anomalies(whole=True, field="celsius"), stream, requires_time_sorted_input=True)


NO_NUMBERS = [math.nan, math.inf, Decimal("NaN"), "5", True]


@pytest.mark.parametrize("value", NO_NUMBERS)
@pytest.mark.parametrize(
    ("combiner", "row"),
    [
        (recipes.TopItems(2, "page", amount="n"), {"page": "b"}),
        (recipes.Vwap("n", "m"), {"m": 1.0}),
        (recipes.Vwap("m", "n"), {"m": 1.0}),
        (recipes.ZoneRides("n"), {}),
    ],
    ids=["tops", "price", "volume", "rides"],
)
def test_combiners_refuse_what_is_no_number(
    combiner: hf.CombineFn[Any, Any, Any], row: dict[str, Any], value: object
) -> None:
    """A NaN among totals has no place in an order: without this, which items come out depended on how they arrived."""
    with pytest.raises(hf.InputError, match=r"The field 'n' of a value is .*; it must be a finite number"):
        combiner.apply([{**row, "n": 1.0}, {**row, "n": value}, {**row, "n": 3.0}])


def test_a_volume_is_not_negative_in_a_window_either() -> None:
    with pytest.raises(hf.InputError, match="volume -1"):
        recipes.Vwap().apply([{"price": 5, "volume": 1}, {"price": 5, "volume": -1}])


@pytest.mark.parametrize("model", [recipes.Moments(warmup=2), recipes.MovingMoments(warmup=2)])
def test_a_model_says_when_floats_cannot_hold_it(model: Any) -> None:
    """One value of 1e200 would make the spread infinite, and no later value could ever be an anomaly."""
    state = model.learn(model.create(), 1.0)
    with pytest.raises(OverflowError, match="their spread is infinite"):
        model.learn(state, 1e200)
    assert math.isfinite(model.score(model.learn(state, 2.0), 1e200))


def test_a_category_is_a_text_and_its_weight_not_negative() -> None:
    for row in ({"topic": 5, "weight": 1}, {"topic": "tea", "weight": -1}):
        with pytest.raises(hf.InputError, match=r"must be a text|cannot be negative"):
            run(recipes.DecayingFeatures(60, category="topic", weight="weight"), TestStream().add_elements([("k", row)]))


WITHIN = hf.Duration(micros=1)
LOGIN = {"lat": 1.0, "lon": 1.0}
TRADE = {"price": 5.0, "volume": 1}
# What a key gets, at -100.5 and -90.25, and when its last state goes. Times before 1970 and fractions of a second, too.
FREED: list[tuple[hf.DoFn, Any, hf.Timestamp]] = [
    (recipes.Anomalies(forget_after=60), 1.0, hf.Timestamp(-30.25)),
    (recipes.ClickTrail(60), "home", hf.Timestamp(-30.25)),
    (recipes.CountWhileActive(60), 1, hf.Timestamp(-30.25)),
    (recipes.FirstOccurrenceWithin(60), 1, hf.Timestamp(-40.5)),
    (recipes.ImpossibleTravel(forget_after=60), LOGIN, hf.Timestamp(-30.25)),
    (recipes.MovingPrices(60), TRADE, hf.Timestamp(-30.25)),
    (recipes.RollingAlert(60, above=5), 1.0, hf.Timestamp(-30.25)),
    (recipes.Sequence(anything, bool, 60), 0, hf.Timestamp(-30.25) + WITHIN),
    (recipes.SlidingLimit(1, 60), 1, hf.Timestamp(-40.5)),
    (
        recipes.StateMachine({("new", "pay"): "paid", ("paid", "pay"): "new"}, "new", forget_after=60),
        "pay",
        hf.Timestamp(-30.25),
    ),
    (recipes.TokenBucket(5, 60), 1, hf.Timestamp(19.5)),
    (recipes.Velocity(5, 60), 1.0, hf.Timestamp(-30.25) + WITHIN),
]


@pytest.mark.parametrize(("fn", "value", "freed"), FREED, ids=lambda part: type(part).__name__)
def test_state_goes_when_the_docstring_says_so_and_no_sooner(fn: hf.DoFn, value: Any, freed: hf.Timestamp) -> None:
    elements = [hf.TimestampedValue(("k", value), time) for time in (-90.25, -100.5)]

    def kept(watermark: hf.Timestamp) -> list[object]:
        stream = TestStream().add_elements(elements).crash().advance_watermark_to(watermark)
        return run(fn, stream, requires_time_sorted_input=True).keys()

    assert kept(freed - WITHIN) == ["k"]
    assert kept(freed) == []


def test_another_kind_of_model_cannot_go_on_from_stored_state() -> None:
    """What Welford's sums mean, another model cannot know."""
    stream = TestStream().add_elements([("k", 1.0)]).advance_watermark_to(10)
    before = run(recipes.Anomalies(), stream, requires_time_sorted_input=True)
    with pytest.raises(hf.StateConflict):
        run(
            recipes.Anomalies(model=recipes.MovingMoments()),
            TestStream(),
            start_from=before,
            requires_time_sorted_input=True,
        )


class TestRiver:
    """River's own half-space trees, beside the same trees outside."""

    VALUES = [{"x": float(number % 7) / 7, "y": 0.5} for number in range(40)] + [{"x": 1.0, "y": 0.0}]

    def test_it_scores_as_river_does_whatever_crashes(self) -> None:
        anomaly = pytest.importorskip("river.anomaly")

        def make() -> Any:
            return anomaly.HalfSpaceTrees(n_trees=3, height=4, window_size=10, seed=5)

        stream = TestStream()
        for second, value in enumerate(self.VALUES):
            stream.add_elements([hf.TimestampedValue(("k", value), second)]).advance_watermark_to(second).crash()
        recipe = recipes.Anomalies(0.5, whole=True, change=1e-9, model=recipes.RiverModel(make, warmup=20))
        out = run(recipe, stream, requires_time_sorted_input=True)
        detector, scores = make(), []
        for value in self.VALUES:
            scores.append(detector.score_one(value))
            detector.learn_one(value)
        wanted = [scores[20]]
        for score in scores[21:]:
            if abs(score - wanted[-1]) >= 1e-9 or (score >= 0.5) != (wanted[-1] >= 0.5):
                wanted.append(score)
        assert [score for _, _, score, _ in out.values] == wanted
        assert len(wanted) > 3
        assert isinstance(out.state("k")["model"][1][1], bytes)

    def test_its_arguments(self) -> None:
        pytest.importorskip("river.anomaly")
        with pytest.raises(hf.InvalidStep) as raised:
            recipes.RiverModel(5, warmup=-1)
        assert len(raised.value.problems) == 2

    def test_without_river_it_says_what_to_install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("holdfast.model.extras._is_here", lambda name: False)
        with pytest.raises(
            hf.MissingExtra, match=r"RiverModel needs river, which is not installed: pip install 'holdfast\[river\]'"
        ):
            recipes.RiverModel(lambda: None)
