"""State that outlives its code: old code runs, stops, and new code goes on from what it left."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from typing import Any

import pytest

import holdfast as hf
import holdfast.testing
from holdfast.backends import HeapBackend
from holdfast.model.functions.grouping import Grouping
from holdfast.testing import TestStream


@pytest.fixture(params=["heap", "disk"])
def run(request):
    """In memory; on Spark, tests/integration/test_evolution.py has the same with a job's checkpoint."""
    return functools.partial(holdfast.testing.run, backend=request.param, name="step")


def elements(*pairs):
    return TestStream().add_elements(list(pairs))


def writing(*specs, timer=None):
    """A function that writes the element's value to each of its cells, and gives what they hold."""
    value_specs = list(specs)

    class Writing(hf.DoFn):
        pass

    cells = ", ".join(f"c{n}=hf.DoFn.StateParam(specs[{n}])" for n in range(len(value_specs)))
    source = f"""
def process(self, element, {cells}):
    cells = [{", ".join(f"c{n}" for n in range(len(value_specs)))}]
    for cell in cells:
        if element[1] is not None:
            put(cell, element[1])
    yield tuple(take(cell) for cell in cells)
"""
    namespace = {"hf": hf, "specs": value_specs, "put": put, "take": take}
    exec(source, namespace)
    Writing.process = namespace["process"]
    return Writing()


def put(cell, value):
    if isinstance(cell, hf.ValueState):
        cell.write(value)
    elif isinstance(cell, hf.MapState):
        cell.put("k", value)
    elif isinstance(cell, hf.OrderedListState):
        cell.add((1, value))
    else:
        cell.add(value)


def take(cell):
    if isinstance(cell, hf.MapState):
        return dict(cell.items())
    value = cell.read()
    return value if isinstance(cell, (hf.ValueState, hf.CombiningState, hf.SetState)) else list(value)


def test_a_cell_that_is_new_is_empty(run):
    old = run(writing(hf.ValueStateSpec("a")), elements(("k", 1)))
    new = run(writing(hf.ValueStateSpec("a"), hf.ValueStateSpec("b")), elements(("k", None)), start_from=old)
    assert new.values == [(1, None)]


def test_a_cell_that_is_gone_is_kept(run):
    old = run(writing(hf.ValueStateSpec("a"), hf.BagStateSpec("b")), elements(("k", 1), ("other", 2)))
    without = run(writing(hf.ValueStateSpec("a")), elements(("k", 5)).crash().add_elements([("k", 6)]), start_from=old)
    assert without.values == [(5,), (6,)]
    again = run(writing(hf.ValueStateSpec("a"), hf.BagStateSpec("b")), elements(("k", None)), start_from=without)
    assert again.values == [(6, [1])]


@dataclasses.dataclass
class Point:
    x: int


class Celsius(hf.Coder):
    def encode(self, value):
        return str(value).encode()

    def decode(self, data):
        return float(data)

    def is_immutable(self):
        return True


@pytest.mark.parametrize(
    ("coder", "value"), [(hf.RecordCoder(Point), Point(1)), (hf.PickleCoder(), [1]), (Celsius(), 20.0)], ids=repr
)
def test_a_cell_is_kept_although_its_coder_is_gone(run, coder, value):
    """And what pickles is not unpickled for it. Often enough for a snapshot to be written."""
    old = run(writing(hf.ValueStateSpec("b", coder)), elements(("k", value)))
    stream = TestStream()
    for n in range(250):
        stream.add_elements([(f"k{n}", n)])
    without = run(writing(hf.ValueStateSpec("a")), stream, start_from=old)
    assert without.metrics.snapshot_bytes
    again = run(writing(hf.ValueStateSpec("a"), hf.ValueStateSpec("b", coder)), elements(("k", None)), start_from=without)
    assert again.values == [(None, value)]


def test_a_cell_that_is_gone_is_dropped_on_request(run):
    old = run(writing(hf.ValueStateSpec("a"), hf.ValueStateSpec("b")), elements(("k", 1)))
    without = run(writing(hf.ValueStateSpec("a")), elements(("k", None)), start_from=old, drop_cells=["b"])
    assert without.values == [(1,)]
    again = run(writing(hf.ValueStateSpec("a"), hf.ValueStateSpec("b")), elements(("k", None)), start_from=without)
    assert again.values == [(1, None)]


def test_a_cell_that_was_renamed(run):
    old = run(writing(hf.ValueStateSpec("old")), elements(("k", 1)))
    renamed = hf.ValueStateSpec("new", was="old")
    new = run(writing(renamed), elements(("k", None)).crash().add_elements([("k", 2)]), start_from=old)
    assert new.values == [(1,), (2,)]
    assert new.state("k") == {"new": 2}
    # Once it is stored under its new name, `was` may stay or go.
    assert run(writing(renamed), elements(("k", None)), start_from=new).values == [(2,)]
    assert run(writing(hf.ValueStateSpec("new")), elements(("k", None)), start_from=new).values == [(2,)]


@pytest.mark.parametrize(
    ("spec", "before", "after"),
    [
        (hf.ValueStateSpec, 7, "7"),
        (hf.BagStateSpec, [7, 7], ["7", "7"]),
        (hf.SetStateSpec, {7}, {"7"}),
        (hf.OrderedListStateSpec, [(hf.Timestamp(1), 7)] * 2, [(hf.Timestamp(1), "7")] * 2),
    ],
)
def test_an_upgrade(run, spec, before, after):
    old = run(writing(spec("cell", hf.VarIntCoder())), elements(("k", 7), ("k", 7)))
    assert old.values[-1] == (before,)
    new_spec = spec("cell", hf.StrUtf8Coder(), upgrade=str)
    new = run(writing(new_spec), elements(("k", None)).crash().add_elements([("k", None)]), start_from=old)
    assert new.values == [(after,), (after,)]


def test_an_upgrade_of_the_values_of_a_map(run):
    old = run(writing(hf.MapStateSpec("cell", value_coder=hf.VarIntCoder())), elements(("k", 7)))
    spec = hf.MapStateSpec("cell", value_coder=hf.FloatCoder(), upgrade=float)
    assert run(writing(spec), elements(("k", None)), start_from=old).values == [({"k": 7.0},)]


def test_an_upgrade_of_an_accumulator(run):
    old = run(writing(hf.CombiningStateSpec("cell", hf.VarIntCoder(), sum)), elements(("k", 7), ("k", 8)))
    spec = hf.CombiningStateSpec("cell", hf.FloatCoder(), sum, upgrade=float)
    assert run(writing(spec), elements(("k", 1)), start_from=old).values == [(16.0,)]


def test_an_upgrade_and_a_new_name_together(run):
    old = run(writing(hf.ValueStateSpec("old", hf.VarIntCoder())), elements(("k", 7)))
    spec = hf.ValueStateSpec("new", hf.StrUtf8Coder(), was="old", upgrade=str)
    assert run(writing(spec), elements(("k", None)), start_from=old).values == [("7",)]


def test_an_upgrade_from_a_coder_of_ones_own(run):
    old = run(writing(hf.ValueStateSpec("cell", Celsius())), elements(("k", 20.0)))
    upgrade = hf.Upgrade(lambda celsius: celsius * 9 / 5 + 32, coder=Celsius())
    spec = hf.ValueStateSpec("cell", hf.FloatCoder(), upgrade=upgrade)
    assert run(writing(spec), elements(("k", None)), start_from=old).values == [(68.0,)]
    with pytest.raises(hf.StateConflict, match="cannot be made from its description"):
        run(writing(hf.ValueStateSpec("cell", hf.FloatCoder(), upgrade=float)), elements(("k", 1.0)), start_from=old)


def test_a_time_to_live_that_is_added(run):
    old = run(writing(hf.ValueStateSpec("cell")), elements(("k", 1), ("l", 1)))
    stream = elements(("k", None)).advance_processing_time(3599).add_elements([("k", None)])
    stream.advance_processing_time(1).add_elements([("k", None)])
    new = run(writing(hf.ValueStateSpec("cell", ttl="1 hour")), stream, start_from=old)
    assert new.values == [(1,), (1,), (None,)]
    assert new.keys() == []


def test_a_time_to_live_that_is_changed_or_taken_away(run):
    with_ttl = hf.ValueStateSpec("cell", ttl="1 hour")
    old = run(writing(with_ttl), elements(("k", 1)))
    later = TestStream().advance_processing_time(1800).add_elements([("k", None)])
    assert run(writing(hf.ValueStateSpec("cell", ttl="30 minutes")), later, start_from=old).values == [(None,)]
    later = TestStream().advance_processing_time(7200).add_elements([("k", None)])
    assert run(writing(hf.ValueStateSpec("cell")), later, start_from=old).values == [(1,)]


class Timed(hf.DoFn):
    CELL = hf.ValueStateSpec("cell")
    ALARM = hf.TimerSpec("alarm", hf.TimeDomain.WATERMARK)

    def process(self, element, cell=hf.DoFn.StateParam(CELL), alarm=hf.DoFn.TimerParam(ALARM)):
        cell.write(element[1])
        alarm.set(10)

    @hf.on_timer(ALARM)
    def rings(self, cell=hf.DoFn.StateParam(CELL)):
        yield cell.read()


def test_timers_go_on(run):
    class Renamed(hf.DoFn):
        NEW = hf.ValueStateSpec("new", was="cell")
        ALARM = hf.TimerSpec("alarm", hf.TimeDomain.WATERMARK)

        def process(self, element, cell=hf.DoFn.StateParam(NEW), alarm=hf.DoFn.TimerParam(ALARM)):
            pass

        @hf.on_timer(ALARM)
        def rings(self, cell=hf.DoFn.StateParam(NEW)):
            yield cell.read()

    old = run(Timed(), elements(("k", 1)))
    assert run(Renamed(), TestStream().advance_watermark_to(10), start_from=old).values == [1]


def test_a_timer_that_is_gone(run):
    old = run(Timed(), elements(("k", 1)))
    new = run(writing(hf.ValueStateSpec("cell")), elements(("k", None)).advance_watermark_to(10), start_from=old)
    assert new.values == [(1,)]


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        (hf.ValueStateSpec("a"), hf.BagStateSpec("a"), "was a value cell and is a bag cell now"),
        (hf.ValueStateSpec("a", hf.VarIntCoder()), hf.ValueStateSpec("a", hf.FloatCoder()), "upgrade=function"),
        (
            hf.MapStateSpec("a", hf.StrUtf8Coder()),
            hf.MapStateSpec("a", hf.VarIntCoder()),
            "the coder of the keys of the cell 'a'",
        ),
    ],
)
def test_what_is_refused(run, before, after, says):
    old = run(writing(before), elements(("k", 1)))
    with pytest.raises(hf.StateConflict, match=says) as refused:
        run(writing(after), elements(("k", 1)), start_from=old)
    assert "export the state" in str(refused.value)


def test_other_windows_are_refused_with_the_way_out(run):
    old = run(writing(hf.ValueStateSpec("a")), elements(("k", 1)), windowing=hf.FixedWindows(10))
    with pytest.raises(hf.StateConflict, match="the window function was") as refused:
        run(writing(hf.ValueStateSpec("a")), elements(("k", 1)), windowing=hf.FixedWindows(20), start_from=old)
    assert "export the state" in str(refused.value)


def test_both_names_stored_is_refused(run):
    old = run(writing(hf.ValueStateSpec("a"), hf.ValueStateSpec("b")), elements(("k", 1)))
    with pytest.raises(hf.StateConflict, match="both are stored"):
        run(writing(hf.ValueStateSpec("a", was="b")), elements(("k", 1)), start_from=old)


@pytest.mark.parametrize(("dropped", "left"), [("b", 1), ("a", 2)])
def test_one_of_both_names_can_be_dropped(run, dropped, left):
    """As after code with the older name ran again for a while."""
    older = run(writing(hf.ValueStateSpec("b")), elements(("k", 2)))
    old = run(writing(hf.ValueStateSpec("a")), elements(("k", 1)), start_from=older)
    renamed = hf.ValueStateSpec("a", was="b")
    new = run(writing(renamed), elements(("k", None)), start_from=old, drop_cells=[dropped])
    again = run(writing(renamed), elements(("k", None)), start_from=new, drop_cells=[dropped])
    assert new.values == again.values == [(left,)]
    assert again.state("k") == {"a": left}


def test_an_upgrade_that_raises_names_the_cell(run):
    old = run(writing(hf.ValueStateSpec("cell", hf.VarIntCoder())), elements(("k", 0)))
    spec = hf.ValueStateSpec("cell", hf.FloatCoder(), upgrade=lambda value: 1 / value)
    with pytest.raises(hf.UserCodeError, match="upgrade of the cell 'cell' raised ZeroDivisionError"):
        run(writing(spec), elements(("k", None)), start_from=old)


def test_a_refusal_changes_nothing(run):
    old = run(writing(hf.ValueStateSpec("a", hf.VarIntCoder())), elements(("k", 1)))
    with pytest.raises(hf.StateConflict):
        run(writing(hf.ValueStateSpec("a", hf.FloatCoder())), elements(("k", 1.0)), start_from=old)
    assert run(writing(hf.ValueStateSpec("a", hf.VarIntCoder())), elements(("k", None)), start_from=old).values == [(1,)]


def test_from_one_backend_to_the_other():
    spec = hf.ValueStateSpec("a")
    old = holdfast.testing.run(writing(spec), elements(("k", 1)), backend="heap")
    middle = holdfast.testing.run(writing(spec), elements(("l", 2)), backend="disk", start_from=old)
    new = holdfast.testing.run(writing(spec), elements(("k", None), ("l", None)), backend="heap", start_from=middle)
    assert new.values == [(1,), (2,)]


def test_the_arguments_of_a_join_are_compared(run):
    before = run(hf.IntervalJoin("10 seconds", "left"), elements(("a", ("left", 1))))
    for changed, what in (
        (
            hf.IntervalJoin("20 seconds", "left"),
            r"within_micros was \[-10000000, 10000000\] and is \[-20000000, 20000000\] now",
        ),
        (hf.IntervalJoin("10 seconds"), "how was 'left' and is 'inner' now"),
    ):
        with pytest.raises(hf.StateConflict, match=what):
            run(changed, elements(("a", ("right", 2))), start_from=before)
    after = run(hf.IntervalJoin(("-10 seconds", 10), "left"), elements(("a", ("right", 2))), start_from=before)
    assert after.values == [("a", 1, 2)]


def test_arguments_that_were_not_stored_are_not_compared(run, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(hf.IntervalJoin, "state_parameters", lambda self: {})
        before = run(hf.IntervalJoin("10 seconds", "outer"), elements(("a", ("left", 1))))
    after = run(hf.IntervalJoin("10 seconds", "full"), elements(("a", ("right", 2))), start_from=before)
    assert after.values == [("a", 1, 2)]
    with pytest.raises(hf.StateConflict, match="how was 'outer'"):
        run(hf.IntervalJoin("10 seconds"), elements(("a", ("right", 2))), start_from=after)


def test_arguments_come_and_go(run):
    class Function(hf.DoFn):
        CELL = hf.ValueStateSpec("cell")

        def __init__(self, **parameters):
            self.parameters = parameters

        def state_parameters(self):
            return self.parameters

        def process(self, element, cell=hf.DoFn.StateParam(CELL)):
            cell.write(element[1])

    before = run(Function(a=1), elements(("k", 1)))
    with pytest.raises(hf.StateConflict, match="a was 1 and is not given now"):
        run(Function(), elements(("k", 1)), start_from=before)
    with pytest.raises(hf.StateConflict, match="b was not given and is 2 now"):
        run(Function(a=1, b=2), elements(("k", 1)), start_from=before)
    with pytest.raises(hf.InvalidStep, match="state_parameters gives"):
        run(Function(a=(1, 2)), elements(("k", 1)))
    with pytest.raises(hf.InvalidStep, match="state_parameters gives"):
        run(Function(a=object()), elements(("k", 1)))


def test_a_result_that_an_aggregation_no_longer_has(run):
    old = run(hf.CombinePerKey({"count": hf.Count(), "total": sum}), elements(("k", 2)), windowing=hf.FixedWindows(10))
    more = elements(("k", 3)).advance_watermark_to_infinity()
    fewer = hf.CombinePerKey({"total": sum})
    new = run(fewer, more, windowing=hf.FixedWindows(10), start_from=old, drop_cells=["count"])
    assert new.values == [("k", {"total": 5})]


# Windows of aggregations


@pytest.mark.parametrize("windowing", [hf.FixedWindows(10), hf.SlidingWindows(10, 10), hf.Sessions(5)], ids=repr)
@pytest.mark.parametrize("mode", ["accumulating", "discarding"])
def test_a_window_gives_no_result_again_when_lateness_is_allowed_no_more(run, windowing, mode):
    options = {"windowing": windowing, "accumulation_mode": mode}
    old = run(hf.CombinePerKey(sum), elements(("k", 2)).advance_watermark_to(15), allowed_lateness=20, **options)
    assert old.values == [("k", 2)]
    more = TestStream().advance_watermark_to(16).add_elements([hf.TimestampedValue(("k", 3), 20)])
    new = run(hf.CombinePerKey(sum), more.advance_watermark_to_infinity(), start_from=old, **options)
    assert new.values == [("k", 3)]


# Sessions


SESSIONS = {"windowing": hf.Sessions(10), "allowed_lateness": 5, "accumulation_mode": "accumulating"}


def test_a_result_that_is_new_is_empty_in_open_sessions(run):
    old = run(hf.CombinePerKey({"total": sum}), elements(("k", 2)), **SESSIONS)
    more = elements(("k", 3)).advance_watermark_to_infinity()
    new = run(hf.CombinePerKey({"count": hf.Count(), "total": sum}), more, start_from=old, **SESSIONS)
    assert new.values == [("k", {"count": 1, "total": 5})]


def test_a_result_of_sessions_that_is_gone_is_forgotten_only_if_that_is_said(run):
    old = run(hf.CombinePerKey({"count": hf.Count(), "total": sum}), elements(("k", 2)), **SESSIONS)
    more = elements(("k", 3)).advance_watermark_to_infinity()
    fewer = hf.CombinePerKey({"total": sum})
    with pytest.raises(hf.StateConflict, match=r"the result 'count' is gone; .*drop_cells=\['count'\]"):
        run(fewer, more, start_from=old, **SESSIONS)
    assert run(fewer, more, start_from=old, drop_cells=["count"], **SESSIONS).values == [("k", {"total": 5})]


def test_results_of_sessions_in_another_order_are_the_same(run):
    old = run(hf.CombinePerKey({"count": hf.Count(), "total": sum}), elements(("k", 2)), **SESSIONS)
    more = elements(("k", 3)).advance_watermark_to_infinity()
    new = run(hf.CombinePerKey({"total": sum, "count": hf.Count()}), more, start_from=old, **SESSIONS)
    assert new.values == [("k", {"count": 2, "total": 5})]


def test_a_result_of_sessions_with_another_coder_is_refused(run):
    class Coded(hf.Sum):
        def get_accumulator_coder(self):
            return hf.VarIntCoder()

    old = run(hf.CombinePerKey({"total": hf.Sum()}), elements(("k", 2)), **SESSIONS)
    with pytest.raises(hf.StateConflict, match="the coder of the result 'total' has changed"):
        run(hf.CombinePerKey({"total": Coded()}), elements(("k", 3)), start_from=old, **SESSIONS)


@contextlib.contextmanager
def before_they_were_columns():
    """Sessions are kept by a function with cells and timers, as up to version 0.1."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Grouping, "keeps_sessions", property(lambda self: False))
        yield


def test_sessions_of_the_older_form_go_on(run):
    combine = hf.CombinePerKey({"total": sum, "count": hf.Count()})
    with before_they_were_columns():
        old = run(combine, elements(("k", 2), ("k", 1), ("j", 4)), **SESSIONS)
        assert "panes" in old.state("k")
    new = run(combine, elements(("k", 3)).advance_watermark_to_infinity(), start_from=old, **SESSIONS)
    assert sorted(new.values) == [("j", {"total": 4, "count": 1}), ("k", {"total": 6, "count": 3})]
    kept = run(combine, TestStream(), start_from=old, **SESSIONS)
    assert list(kept.state("k")) == ["sessions"]


def test_sessions_of_the_older_form_in_a_backend_of_ones_own_are_refused():
    class Own:
        name = "own"

        def make(self, layout, place):
            return HeapBackend(layout)

    step = {"name": "step", "backend": Own(), **SESSIONS}
    combine = hf.CombinePerKey({"total": sum})
    with before_they_were_columns():
        old = holdfast.testing.run(combine, elements(("k", 2)), **step)
    with pytest.raises(hf.StateConflict, match="stored in an older form, and cannot be converted: the backend 'own'"):
        holdfast.testing.run(combine, elements(("k", 3)), start_from=old, **step)


def test_lists_over_sessions_and_other_triggers_are_kept_as_before(run):
    cases: list[Any] = [
        (hf.GroupByKey(), {}),
        (hf.CombinePerKey(sum), {"trigger": hf.AfterWatermark(early=hf.AfterCount(9), late=hf.AfterCount(1))}),
    ]
    for transform, options in cases:
        options = {**SESSIONS, **options}
        with before_they_were_columns():
            old = run(transform, elements(("k", 2)), **options)
        kept = run(transform, TestStream(), start_from=old, **options)
        assert kept.state("k") == old.state("k")
        assert "panes" in kept.state("k")
