"""A call is atomic: one that raises leaves no trace, or stops everything with an error that says where and why."""

from __future__ import annotations

from itertools import chain

import pytest

import holdfast as hf
import holdfast.testing
from holdfast import (
    BagStateSpec,
    CombiningStateSpec,
    DoFn,
    FixedWindows,
    HoldfastError,
    MapStateSpec,
    OrderedListStateSpec,
    OutputError,
    SetStateSpec,
    TaggedOutput,
    TimeDomain,
    TimerSpec,
    ToList,
    UserCodeError,
    ValueStateSpec,
    on_timer,
)
from holdfast.testing import TestStream

from .reading import at, by_key, stamped


class Mishap(Exception):
    """What the functions here raise."""


class AllKinds(DoFn):
    """Does to every kind of cell, and to timers of both domains, what the element says; then it may raise."""

    VALUE = ValueStateSpec("value")
    BAG = BagStateSpec("bag")
    SET = SetStateSpec("set")
    MAP = MapStateSpec("map")
    ORDERED = OrderedListStateSpec("ordered")
    SUM = CombiningStateSpec("sum", sum)
    LIST = CombiningStateSpec("list", ToList())
    EVENT = TimerSpec("event", TimeDomain.WATERMARK)
    REAL = TimerSpec("real", TimeDomain.REAL_TIME)

    def process(
        self,
        element,
        value=DoFn.StateParam(VALUE),
        bag=DoFn.StateParam(BAG),
        members=DoFn.StateParam(SET),
        mapping=DoFn.StateParam(MAP),
        ordered=DoFn.StateParam(ORDERED),
        total=DoFn.StateParam(SUM),
        listed=DoFn.StateParam(LIST),
        event=DoFn.TimerParam(EVENT),
        real=DoFn.TimerParam(REAL),
    ):
        key, (actions, *after) = element
        for action, number in actions:
            if action == "put":
                value.write([number])
                bag.add(number)
                members.add(number)
                mapping.put(number, [number])
                ordered.add((number, number))
                total.add(number)
                listed.add(number)
                event.set(100 + number)
                event.set(200 + number, dynamic_timer_tag="x")
                real.set(300 + number)
                real.set(400 + number, dynamic_timer_tag=f"{number}")
            if action == "take":
                members.remove(number)
                mapping.remove(number)
                ordered.clear_range(number, number + 1)
                event.clear()
                real.clear(dynamic_timer_tag=f"{number}")
            if action == "clear":
                for cell in (value, bag, members, mapping, ordered, total, listed):
                    cell.clear()
                event.clear()
                event.clear(dynamic_timer_tag="x")
                real.clear()
            yield key, action, number
            yield TaggedOutput("side", (key, action, number))
        if after:
            raise Mishap(*after)

    @on_timer(EVENT)
    def on_event(self, key=DoFn.KeyParam, time=DoFn.TimestampParam, tag=DoFn.DynamicTimerTagParam):
        yield key, "event", tag, float(time)

    @on_timer(REAL)
    def on_real(self, key=DoFn.KeyParam, time=DoFn.TimestampParam, tag=DoFn.DynamicTimerTagParam):
        yield key, "real", tag, float(time)


FILL = [("put", 1), ("put", 2)]
MISHAPS = {
    "nothing done": [],
    "one put": [("put", 9)],
    "put what is there": [("put", 1)],
    "two put": [("put", 9), ("put", 8)],
    "taken": [("take", 1)],
    "all taken": [("take", 1), ("take", 2)],
    "taken and put again": [("take", 1), ("put", 1)],
    "put and taken": [("put", 9), ("take", 9), ("take", 2)],
    "cleared": [("clear", 0)],
    "cleared and put": [("clear", 0), ("put", 9)],
    "put, cleared, put": [("put", 9), ("clear", 0), ("put", 1), ("put", 7)],
}
SCRIPTS = {
    "first of all": lambda mishap: [mishap, (FILL,)],
    "after some": lambda mishap: [(FILL,), mishap],
    "in between": lambda mishap: [(FILL,), mishap, ([("put", 3)],)],
    "among others": lambda mishap: [(FILL,), ([("put", 3), ("take", 1)],), mishap, ([("put", 1), ("put", 4)],)],
    "twice": lambda mishap: [(FILL,), mishap, mishap, ([("take", 2), ("put", 1)],)],
    "after all was taken": lambda mishap: [(FILL,), ([("take", 1), ("take", 2)],), mishap, ([("put", 5)],)],
    "after all was cleared": lambda mishap: [(FILL,), ([("clear", 0)],), mishap, ([("put", 5)],)],
}


def is_mishap(element):
    return len(element) > 1


def bundles(stories, way):
    """Each story is that of a key. What comes next in each of them is a round; rounds become bundles in some way."""
    rounds = [list(zip(stories, turn, strict=True)) for turn in zip(*stories.values(), strict=True)]
    if way == "one bundle":
        return [list(chain.from_iterable(rounds))]
    if way == "one, then the rest":
        return [rounds[0], list(chain.from_iterable(rounds[1:]))]
    return rounds


def tell(stories, way):
    stream = TestStream()
    for elements in bundles(stories, way):
        stream.add_elements(elements)
        if way == "crashing":
            stream.crash()
    return stream


@pytest.mark.parametrize("place", SCRIPTS)
@pytest.mark.parametrize("way", ["one bundle", "one, then the rest", "many bundles", "crashing"])
def test_a_call_that_raises_leaves_no_trace(run, place, way):
    """Whatever a call did before it raised, all is as if its element had never come."""
    stories = {name: SCRIPTS[place]((actions, "so it goes")) for name, actions in MISHAPS.items()}
    without = {name: [element for element in story if not is_mishap(element)] for name, story in stories.items()}
    streams = [tell(these, way) for these in (stories, without)]
    out, expected = (run(AllKinds(), stream, on_error="dead_letter") for stream in streams)
    for name in stories:
        state, expected_state = out.state(name), expected.state(name)
        assert state == expected_state, name
        # The order of a map's keys is part of what it holds.
        assert list(state.get("map", ())) == list(expected_state.get("map", ())), name
    assert by_key(out) == by_key(expected)
    assert by_key(out, "side") == by_key(expected, "side")
    mishaps = sum(is_mishap(element) for story in stories.values() for element in story)
    assert out.metrics.dead_letters == len(out.tagged("dead_letter")) == mishaps
    # At the end every timer fires, so the outputs tell which were set.
    ended, expected_end = (
        run(AllKinds(), stream.advance_watermark_to_infinity(), on_error="dead_letter") for stream in streams
    )
    assert by_key(ended) == by_key(expected_end)


@pytest.mark.parametrize("actions", MISHAPS.values(), ids=MISHAPS)
def test_stored_timers_are_as_they_were(run, actions):
    stream = TestStream().add_elements([("k", (FILL,)), ("k", (actions, "so it goes"))])
    out = run(AllKinds(), stream, on_error="dead_letter")
    assert [(name, tag, float(time)) for name, tag, _, time in out.timers("k")] == [
        ("event", "", 102.0),
        ("event", "x", 202.0),
        ("real", "", 302.0),
        ("real", "1", 401.0),
        ("real", "2", 402.0),
    ]


def test_the_rest_of_the_bundle_goes_on(run):
    elements = [("k", (FILL,)), ("k", (FILL, "bad")), ("j", (FILL, "bad")), ("j", (FILL,)), ("k", ([("put", 3)],))]
    out = run(AllKinds(), TestStream().add_elements(elements), on_error="dead_letter")
    assert by_key(out) == {"k": [("put", 1), ("put", 2), ("put", 3)], "j": [("put", 1), ("put", 2)]}


def test_a_dead_letter_says_what_happened(run, feed):
    value = ([("put", 1)], "it broke")
    out = run(AllKinds(), feed(TestStream(), at(("k", value, 7))), on_error="dead_letter", windowing=FixedWindows(10))
    (output,) = [output for output in out if output.tag == "dead_letter"]
    letter = output.value
    assert (letter.key, letter.value, letter.timestamp, letter.method) == ("k", value, 7, "process")
    assert letter.error == "Mishap: it broke"
    assert letter.traceback.startswith("Traceback (most recent call last):")
    assert "raise Mishap(*after)" in letter.traceback
    assert "holdfast" not in letter.traceback.split("raise Mishap")[0].replace(__file__, "")
    assert letter.traceback.endswith("Mishap: it broke")
    assert float(output.timestamp) == 7.0
    assert (float(output.window.start), float(output.window.end)) == (0.0, 10.0)


class Fails(DoFn):
    """Raises in the method that the element names, after it wrote and gave something."""

    NOTES = BagStateSpec("notes")
    TIMER = TimerSpec("timer")
    OTHER = TimerSpec("other")

    def process(self, element, notes=DoFn.StateParam(NOTES), timer=DoFn.TimerParam(TIMER)):
        notes.add(element[1])
        timer.set(10)
        if element[1] == "process":
            raise Mishap("in process")
        return [(element[0], element[1])]

    @on_timer(TIMER)
    def on_time(self, key=DoFn.KeyParam, notes=DoFn.StateParam(NOTES), other=DoFn.TimerParam(OTHER)):
        fails = "timer" in notes.read()
        notes.add("fired")
        other.set(20)
        yield key, "fired"
        if fails:
            raise Mishap("in the callback")

    @on_timer(OTHER)
    def on_other(self, key=DoFn.KeyParam):
        yield key, "other fired"

    def on_window_expiration(self, key=DoFn.KeyParam, notes=DoFn.StateParam(NOTES)):
        yield key, list(notes.read())
        if "expiration" in notes.read():
            raise Mishap("at the end")


class TestDeadLetters:
    def test_of_a_function_that_returns(self, run, feed):
        out = run(Fails(), feed(TestStream(), [("k", "process"), ("j", "fine")]), on_error="dead_letter")
        assert by_key(out) == {"j": ["fine"]}
        assert out.state("k") == {}
        assert out.timers("k") == []
        assert out.keys() == ["j"]

    def test_of_a_timer(self, run, feed):
        stream = feed(TestStream(), at(("k", "timer", 0), ("j", "fine", 0))).advance_watermark_to(10)
        out = run(Fails(), stream, on_error="dead_letter")
        assert by_key(out) == {"k": ["timer"], "j": ["fine", "fired"]}
        assert out.state("k") == {"notes": ["timer"]}
        assert out.timers("k") == []
        assert [name for name, *_ in out.timers("j")] == ["other"]
        (letter,) = out.tagged("dead_letter")
        assert (letter.key, letter.value, letter.timestamp, letter.method) == ("k", None, 10, "on_time")
        assert letter.error == "Mishap: in the callback"

    def test_a_timer_whose_callback_raised_does_not_fire_again(self, run, feed):
        stream = feed(TestStream(), at(("k", "timer", 0))).advance_watermark_to(10).crash().advance_watermark_to(50)
        assert run(Fails(), stream, on_error="dead_letter").metrics.dead_letters == 1

    def test_of_the_end_of_a_window(self, run, feed):
        stream = feed(TestStream(), at(("k", "expiration", 0), ("j", "fine", 0))).advance_watermark_to(50)
        out = run(Fails(), stream, windowing=FixedWindows(50), on_error="dead_letter")
        assert by_key(out)["k"] == ["expiration", "fired", "other fired"]
        assert by_key(out)["j"] == ["fine", "fired", "other fired", ["fine", "fired"]]
        assert out.keys() == []
        (letter,) = out.tagged("dead_letter")
        assert (letter.key, letter.value, letter.method) == ("k", None, "on_window_expiration")

    def test_an_element_that_failed_does_not_count_for_the_end_of_its_window(self, run, feed):
        stream = feed(TestStream(), at(("k", "process", 0))).advance_watermark_to(50)
        assert by_key(run(Fails(), stream, windowing=FixedWindows(50), on_error="dead_letter")) == {}

    def test_of_an_output_that_cannot_be_one(self, run):
        out = run(ReturnsText(), TestStream().add_elements([("k", "bad"), ("k", "good")]), on_error="dead_letter")
        assert by_key(out) == {"k": ["good"]}
        assert out.state("k") == {"count": 1}
        (letter,) = out.tagged("dead_letter")
        assert letter.error.startswith("OutputError: process returned a str")

    def test_of_a_value_that_its_cell_does_not_take(self, run):
        out = run(WritesAnything(), TestStream().add_elements([("k", "good"), ("k", "bad")]), on_error="dead_letter")
        assert out.state("k") == {"first": "good", "second": "good"}
        assert out.metrics.dead_letters == 1

    def test_of_one_window_of_an_element(self, run):
        out = run(
            FailsInOneWindow(),
            TestStream().add_elements(at(("k", 1, 7), ("k", 2, 17))),
            windowing=FixedWindows(10),
            on_error="dead_letter",
        )
        assert stamped(out) == {"k": [(1, 7.0, (0.0, 10.0))]}
        assert [letter.timestamp for letter in out.tagged("dead_letter")] == [17]


class ReturnsText(DoFn):
    COUNT = CombiningStateSpec("count", sum)

    def process(self, element, count=DoFn.StateParam(COUNT)):
        count.add(1)
        return "text" if element[1] == "bad" else [element]


class WritesAnything(DoFn):
    FIRST = ValueStateSpec("first")
    SECOND = ValueStateSpec("second")

    def process(self, element, first=DoFn.StateParam(FIRST), second=DoFn.StateParam(SECOND)):
        first.write(element[1])
        second.write(object() if element[1] == "bad" else element[1])


class FailsInOneWindow(DoFn):
    def process(self, element, window=DoFn.WindowParam):
        if window.start == 10:
            raise Mishap("not here")
        yield element


class Bundles(DoFn):
    """Raises in a method that belongs to a bundle and not to an element."""

    def __init__(self, where):
        self.where = where

    def setup(self):
        self.fail("setup")

    def start_bundle(self):
        self.fail("start_bundle")

    def process(self, element):
        yield element

    def finish_bundle(self):
        self.fail("finish_bundle")

    def teardown(self):
        self.fail("teardown")

    def fail(self, where):
        if where == self.where:
            raise Mishap(f"in {where}")


class TestFail:
    def test_the_error_says_which_step_key_and_micro_batch(self, run):
        stream = TestStream().add_elements([("a", "fine")]).advance_processing_time(1)
        with pytest.raises(UserCodeError) as raised:
            run(Fails(), stream.add_elements([("b", "fine"), ("k", "process")]), name="notes")
        error = raised.value
        assert error.context == {"step": "notes", "key": "k", "micro_batch": 2}
        assert error.what == "process of the step 'notes' raised Mishap: in process"
        assert "where: step 'notes', key 'k', micro batch 2" in str(error)
        assert "dead_letter" in error.todo

    def test_the_error_shows_the_users_own_lines_first(self, run):
        with pytest.raises(UserCodeError) as raised:
            run(Fails(), TestStream().add_elements([("k", "process")]))
        error = raised.value
        first, second, third, *_ = error.detail.splitlines()
        assert first == "Traceback (most recent call last):"
        assert __file__ in second
        assert "in process" in second
        assert third.strip() == 'raise Mishap("in process")'

    def test_without_spark_the_exception_itself_is_the_cause(self):
        with pytest.raises(UserCodeError) as raised:
            holdfast.testing.run(Fails(), TestStream().add_elements([("k", "process")]))
        assert isinstance(raised.value.__cause__, Mishap)

    def test_the_error_names_the_window(self, run):
        with pytest.raises(UserCodeError) as raised:
            run(Fails(), TestStream().add_elements(at(("k", "process", 7))), windowing=FixedWindows(10))
        assert repr(raised.value.context["window"]) == "[0, 10)"
        assert "window [0, 10)" in str(raised.value)

    def test_an_error_of_a_callback(self, run):
        with pytest.raises(UserCodeError, match=r"on_time of the step 'Fails' raised Mishap") as raised:
            run(Fails(), TestStream().add_elements([("k", "timer")]).advance_watermark_to(10))
        # On Spark a micro-batch goes by the watermark that those before it have set.
        micro_batch = 2 if run.runtime == "spark" else 1
        assert raised.value.context == {"step": "Fails", "key": "k", "micro_batch": micro_batch}

    def test_an_error_at_the_end_of_a_window(self, run):
        stream = TestStream().add_elements(at(("k", "expiration", 0))).advance_watermark_to(50)
        with pytest.raises(UserCodeError, match=r"on_window_expiration of the step 'Fails' raised Mishap"):
            run(Fails(), stream, windowing=FixedWindows(50))

    @pytest.mark.parametrize("where", ["setup", "start_bundle", "finish_bundle", "teardown"])
    @pytest.mark.parametrize("on_error", ["fail", "dead_letter"])
    def test_an_error_outside_of_any_element(self, run, where, on_error):
        if where == "teardown" and run.runtime == "spark":
            pytest.skip("a worker of Spark's does not know when it is the last time")
        with pytest.raises(UserCodeError, match=f"{where} of the step 'Bundles' raised Mishap: in {where}") as raised:
            run(Bundles(where), TestStream().add_elements([("k", 1)]), on_error=on_error)
        assert "Mishap" in raised.value.detail
        assert "key" not in raised.value.context

    def test_a_method_that_the_cell_does_not_have_is_explained(self, run):
        with pytest.raises(HoldfastError, match="bag cell") as raised:
            run(Misuses(), TestStream().add_elements([("k", 1)]))
        assert "AttributeError" in raised.value.detail

    def test_errors_of_our_own_say_where_too(self, run):
        with pytest.raises(OutputError) as raised:
            run(ReturnsText(), TestStream().add_elements([("k", "bad")]), name="texts")
        context = raised.value.context
        assert (context["step"], context["key"], context["micro_batch"]) == ("texts", "k", 0)


class Misuses(DoFn):
    """Calls what no bag has, in a way that cannot be seen before it runs."""

    BAG = BagStateSpec("bag")

    def process(self, element, bag=DoFn.StateParam(BAG)):
        for cell in [bag]:
            cell.write(1)


class Positive(hf.CombineFn):
    """A sum that refuses negative values."""

    def create_accumulator(self):
        return 0

    def add_input(self, accumulator, element):
        if element < 0:
            raise ValueError("negative")
        return accumulator + element

    def merge_accumulators(self, accumulators):
        return sum(accumulators)

    def extract_output(self, accumulator):
        return accumulator


def test_what_an_aggregation_refuses_is_a_dead_letter(run):
    """All values of the key in the bundle, since they are added together; nothing of them is left in the sum."""
    stream = TestStream().add_elements([("a", 1), ("b", 5)]).add_elements([("a", -1), ("b", 6)])
    stream = stream.add_elements([("a", 2)]).advance_watermark_to_infinity()
    results = run(hf.CombinePerKey(Positive()), stream, windowing=FixedWindows(10), on_error="dead_letter")
    assert sorted(results.tagged("main")) == [("a", 3), ("b", 11)]
    assert [(letter.key, letter.value) for letter in results.tagged("dead_letter")] == [("a", -1)]
