"""Side inputs that are streams: elements wait for what is said of their key, and see the newest."""

from __future__ import annotations

import pytest

from holdfast import (
    AsDict,
    AsList,
    AsSingleton,
    DoFn,
    Filter,
    FixedWindows,
    InputError,
    Map,
    Sessions,
    SlidingWindows,
    TaggedOutput,
    TimestampedValue,
    Ttl,
    UserCodeError,
)
from holdfast.errors import InvalidStep
from holdfast.testing import SideStream, TestStream

WINDOW = FixedWindows(60)


def score(event, models):
    user, amount = event
    return user, amount, models[user]


def lenient(event, models, otherwise=None):
    user, amount = event
    return user, amount, models.get(user, otherwise)


def at(time, *pairs):
    return [TimestampedValue(pair, time) for pair in pairs]


def test_an_element_waits_for_the_row_of_its_window(run):
    models = SideStream(WINDOW)
    stream = (
        TestStream()
        .add_elements(at(10, ("ann", 1), ("bob", 2)))
        .add_elements(at(70, ("ann", 3)))
        .crash()
        .add_elements(at(59, ("ann", "first")), to=models)
        .add_elements(at(20, ("ann", 4)))
        .crash()
        .add_elements(at(119, ("ann", "second"), ("bob", "second")), to=models)
        .add_elements(at(59, ("bob", "his")), to=models)
    )
    out = run(Map(score, AsDict(models)), stream, windowing=WINDOW)
    assert out.values == [("ann", 1, "first"), ("ann", 4, "first"), ("ann", 3, "second"), ("bob", 2, "his")]
    assert [float(output.timestamp) for output in out] == [10, 20, 70, 10]
    assert [float(output.window.end) for output in out] == [60, 60, 120, 60]


def test_the_newest_row_counts(run):
    models = SideStream()
    stream = (
        TestStream()
        .add_elements(at(1, ("ann", 1)))
        .add_elements(at(5, ("ann", "a")), to=models)
        .add_elements(at(6, ("ann", 2)))
        .add_elements([*at(9, ("ann", "b")), *at(7, ("ann", "older"))], to=models)
        .crash()
        .add_elements(at(2, ("ann", 3)))
    )
    out = run(Map(score, AsDict(models, wait=100)), stream, windowing=WINDOW)
    assert out.values == [("ann", 1, "a"), ("ann", 2, "a"), ("ann", 3, "b")]


def test_waiting_has_an_end(run):
    """At the end of the window, or after `wait`; then there is nothing in the dict."""
    stream = TestStream().add_elements(at(10, ("ann", 1))).advance_watermark_to(30).advance_watermark_to(60)
    made = Map(lenient, AsDict(SideStream(WINDOW)), "nothing")
    out = run(made, stream, windowing=WINDOW)
    assert out.values == [("ann", 1, "nothing")]
    assert out.keys() == []
    for wait, released in ((0, 0), (20, 1), (25, 2)):
        before = TestStream().add_elements(at(10, ("ann", 1)))
        for watermark in (30, 35)[:released]:
            before.advance_watermark_to(watermark)
        out = run(Map(lenient, AsDict(SideStream(WINDOW), wait=wait), "nothing"), before, windowing=WINDOW)
        assert out.values == [("ann", 1, "nothing")]
        assert out.timers("ann") == []


@pytest.mark.parametrize(
    ("ttl", "seen"),
    [(100, ["a", "a", "nothing", "b"]), (Ttl(100, refresh="read"), ["a", "a", "a", "a"])],
    ids=["from the row", "from the last call"],
)
def test_a_row_has_a_time_to_live(run, ttl, seen):
    """In the global window, where it would stay for good. Then elements wait again, and get what comes next, or nothing."""
    models = SideStream()
    stream = (
        TestStream()
        .add_elements([("ann", "a"), ("bob", "his")], to=models)
        .add_elements([("ann", 1)])
        .advance_processing_time(60)
        .add_elements([("ann", 2)])
        .crash()
        .advance_processing_time(60)
        .add_elements([("ann", 3)], event_timestamp=3)
        .advance_watermark_to(10)
        .add_elements([("ann", 4)], event_timestamp=10)
        .add_elements([("ann", "b")], to=models)
        .advance_processing_time(100)
    )
    fn = Map(lambda event, models: models.get("ann", "nothing"), AsDict(models, wait=5, ttl=ttl))
    out = run(fn, stream)
    assert out.values == seen
    assert out.keys() == []


def test_state_ends_with_the_window(run):
    models = SideStream(WINDOW)
    stream = (
        TestStream()
        .add_elements(at(59, ("ann", "model"), ("bob", "model")), to=models)
        .add_elements(at(10, ("ann", 1)))
        .advance_watermark_to(60)
        .add_elements(at(20, ("ann", 2)))
        .add_elements(at(59, ("ann", "too late")), to=models)
    )
    out = run(Map(score, AsDict(models)), stream, windowing=WINDOW, outputs=["late"])
    assert out.values == [("ann", 1, "model")]
    assert out.tagged("late") == [("ann", 2)]
    assert out.metrics.late == 2
    assert out.keys() == []


def test_what_is_late_but_allowed_meets_what_is_there(run):
    models = SideStream(WINDOW)
    stream = (
        TestStream()
        .add_elements(at(59, ("ann", "model")), to=models)
        .advance_watermark_to(70)
        .add_elements(at(20, ("ann", 2), ("bob", 3)))
        .add_elements(at(59, ("ann", "corrected")), to=models)
        .add_elements(at(20, ("ann", 4)))
    )
    out = run(Map(lenient, AsDict(models)), stream, windowing=WINDOW, allowed_lateness=30)
    assert sorted(out.values, key=str) == [("ann", 2, "model"), ("ann", 4, "corrected"), ("bob", 3, None)]


def test_a_missing_row_is_an_error_or_a_dead_letter(run):
    stream = TestStream().add_elements(at(10, ("ann", 1), ("ann", 2))).advance_watermark_to(60)
    with pytest.raises(UserCodeError, match="the side input 'models' has nothing for 'ann'") as raised:
        run(Map(score, AsDict(SideStream(WINDOW))), stream, windowing=WINDOW)
    assert (raised.value.context["step"], raised.value.context["key"]) == ("score", "ann")
    models = SideStream(WINDOW)
    stream.add_elements(at(70, ("ann", 3), ("ann", 0))).add_elements(at(119, ("ann", 6)), to=models)

    def divided(event, models):
        yield TaggedOutput("seen", event[1])
        yield event[0], models[event[0]] // event[1]

    out = run(
        divided,
        stream,
        side_inputs=[AsDict(models)],
        windowing=WINDOW,
        on_error="dead_letter",
        outputs=["dead_letter", "seen"],
    )
    assert out.values == [("ann", 2)]
    assert out.tagged("seen") == [3]
    letters = [(letter.key, letter.value, letter.error.split(":")[0]) for letter in out.tagged("dead_letter")]
    assert letters == [("ann", 1, "KeyError"), ("ann", 2, "KeyError"), ("ann", 0, "ZeroDivisionError")]


def test_another_key_is_refused(run):
    models = SideStream(WINDOW)
    stream = TestStream().add_elements(at(59, ("ann", 1)), to=models).add_elements(at(10, ("ann", 1)))
    with pytest.raises(InputError, match="its own key, 'ann'; it was asked for 'bob'"):
        run(Map(lambda event, models: models["bob"], AsDict(models)), stream, windowing=WINDOW)


@pytest.mark.parametrize("key", [float("nan"), ("ann", float("nan"))], ids=["bare", "of two"])
def test_nan_is_a_key_like_any_other(run, key):
    models = SideStream(WINDOW)
    stream = TestStream().add_elements(at(59, (key, 7)), to=models).add_elements(at(10, (key, 1)))
    stream.advance_watermark_to_infinity()
    out = run(Map(lambda event, models: models[event[0]] + event[1], AsDict(models)), stream, windowing=WINDOW)
    assert out.values == [8]


def test_beside_tables_and_another_stream(run):
    class Both(DoFn):
        def process(self, element, models, names, limits=(), window=DoFn.WindowParam):
            key, value = element
            yield names[key], value, models[key], limits.get(key), len(models), list(limits), float(window.end)

    models, limits = SideStream(FixedWindows(60)), SideStream(FixedWindows(60))
    stream = (
        TestStream()
        .add_elements(at(10, ("ann", 1)))
        .add_elements(at(59, ("ann", "model")), to=models)
        .advance_watermark_to(30)
        .add_elements(at(15, ("ann", 2)))
        .add_elements(at(1, ("ann", 9)), to=limits)
        .add_elements(at(15, ("ann", 3)))
    )
    sides = {"models": AsDict(models), "limits": AsDict(limits, wait=25), "names": AsDict({"ann": "Ann"})}
    out = run(Both(), stream, windowing=FixedWindows(20), side_inputs=sides)
    assert out.values == [
        ("Ann", 1, "model", 9, 1, ["ann"], 20.0),
        ("Ann", 2, "model", 9, 1, ["ann"], 20.0),
        ("Ann", 3, "model", 9, 1, ["ann"], 20.0),
    ]


def test_a_filter(run):
    models = SideStream(WINDOW)
    stream = TestStream().add_elements(at(9, ("ann", 1), ("ann", 5))).add_elements(at(59, ("ann", 3)), to=models)
    passes = Filter(lambda event, limits: event[1] > limits[event[0]], AsDict(models))
    assert run(passes, stream, windowing=WINDOW).values == [("ann", 5)]


def stateful():
    from holdfast import CombiningStateSpec

    class Counts(DoFn):
        SEEN = CombiningStateSpec("seen", sum)

        def process(self, element, models, seen=DoFn.StateParam(SEEN)):
            seen.add(1)

    return Counts()


@pytest.mark.parametrize(
    ("fn", "side_inputs", "windows", "message"),
    [
        (stateful(), {"models": AsDict(SideStream(WINDOW))}, WINDOW, "which only a function without cells"),
        (Map(score), {"models": AsDict(SideStream())}, WINDOW, r"Say how long an element may wait .* wait='10 minutes'"),
        (Map(score), {"models": AsDict(SideStream(WINDOW))}, None, "put them into the same windows"),
        (Map(score), {"models": AsDict(SideStream(Sessions(5)))}, WINDOW, "windows that merge cannot be matched"),
        (Map(score), {"models": AsDict(SideStream(SlidingWindows(5, 9)))}, WINDOW, "between which there are gaps"),
        (Map(score), {"models": AsDict(SideStream(), wait=1)}, SlidingWindows(9, 3), "put them into fixed windows"),
        (Map(score), {"models": AsList(SideStream(WINDOW))}, WINDOW, r"AsList of a stream.*Give AsDict\(\.\.\.\)"),
        (Map(score), {"models": AsSingleton(SideStream(WINDOW))}, WINDOW, "AsSingleton of a stream"),
        (
            Map(lenient),
            {"models": AsDict(SideStream(WINDOW)), "otherwise": AsDict(SideStream(FixedWindows(9)))},
            WINDOW,
            "look them up in two steps",
        ),
        (Map(score), {"models": AsDict(SideStream(WINDOW), refresh=1)}, WINDOW, "refresh is for a table"),
        (Map(score), {"models": AsDict({}, wait=1)}, WINDOW, "wait=, which is for a stream, but is a table"),
        (Map(score), {"models": AsDict({}, ttl=1)}, WINDOW, "ttl=, which is for a stream, but is a table"),
        (Map(score), {"model": AsDict(SideStream(WINDOW))}, WINDOW, "no method has a parameter of that name"),
    ],
    ids=[
        "stateful",
        "forever",
        "no windows",
        "sessions",
        "gaps",
        "sliding",
        "list",
        "singleton",
        "other windows",
        "refresh",
        "wait",
        "ttl",
        "unknown",
    ],
)
def test_what_is_refused(fn, side_inputs, windows, message):
    from holdfast.testing import run

    with pytest.raises(InvalidStep, match=message):
        run(fn, TestStream(), windowing=windows, side_inputs=side_inputs)
