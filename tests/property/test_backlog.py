"""Every example that keeps state by time is right under a backlog: whether its elements come one by one, all in one bundle
or shuffled as far as the watermark allows, it gives what it gives to a stream that is in order.

The functions of the documents are run with the options that the documents give them: these are noted while a page runs.
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast as hf
import holdfast.testing
from holdfast.demo import job as fraud_job
from holdfast.demo.travel import ImpossibleTravel
from holdfast.demo.velocity import Velocity
from holdfast.model.functions.params import Param, ParamKind
from holdfast.testing import Results, TestStream, run
from tiers import examples

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
sys.path.insert(0, str(Path(__file__).parents[1]))

from anomalies import PredictAsYouGo

from contract import test_examples as contract
from documents import WITH_EXAMPLES, in_memory

PAGES = {page.stem: page for page in WITH_EXAMPLES}
BOUND = 20
"""How far out of order elements come, in seconds: the watermark is so much behind the newest."""


class Page(NamedTuple):
    """A page of the documents that has run."""

    classes: dict[str, type[hf.DoFn]]
    options: dict[str, list[dict[str, Any]]]
    """By the name of the function's class: what its runs were given."""


@functools.cache
def played(name: str) -> Page:
    """Runs the examples of a page, and notes how they run their functions."""
    page = PAGES[name]
    options: dict[str, list[dict[str, Any]]] = {}

    def recording(fn: Any, stream: TestStream, **given: Any) -> Results:
        options.setdefault(type(fn).__name__, []).append(given)
        return run(fn, stream, **given)

    module = types.ModuleType(f"backlog_page_{page.stem.replace('-', '_')}")
    with mock.patch.dict(sys.modules, {module.__name__: module}), mock.patch.object(holdfast.testing, "run", recording):
        for block in in_memory(page):
            exec(compile(block.text, page.name, "exec"), module.__dict__)
    found = vars(module).items()
    return Page({name: cls for name, cls in found if isinstance(cls, type) and issubclass(cls, hf.DoFn)}, options)


class Payment(NamedTuple):
    amount: float
    lat: float = 0.0
    lon: float = 0.0
    city: str = "here"


class Event(NamedTuple):
    event: int
    amount: float


def of_rows(cls: type[hf.DoFn], row: Callable[..., Any]) -> type[hf.DoFn]:
    """The function over plain tuples, which a test can hold back, in place of the rows that Spark gives it."""
    given = cls.process

    @functools.wraps(given)
    def process(self: Any, element: Any, *rest: Any) -> Any:
        return given(self, (element[0], row(*element[1])), *rest)

    return type(cls.__name__, (cls,), {"process": process})


class Case(NamedTuple):
    make: Callable[[], hf.DoFn]
    options: dict[str, Any]
    values: st.SearchStrategy[Any]
    least: int = 1
    """How many elements it takes for anything to come out."""


def of_page(name: str, values: st.SearchStrategy[Any], which: int = 0) -> Callable[[], Case]:
    """A function of a page, with the options of one of its runs there."""

    def case() -> Case:
        page, _, function = name.partition(" ")
        options = played(page).options[function][which]
        kept = {option: given for option, given in options.items() if option in ("windowing", "requires_time_sorted_input")}
        return Case(played(page).classes[function], kept, values)

    return case


amounts = st.integers(1, 50).map(float)
texts = st.sampled_from("abc")
places = st.sampled_from([contract.TOKYO, contract.NEW_YORK, contract.NEWARK])
payments = st.tuples(amounts, st.sampled_from([0.0, 50.0]), st.sampled_from([0.0, 90.0]))
IN_ORDER = {"requires_time_sorted_input": True}

BY_TIME: dict[str, Callable[[], Case]] = {
    "README Velocity": of_page("README Velocity", amounts),
    "semantics Visits": of_page("semantics Visits", texts, which=1),
    "timers AfterSilence": of_page("timers AfterSilence", texts),
    "timers Reminders": of_page("timers Reminders", st.tuples(texts, st.none() | st.integers(0, 400))),
    "timers EveryMinute": of_page("timers EveryMinute", texts),
    "windows Total": of_page("windows Total", st.integers(0, 9)),
    "state LastPrices": of_page("state LastPrices", st.tuples(texts, amounts)),
    "state LastMinute": of_page("state LastMinute", amounts),
    "from-beam Totals": of_page("from-beam Totals", st.integers(0, 9)),
    "from-kafka-streams Rapid": of_page("from-kafka-streams Rapid", amounts),
    "testing Firsts": of_page("testing Firsts", texts),
    "velocity.py": lambda: Case(of_rows(Velocity, Payment), IN_ORDER, payments),
    "travel.py": lambda: Case(of_rows(ImpossibleTravel, Payment), IN_ORDER, payments),
    "anomalies.py": lambda: Case(of_rows(PredictAsYouGo, Event), IN_ORDER, st.tuples(st.just(0), amounts), least=20),
    "contract Travel": lambda: Case(contract.Travel, IN_ORDER, places),
    "contract RateLimit": lambda: Case(contract.RateLimit, IN_ORDER, texts),
    "contract Deduplicate": lambda: Case(lambda: contract.DeduplicateForAWhile(event_seconds=30), IN_ORDER, texts),
    "contract Inactivity": lambda: Case(lambda: contract.Inactivity(40), IN_ORDER, texts),
}
ONE_ELEMENT = {"timers Order", "timers Flush", "timers EverySevenSeconds"}
"""They show when timers fire that are set to fixed times, by one element."""


class Arrival(NamedTuple):
    """Elements as (time, key, value) with times of their own, and how they come."""

    elements: list[tuple[int, str, Any]]
    late_by: list[int]
    """How much later than its time an element comes, which is less than the bound."""
    cuts: set[int]
    """After which elements a bundle ends."""


@st.composite
def arrivals(draw: st.DrawFn, values: st.SearchStrategy[Any], least: int) -> Arrival:
    times = draw(st.lists(st.integers(0, 400), unique=True, min_size=least, max_size=least + 11))
    elements = [(time, draw(st.sampled_from("kj")), draw(values)) for time in sorted(times)]
    late_by = [draw(st.integers(0, BOUND - 1)) for _ in elements]
    return Arrival(elements, late_by, draw(st.sets(st.integers(0, len(elements)))))


def timed(elements: list[tuple[int, str, Any]]) -> list[hf.TimestampedValue]:
    return [hf.TimestampedValue((key, value), time) for time, key, value in elements]


def one_by_one(arrival: Arrival) -> TestStream:
    stream = TestStream()
    for element in arrival.elements:
        stream.add_elements(timed([element])).advance_watermark_to(element[0] - BOUND)
    return stream.advance_watermark_to_infinity()


def in_one_bundle(arrival: Arrival) -> TestStream:
    mixed = sorted(arrival.elements, key=lambda element: (element[0] * 7919) % 401)
    return TestStream().add_elements(timed(mixed)).advance_watermark_to_infinity()


def shuffled(arrival: Arrival) -> TestStream:
    """In bundles, out of order, the watermark always behind the newest element by the bound."""
    order = sorted(zip(arrival.elements, arrival.late_by, strict=True), key=lambda pair: pair[0][0] + pair[1])
    stream, newest, bundle = TestStream(), 0, []
    for place, (element, _) in enumerate(order):
        bundle.append(element)
        if place in arrival.cuts:
            newest = max(newest, *(time for time, _, _ in bundle))
            stream.add_elements(timed(bundle)).advance_watermark_to(newest - BOUND)
            bundle = []
    return stream.add_elements(timed(bundle)).advance_watermark_to_infinity()


def in_order(arrival: Arrival) -> TestStream:
    """What it should be like: each element when its time has come, and everything before it is over."""
    stream = TestStream()
    for element in arrival.elements:
        stream.advance_watermark_to(hf.Timestamp(element[0]) - hf.Duration(micros=1)).add_elements(timed([element]))
    return stream.advance_watermark_to_infinity()


def seen(results: Results) -> Any:
    """The outputs and what is left, key by key: of different keys there is no order."""
    outputs = [(output.value, output.timestamp, output.window) for output in results]
    assert results.metrics.late == 0
    return sorted(outputs, key=lambda o: (o[1], repr(o))), {key: results.state(key) for key in sorted(results.keys())}


@pytest.mark.parametrize("name", BY_TIME)
@settings(max_examples=examples(12), deadline=None)
@given(data=st.data())
def test_an_example_gives_the_same_however_its_elements_come(name: str, data: st.DataObject) -> None:
    case = BY_TIME[name]()
    arrival = data.draw(arrivals(case.values, case.least))
    wanted = seen(run(case.make(), in_order(arrival), windowing=case.options.get("windowing")))
    for come in (one_by_one, in_one_bundle, shuffled):
        assert seen(run(case.make(), come(arrival), **case.options)) == wanted, come.__name__


def test_the_order_would_matter_without_the_option() -> None:
    """So that the test above can fail: a visit of two hours."""
    backlog = Arrival([(0, "k", 1), (7200, "k", 1)], [0, 0], set())
    visits = played("semantics").classes["Visits"]
    assert seen(run(visits(), in_one_bundle(backlog))) != seen(run(visits(), in_order(backlog)))


def goes_by_time(cls: type[hf.DoFn]) -> bool:
    """Whether a function asks for times, for a timer of event time, or for a list that is sorted by time."""
    methods = [member for member in vars(cls).values() if inspect.isfunction(member)]
    wishes = [p.default for method in methods for p in inspect.signature(method).parameters.values()]
    return any(is_about_time(wish) for wish in wishes if isinstance(wish, Param))


def is_about_time(wish: Param) -> bool:
    spec = getattr(wish, "spec", None)
    if isinstance(spec, hf.TimerSpec):
        return spec.time_domain is hf.TimeDomain.WATERMARK
    return wish.kind is ParamKind.TIMESTAMP or isinstance(spec, hf.OrderedListStateSpec)


def test_no_example_of_the_documents_is_left_out() -> None:
    ran = {page: played(page) for page in PAGES}
    found = {f"{page} {name}" for page in ran for name, cls in ran[page].classes.items() if goes_by_time(cls)}
    refused = {f"{page} {name}" for page in ran for name in ran[page].classes if not runs(ran[page], name)}
    assert found - refused - set(BY_TIME) == ONE_ELEMENT


def runs(ran: Page, name: str) -> bool:
    """Whether a page shows results of a function, and not only that it is refused."""
    return name in ran.options and name != "Broken"


def test_the_job_of_the_demo_lets_payments_come_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    keyed = mock.MagicMock()
    monkeypatch.setattr(hf, "session", mock.MagicMock())
    monkeypatch.setattr(hf, "keyed", keyed)
    monkeypatch.setattr(hf, "Job", mock.MagicMock())
    fraud_job.main("source", "checkpoint", "sink")
    calls = keyed.return_value.par_do.call_args_list
    assert {type(call.args[0]) for call in calls} == {Velocity, ImpossibleTravel}
    assert [call.kwargs["requires_time_sorted_input"] for call in calls] == [True, True]
