"""A function whose side inputs are streams: each element is given what they say of its key, and waits until they do.

Elements and the rows of the side streams come to one step, by the same key, so that both are ordered, committed and replayed
together. A value says where it comes from: (0, value) is an element's, (n, value) is a row of side input n.

Invariants, for each key and window of the side inputs
- The cell of a side input has its newest row: the one with the latest time, of equal ones the last that came. Once that has
  expired it is as if none had come.
- The cell `waiting` has the elements for which a side input is missing that they may still wait for, by their time.
- If any wait, the timer is set no later than the first time at which one of them need not wait any more.
- Within a bundle rows of side inputs come first, then the elements that waited, by their time, then new ones as they came.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from holdfast.errors import InputError, InvalidStep
from holdfast.model.coders import Coder, TimestampCoder, TupleCoder, default_coder
from holdfast.model.functions.batches import BatchDoFn
from holdfast.model.functions.dofn import DoFn, Grouped, GroupedDoFn
from holdfast.model.functions.options import KEY, SideInputs, StepOptions
from holdfast.model.functions.params import ParamKind
from holdfast.model.functions.side_inputs import SideInput
from holdfast.model.functions.signature import Argument, MethodSignature
from holdfast.model.functions.step import Step, build_step, process_signature
from holdfast.model.present import current_clocks
from holdfast.model.state.limits import Limits
from holdfast.model.state.specs import OrderedListStateSpec, State, StateSpec, ValueStateSpec
from holdfast.model.state.ttl import Ttl
from holdfast.model.time.timers import TimeDomain, TimerSpec
from holdfast.model.time.timestamps import Duration, Timestamp
from holdfast.model.time.units import MAX_MICROS, MIN_MICROS
from holdfast.model.windows.bounded import BoundedWindow
from holdfast.model.windows.functions import NonMergingWindowFn, WindowFn
from holdfast.model.windows.ready import FixedWindows, GlobalWindows, SlidingWindows
from holdfast.model.windows.windowing import Windowing

__all__ = ["Calls", "Lookup", "SideRows", "build_lookup", "side_streams"]

Views = Mapping[str, Mapping[Any, Any]]


@dataclass(frozen=True)
class SideRows:
    """A side input that is a stream, as its step sees it."""

    parameter: str
    """Of the function, which is given the view."""
    window_fn: WindowFn
    """The windows of its rows."""
    by_window: bool = False
    """Whether its rows are results of windows. Their time is the last one of their window."""
    wait: Duration | None = None
    """How long an element may wait for its first row, by the watermark. None: until its window ends."""
    coder: Coder[Any] | None = None
    ttl: Ttl | None = None
    """How long the newest row of a key is kept. None: as long as its window."""

    @property
    def cell(self) -> str:
        return f"side {self.parameter}"


class Calls(Protocol):
    """Calls the user's function, and takes its outputs; a runner of steps provides it."""

    def __call__(self, key: Any, value: Any, time: int, window: Any, views: Views) -> None: ...


class KeyView(Mapping[Any, Any]):
    """What a side stream says of the key of the current call: a dict with this key, or without any."""

    __slots__ = ("_key", "_parameter", "_row")

    def __init__(self, parameter: str, key: Any, row: tuple[Any, Any] | None) -> None:
        self._parameter = parameter
        self._key = key
        self._row = row

    def __getitem__(self, key: Any) -> Any:
        if self._held(key) is None:
            raise KeyError(f"the side input {self._parameter!r} has nothing for {key!r}")
        assert self._row is not None
        return self._row[1]

    def __contains__(self, key: object) -> bool:
        return self._held(key) is not None

    def __iter__(self) -> Iterator[Any]:
        return iter(() if self._row is None else (self._key,))

    def __len__(self) -> int:
        return 0 if self._row is None else 1

    def __repr__(self) -> str:
        return repr(dict(self))

    def _held(self, key: object) -> tuple[Any, Any] | None:
        if not _is_same(key, self._key):
            raise InputError(
                f"The side input {self._parameter!r} is a stream, of which a call has what concerns its own key, "
                f"{self._key!r}; it was asked for {key!r}.",
                todo="key the elements by what is looked up; or give a table, which every call has as a whole",
            )
        return self._row


def _is_same(one: object, other: object) -> bool:
    """Whether two keys are one. NaN is a key like any other."""
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(_is_same, one, other))
    return one == other or (one != one and other != other)


class Lookup(GroupedDoFn):
    """Runs the function `fn`, which keeps no state of its own, with side inputs that are streams.

    Its elements are (key, (0, value)), and (key, (n, row)) for the rows of side input n, counted from 1. The runner sets
    `calls`.
    """

    calls: Calls

    def __init__(self, fn: DoFn, sides: Sequence[SideRows], coder: Coder[Any] | None = None) -> None:
        """`coder` is for the values of elements that wait."""
        self.fn = fn
        self.sides = tuple(sides)
        self._coder = coder
        self._main: WindowFn = GlobalWindows()
        self._same_windows = True

    def setup(self) -> None:
        self.fn.setup()

    def start_bundle(self) -> None:
        return self.fn.start_bundle()

    def finish_bundle(self) -> Iterable[object] | None:
        return self.fn.finish_bundle()

    def teardown(self) -> None:
        self.fn.teardown()

    def default_label(self) -> str:
        return self.fn.default_label()

    def state_parameters(self) -> Mapping[str, object]:
        return self.fn.state_parameters()

    @property
    def code_modules(self) -> Sequence[str]:
        """The modules whose code travels with the function."""
        return [*getattr(self.fn, "code_modules", ())]

    def cells(self) -> tuple[StateSpec[State], ...]:
        """The cells: the elements that wait, then the newest row of each side input."""
        waiting: StateSpec[Any] = OrderedListStateSpec("waiting", self._coder or default_coder())
        pairs = [TupleCoder((TimestampCoder(), side.coder or default_coder())) for side in self.sides]
        newest: list[StateSpec[Any]] = [
            ValueStateSpec(side.cell, pair, ttl=side.ttl) for side, pair in zip(self.sides, pairs, strict=True)
        ]
        return (waiting, *newest)

    def within(self, main: WindowFn) -> WindowFn:
        """Takes note of the windows of the elements. Gives those of the step, which are the windows of the side inputs."""
        side = self.sides[0].window_fn
        self._main = main
        self._same_windows = main == side
        if isinstance(side, GlobalWindows) or (self._same_windows and type(side) is FixedWindows):
            return side
        return SideWindows(main, side, [rows.by_window for rows in self.sides])

    def process(self, element: tuple[Any, Grouped], window: BoundedWindow, *handles: Any) -> None:
        """Takes the rows and the elements of a key and window in a bundle."""
        key, group = element
        waiting, *newest, due = handles
        elements = []
        for (origin, value), time in zip(*group, strict=True):
            if origin == 0:
                elements.append((time, value))
            else:
                _keep_newest(newest[origin - 1], time, value)
        rows = [cell.read() for cell in newest]
        self._release(key, window, rows, waiting, None)
        if self._longest_wait(rows) == 0:
            self._call(key, elements, window, rows)
        else:
            for time, value in elements:
                waiting.keep(time, value)
        self._set_timer(window, rows, waiting, due)

    def on_due(self, key: Any, window: BoundedWindow, *handles: Any) -> None:
        """Calls the function for the elements that need not wait any more."""
        waiting, *newest, due = handles
        clocks = current_clocks()
        assert clocks is not None, "a timer fires within a bundle"
        rows = [cell.read() for cell in newest]
        self._release(key, window, rows, waiting, MAX_MICROS if clocks.final else clocks.watermark)
        self._set_timer(window, rows, waiting, due)

    def _release(self, key: Any, window: BoundedWindow, rows: list[Any], waiting: Any, watermark: int | None) -> None:
        """Calls the function for those that waited and have all they waited for, or have waited until the watermark."""
        wait = self._longest_wait(rows)
        if wait == 0 or (watermark is not None and watermark >= window.end.micros):
            limit = MAX_MICROS + 1
        elif watermark is None or wait is None:
            return
        else:
            limit = max(watermark - wait + 1, MIN_MICROS)
        # The limit is the first time that is not released, so that an element may have the last time of all.
        released = waiting.between(MIN_MICROS, limit)
        waiting.cut(MIN_MICROS, limit)
        self._call(key, released, window, rows)

    def _longest_wait(self, rows: Sequence[object]) -> int | None:
        """How long an element may wait for what is missing: 0 if nothing is, None if until the end of its window."""
        waits = [side.wait for side, row in zip(self.sides, rows, strict=True) if row is None]
        return None if None in waits else max((wait.micros for wait in waits if wait is not None), default=0)

    def _set_timer(self, window: BoundedWindow, rows: Sequence[object], waiting: Any, due: Any) -> None:
        first = waiting.first_time()
        if first is None:
            due.clear()
            return
        wait = self._longest_wait(rows)
        end = window.end.micros
        due.set(Timestamp._of_micros(end if wait is None else min(first + wait, end)))

    def _call(self, key: Any, elements: list[tuple[int, Any]], window: BoundedWindow, rows: Sequence[Any]) -> None:
        """Calls the function for elements, (time, value), in this order."""
        views = {side.parameter: KeyView(side.parameter, key, row) for side, row in zip(self.sides, rows, strict=True)}
        own = window
        for time, value in elements:
            if not self._same_windows:
                [own] = self._main.assign(WindowFn.AssignContext(Timestamp._of_micros(time), (key, value)))
            self.calls(key, value, time, own, views)


def _keep_newest(cell: Any, time: int, value: Any) -> None:
    at = Timestamp._of_micros(time)
    held = cell.read()
    if held is None or at >= held[0]:
        cell.write((at, value))


class SideWindows(NonMergingWindowFn):
    """The windows of side inputs, for their rows and for elements, whose own windows are others: an element is in the first
    one that has the end of its own window, as in Beam."""

    def __init__(self, main: WindowFn, side: WindowFn, by_window: Sequence[bool]) -> None:
        self._main = main
        self._side = side
        self._by_window = tuple(by_window)

    def assign(self, assign_context: WindowFn.AssignContext) -> Sequence[BoundedWindow]:
        key, (origin, value) = assign_context.element
        if origin == 0:
            own = self._main.assign(WindowFn.AssignContext(assign_context.timestamp, (key, value)))
            return own if self._main == self._side else [self._containing(window.max_timestamp()) for window in own]
        found = self._side.assign(WindowFn.AssignContext(assign_context.timestamp, (key, value)))
        if not self._by_window[origin - 1]:
            return found
        return [window for window in found if window.max_timestamp() == assign_context.timestamp]

    def _containing(self, time: Timestamp) -> BoundedWindow:
        return self._side.assign(WindowFn.AssignContext(time))[-1]

    def get_window_coder(self) -> Any:
        return self._side.get_window_coder()

    def describe(self) -> dict[str, object]:
        """State is in the windows of the side inputs; how elements come to theirs does not concern it."""
        return self._side.describe()


DUE = TimerSpec("due", TimeDomain.WATERMARK)


def side_streams(
    fn: object, given: SideInputs | None, is_stream: Callable[[SideInput], bool], step: str
) -> tuple[dict[str, SideInput], dict[str, SideInput]] | None:
    """The side inputs that are streams, and the others, by the parameter of the function; None if none is a stream."""
    every = list(given.values()) if isinstance(given, Mapping) else list(given or ())
    if not isinstance(fn, DoFn) or not any(isinstance(side, SideInput) and is_stream(side) for side in every):
        return None
    names = list(given) if isinstance(given, Mapping) else [a.name for a in process_signature(fn).side_inputs]
    problems = []
    if len(every) > len(names):
        problems.append(
            f"{len(every)} side inputs are given, some of which are streams, but there are {len(names)} parameters for "
            "them: with a stream, *args cannot take further ones."
        )
    streams, others = {}, {}
    for name, side in zip(names, every, strict=False):
        if not isinstance(side, SideInput) or not is_stream(side):
            others[name] = side
            continue
        streams[name] = side
        if not side.takes_streams:
            problems.append(
                f"The side input {name!r} is {type(side).__name__} of a stream, all of which no call can have. Give "
                "AsDict(...), which is looked up by the key of the call, and key the elements by what is looked up."
            )
        if side.refresh is not None:
            problems.append(f"The side input {name!r} is a stream, which is read as it comes; refresh is for a table.")
    if problems:
        raise InvalidStep(step or fn.default_label(), problems)
    return streams, others


def build_lookup(fn: Lookup, options: StepOptions, *, input_problems: Iterable[str] = ()) -> Step:
    """Checks everything and returns the step, or raises one InvalidStep that lists every problem."""
    given = dict(options.side_inputs or ()) if isinstance(options.side_inputs, Mapping) else {}
    sides: dict[str, SideInput] = {side.parameter: SideInput(None) for side in fn.sides}
    own = build_step(fn.fn, replace(options, side_inputs={**given, **sides}), input_problems=input_problems)
    problems = [*_problems(fn, own, options)]
    if problems:
        raise InvalidStep(own.name, problems)
    window_fn = fn.within(own.windowing.window_fn)
    cells = fn.cells()
    handles = [*(Argument(cell.name, ParamKind.STATE, cell) for cell in cells), Argument("due", ParamKind.TIMER, DUE)]
    element, key = Argument("element", ParamKind.ELEMENT), Argument("key", ParamKind.KEY)
    window = Argument("window", ParamKind.WINDOW)
    return replace(
        own,
        fn=fn,
        windowing=Windowing(window_fn, own.windowing.allowed_lateness),
        cells=cells,
        timers=(DUE,),
        process=MethodSignature("process", fn.process, [element, window, *handles]),
        callbacks={DUE.name: MethodSignature("process", fn.on_due, [key, window, *handles])},
        side_inputs={name: side for name, side in own.side_inputs.items() if name not in sides},
        calls=own.process,
    )


def _problems(fn: Lookup, own: Step, options: StepOptions) -> Iterator[str]:
    names = ", ".join(repr(side.parameter) for side in fn.sides)
    if own.cells or own.timers or own.on_expiration is not None or isinstance(own.fn, GroupedDoFn):
        yield (
            f"The side input {names} is a stream, which only a function without cells, timers and on_window_expiration can "
            "have: give it to a hf.Map before this step, whose rows have what it looked up; or keep what it says in a cell."
        )
    if isinstance(own.fn, BatchDoFn):
        yield f"The side input {names} is a stream, which a BatchDoFn cannot have: look it up in a hf.Map before this step."
    if options.requires_time_sorted_input:
        yield f"requires_time_sorted_input cannot be had with a stream as the side input {names}: elements wait for it."
    if isinstance(options.limits, Limits) and not options.limits.fails:
        yield (
            f"With a stream as the side input {names}, elements wait in the state, which Limits(policy="
            f"{options.limits.policy!r}) would lose: the policy can be 'fail'."
        )
    if options.parallel_over != KEY:
        yield f"parallel_over={options.parallel_over!r} cannot be had with a stream as the side input {names}."
    if own.extra_side_inputs:
        yield f"With a stream as the side input {names}, *args cannot take further ones: give each parameter a name."
    yield from _window_problems(fn.sides, own.windowing.window_fn)


def _window_problems(sides: Sequence[SideRows], main: WindowFn) -> Iterator[str]:
    side = sides[0].window_fn
    for other in sides[1:]:
        if other.window_fn != side:
            yield (
                f"The side inputs {sides[0].parameter!r} and {other.parameter!r} have other windows, {side!r} and "
                f"{other.window_fn!r}: look them up in two steps."
            )
    what = f"The side input {sides[0].parameter!r} is a stream in {side!r}"
    if side.is_merging() or main.is_merging():
        yield f"{what}, its elements are in {main!r}: windows that merge cannot be matched. Use fixed or sliding ones."
    elif isinstance(side, GlobalWindows):
        if not isinstance(main, (FixedWindows, GlobalWindows)):
            yield f"{what}, its elements are in {main!r}: put them into fixed windows, or into the global one."
        for rows in sides:
            if rows.wait is None:
                yield (
                    f"The side input {rows.parameter!r} is a stream in the global window, which never ends. Say how long an "
                    "element may wait for its first row: wait='10 minutes', or wait=0."
                )
    elif main != side and isinstance(side, SlidingWindows) and side.period > side.size:
        yield f"{what}, between which there are gaps, and its elements are in {main!r}: put them into the same windows."
    elif main != side and not (isinstance(main, FixedWindows) and isinstance(side, (FixedWindows, SlidingWindows))):
        yield f"{what}, but its elements are in {main!r}: put them into the same windows, window_into(...)."
