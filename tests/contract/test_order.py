"""Order: the elements of a key come as they arrived, however the keys are spread."""

from __future__ import annotations

import pytest

from holdfast import (
    BagStateSpec,
    CombiningStateSpec,
    DoFn,
    FixedWindows,
    SlidingWindows,
    TimeDomain,
    TimerSpec,
    ValueStateSpec,
    on_timer,
)
from holdfast.testing import TestStream

from .reading import at, by_key, stamped


class Previous(DoFn):
    """Gives each value together with the one before."""

    LAST = ValueStateSpec("last")

    def process(self, element, last=DoFn.StateParam(LAST)):
        key, value = element
        yield key, last.read(), value
        last.write(value)


def test_elements_of_a_key_come_in_order_of_arrival(run, feed):
    values = [5, 3, 9, 9, 1, 7]
    elements = [(key, value) for value in values for key in ("a", "b", "c")]
    out = run(Previous(), feed(TestStream(), elements))
    expected = list(zip([None, *values], values, strict=False))
    assert by_key(out) == {"a": expected, "b": expected, "c": expected}


def test_event_time_does_not_change_the_order(run, feed):
    out = run(Previous(), feed(TestStream(), at(("k", "x", 30), ("k", "y", 10), ("k", "z", 20))))
    assert by_key(out) == {"k": [(None, "x"), ("x", "y"), ("y", "z")]}


def test_windows_do_not_change_the_order(run, feed):
    elements = at(("k", "x", 35), ("k", "y", 5), ("k", "z", 31), ("k", "w", 4))
    out = run(Previous(), feed(TestStream(), elements), windowing=FixedWindows(10))
    assert by_key(out) == {"k": [(None, "x"), (None, "y"), ("x", "z"), ("y", "w")]}


def test_a_later_element_of_a_bundle_sees_what_an_earlier_one_wrote(run):
    out = run(Previous(), TestStream().add_elements([("k", n) for n in range(100)]))
    assert by_key(out)["k"] == list(zip([None, *range(99)], range(100), strict=True))


class Everything(DoFn):
    """Cells, timers of both domains and the end of windows in one function."""

    VALUES = BagStateSpec("values")
    TOTAL = CombiningStateSpec("total", sum)
    EVENT = TimerSpec("event", TimeDomain.WATERMARK)
    REAL = TimerSpec("real", TimeDomain.REAL_TIME)

    def process(
        self,
        element,
        time=DoFn.TimestampParam,
        values=DoFn.StateParam(VALUES),
        total=DoFn.StateParam(TOTAL),
        event=DoFn.TimerParam(EVENT),
        real=DoFn.TimerParam(REAL),
    ):
        key, value = element
        values.add(value)
        total.add(value)
        event.set(time + 3, dynamic_timer_tag=f"{value % 3}")
        real.set(value)
        yield key, "value", value, total.read()

    @on_timer(EVENT)
    def on_event(self, key=DoFn.KeyParam, tag=DoFn.DynamicTimerTagParam, total=DoFn.StateParam(TOTAL)):
        yield key, "event", tag, total.read()

    @on_timer(REAL)
    def on_real(self, key=DoFn.KeyParam, values=DoFn.StateParam(VALUES), total=DoFn.StateParam(TOTAL)):
        yield key, "real", list(values.read()), total.read()
        values.clear()

    def on_window_expiration(self, key=DoFn.KeyParam, values=DoFn.StateParam(VALUES)):
        yield key, "expired", list(values.read())


def script(keys, crashes):
    stream = TestStream()
    for step in range(4):
        stream.add_elements(at(*[(key, step * 7 + place, step * 4 + place % 5) for place, key in enumerate(keys)]))
        if crashes:
            stream.crash()
        stream.advance_processing_time(4).advance_watermark_to(step * 4 - 2)
    return stream.advance_watermark_to_infinity()


KEYS = [1, 1.0, True, "a", "b", b"a", ("a", 1), ("a", None), 2**70]


def seen(out):
    """Outputs by the text of their key, since Python takes some of these keys for equal."""
    found = {}
    for output in out:
        key, *rest = output.value
        found.setdefault(repr(key), []).append((rest, float(output.timestamp), repr(output.window), output.tag))
    return found


@pytest.mark.parametrize("crashes", [False, True], ids=["whole", "crashing"])
@pytest.mark.parametrize("windowing", [None, FixedWindows(10), SlidingWindows(10, 5)], ids=repr)
def test_the_number_of_key_groups_changes_nothing(run, windowing, crashes):
    one, seven = (
        run(Everything(), script(KEYS, crashes), windowing=windowing, allowed_lateness=2, key_groups=groups)
        for groups in (1, 7)
    )
    assert set(seen(one)) == set(map(repr, KEYS))
    assert seen(one) == seen(seven)
    assert [one.state(key) for key in KEYS] == [seven.state(key) for key in KEYS]
    for name in ("elements", "calls", "late", "outputs", "timers_fired"):
        assert one.metrics[name] == seven.metrics[name], name


def test_a_crash_changes_nothing(run):
    whole, crashing = (run(Everything(), script(KEYS, crashes), windowing=FixedWindows(10)) for crashes in (False, True))
    assert seen(whole) == seen(crashing)


def test_the_other_keys_of_a_stream_change_nothing(run):
    alone = stamped(run(Everything(), script(["a"], False)))
    among = run(Everything(), script(["a", "b", "c"], False))
    assert stamped(among)["a"] == alone["a"]


class Remembers(DoFn):
    """Keeps in itself what belongs in a cell, which is a mistake, and in a cell what belongs there."""

    COUNT = CombiningStateSpec("count", sum)

    def __init__(self):
        self.seen = []

    def process(self, element, count=DoFn.StateParam(COUNT)):
        self.seen.append(element[1])
        count.add(1)
        yield element[0], len(self.seen), count.read()


def test_the_same_function_object_run_twice_shares_nothing(run):
    fn = Remembers()
    stream = TestStream().add_elements([("k", 1), ("k", 2)])
    first, second = run(fn, stream), run(fn, stream)
    assert by_key(first) == by_key(second) == {"k": [(1, 1), (2, 2)]}
    assert first.state("k") == second.state("k") == {"count": 2}
    assert fn.seen == []


def test_a_crash_loses_what_the_function_kept_in_itself(run):
    out = run(Remembers(), TestStream().add_elements([("k", 1), ("k", 2)]).crash().add_elements([("k", 3)]))
    assert by_key(out) == {"k": [(1, 1), (2, 2), (1, 3)]}


def test_two_functions_of_one_class_share_nothing(run):
    first = run(Previous(), TestStream().add_elements([("k", 1)]))
    second = run(Previous(), TestStream().add_elements([("k", 2)]))
    assert by_key(first) == {"k": [(None, 1)]}
    assert by_key(second) == {"k": [(None, 2)]}
