"""The loop that is written out for a step: its text for some signatures, and that it is no longer than it need be."""

from __future__ import annotations

import textwrap
from typing import Any

import pytest

from holdfast.engine.run import loop as loop_module
from holdfast.engine.run.loop import Loop, compile_loop
from holdfast.engine.tables import Focus, Undo
from holdfast.errors import OutputError
from holdfast.model.functions.dofn import DoFn
from holdfast.model.functions.step import build_step
from holdfast.model.state.specs import ValueStateSpec
from holdfast.model.time.timestamps import Timestamp
from holdfast.model.windows.values import PANE_INFO_UNKNOWN, WindowedValue

COUNT = ValueStateSpec("count")


class Counter(DoFn):
    def process(self, element, count=DoFn.StateParam(COUNT)):
        yield element, count


class Listing(DoFn):
    """Returns a list, or nothing."""

    def process(self, element):
        return [element, element] if element else None


class Timed(DoFn):
    def process(self, element, key=DoFn.KeyParam, time=DoFn.TimestampParam, window=DoFn.WindowParam):
        yield key, time, window


class Whole(DoFn):
    def process(self, element, whole=DoFn.WindowedValueParam, pane=DoFn.PaneInfoParam):
        yield whole, pane


class Failing(DoFn):
    def process(self, element):
        yield element
        if element < 0:
            raise ValueError(element)


class FakeTable:
    """Remembers the keys that were put."""

    def __init__(self) -> None:
        self.values: dict[Any, Any] = {}

    def put(self, key: Any, value: Any) -> None:
        self.values[key] = value


class FakeWindow:
    def __init__(self, window: Any) -> None:
        self.window = window
        self.seen = FakeTable()


def made(fn: DoFn, focus: Focus | None = None, **options: Any) -> Loop:
    step = build_step(fn)
    fixed = {1: "the cell"} if isinstance(fn, Counter) else {}
    settings: dict[str, Any] = {"windowed": False, "origins": False, "marks_seen": False, "undo": None} | options
    return compile_loop(step.process, step.process.function, fixed, focus or Focus(), **settings)


def text(source: str) -> str:
    return textwrap.dedent(source).strip("\n")


COUNTER_LOOP = text("""
    def loop(rows, out, marks, window, bind, failed):
        extend = out.extend
        for focus.key, element in rows:
            extend(process(element, argument_1))
""")


# --- text ---------------------------------------------------------------------------------------------------------


def test_the_loop_of_a_running_counter_is_four_lines():
    assert made(Counter()).source == COUNTER_LOOP


def test_the_documentation_shows_that_loop():
    assert textwrap.indent(COUNTER_LOOP, "    ") in (loop_module.__doc__ or "")


def test_a_function_that_returns_is_checked():
    assert made(Listing()).source == text("""
        def loop(rows, out, marks, window, bind, failed):
            extend = out.extend
            for focus.key, element in rows:
                result = process(element)
                if result is not None:
                    extend(checked(result, 'process'))
    """)


def test_times_and_windows_are_there_only_for_those_who_ask():
    loop = made(Timed(), windowed=True)
    assert loop.source == text("""
        def loop(rows, out, marks, window, bind, failed):
            extend = out.extend
            for focus.key, element, time, next_window in rows:
                if next_window is not window:
                    window = next_window
                    bind(window)
                extend(process(element, key_of(focus.key), Timestamp._of_micros(time), window.window))
    """)
    assert (loop.needs_time, loop.needs_window) == (True, True)
    assert (made(Counter()).needs_time, made(Counter()).needs_window) == (False, False)


def test_where_outputs_come_from_is_noted_once_a_call():
    loop = made(Counter(), origins=True)
    assert loop.source == text("""
        def loop(rows, out, marks, window, bind, failed):
            extend = out.extend
            for focus.key, element, time in rows:
                extend(process(element, argument_1))
                marks.append((len(out), time, window.window))
    """)
    assert (loop.needs_time, loop.needs_window) == (True, False)


def test_keys_are_marked_as_seen_where_windows_expire():
    assert made(Counter(), marks_seen=True, windowed=True).source == text("""
        def loop(rows, out, marks, window, bind, failed):
            extend = out.extend
            seen = None if window is None else window.seen
            for focus.key, element, next_window in rows:
                if next_window is not window:
                    window = next_window
                    bind(window)
                    seen = window.seen
                extend(process(element, argument_1))
                if focus.key not in seen.values:
                    seen.put(focus.key, True)
    """)


def test_a_call_that_may_fail_is_guarded():
    assert made(Counter(), undo=Undo(), marks_seen=True).source == text("""
        def loop(rows, out, marks, window, bind, failed):
            extend = out.extend
            seen = None if window is None else window.seen
            for focus.key, element, time in rows:
                undo.begin()
                start = len(out)
                try:
                    extend(process(element, argument_1))
                except Exception as error:
                    undo.rollback()
                    del out[start:]
                    failed(element, time, error)
                else:
                    if focus.key not in seen.values:
                        seen.put(focus.key, True)
    """)


def test_more_side_inputs_come_after_the_arguments():
    assert "process(element, argument_1, extra_0, extra_1)" in made(Counter(), extra=("x", "y")).source


# --- what it does -------------------------------------------------------------------------------------------------


def outputs(loop: Loop, rows: Any, window: Any = None) -> tuple[list[Any], list[Any], list[Any], list[Any]]:
    out: list[Any] = []
    marks: list[Any] = []
    bound: list[Any] = []
    failed: list[Any] = []
    loop.run(rows, out, marks, window, bound.append, lambda *failure: failed.append(failure[:2]))
    return out, marks, bound, failed


def test_arguments_are_given_in_their_places():
    assert outputs(made(Counter()), [("k", "e")])[0] == [("e", "the cell")]
    window = FakeWindow("w")
    assert outputs(made(Timed(), windowed=True), [(3, "e", 5, window)])[0] == [(3, Timestamp(micros=5), "w")]
    whole = [(WindowedValue("e", Timestamp(micros=5), ("w",)), PANE_INFO_UNKNOWN)]
    assert outputs(made(Whole()), [("k", "e", 5)], window)[0] == whole


def test_none_is_no_output():
    assert outputs(made(Listing()), [("k", 1), ("k", 0), ("k", 2)])[0] == [1, 1, 2, 2]


def test_a_string_is_no_list_of_outputs():
    class Wrong(DoFn):
        def process(self, element):
            return "oops"

    with pytest.raises(OutputError, match="process returned a str"):
        outputs(made(Wrong()), [("k", 1)])


def test_a_window_is_bound_when_it_is_another_one():
    one, two = FakeWindow(1), FakeWindow(2)
    rows = [("k", 0, one), ("k", 0, one), ("k", 0, two), ("k", 0, one)]
    assert outputs(made(Counter(), windowed=True), rows)[2] == [one, two, one]


def test_marks_say_how_many_outputs_there_are_after_each_call():
    window = FakeWindow("w")
    _, marks, _, _ = outputs(made(Listing(), origins=True), [("k", 1, 10), ("k", 0, 11), ("k", 2, 12)], window)
    assert marks == [(2, 10, "w"), (2, 11, "w"), (4, 12, "w")]


def test_a_call_that_fails_leaves_neither_outputs_nor_a_mark_that_its_key_was_seen():
    window, focus = FakeWindow("w"), Focus()
    loop = made(Failing(), focus, undo=Undo(), marks_seen=True)
    out, _, _, failed = outputs(loop, [("a", 1, 10), ("b", -1, 11), ("a", 2, 12)], window)
    assert out == [1, 2]
    assert failed == [(-1, 11)]
    assert list(window.seen.values) == ["a"]
    assert focus.key == "a"


def test_what_a_failing_call_did_is_undone_before_the_failure_is_told():
    undo, told = Undo(), []
    kept = {"k": 1}

    class Changing(DoFn):
        def process(self, element):
            undo.restore(kept, "k")
            kept["k"] = element
            raise ValueError(element)

    loop = made(Changing(), undo=undo)
    loop.run([("k", 2, 10)], [], [], FakeWindow("w"), None, lambda *_: told.append(dict(kept)))
    assert told == [{"k": 1}]
