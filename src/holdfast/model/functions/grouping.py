"""Groupings: aggregations by key and window, described once and run by the engine in one of three ways.

`CombinePerKey` and `GroupByKey` say what is computed; a `Grouping` adds windows and triggers. If every window gives its
result when the watermark passes its end, the engine keeps whole windows (`engine.run.whole_windows`), or, if they are
sessions whose values are combined, the sessions of each key (`engine.run.sessions`). Everything else runs as a function with
cells and timers (`triggered`). All give the same results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from holdfast.errors import HoldfastError, InvalidStep
from holdfast.model.aggregate.combine import CombineFn
from holdfast.model.aggregate.triggers import (
    Accumulation,
    AccumulationMode,
    AfterCount,
    AfterWatermark,
    DefaultTrigger,
    Trigger,
)
from holdfast.model.coders import BytesCoder, Coder, ListCoder, VarIntCoder, default_coder
from holdfast.model.coders.sessions import SessionsCoder
from holdfast.model.functions.dofn import DoFn
from holdfast.model.functions.lookup import Lookup, build_lookup
from holdfast.model.functions.options import StepOptions
from holdfast.model.functions.params import ParamKind
from holdfast.model.functions.signature import Argument, MethodSignature
from holdfast.model.functions.step import Step, build_step, read_windowing, step_tags
from holdfast.model.functions.triggered import TriggeredGrouping
from holdfast.model.state.sessions import SessionsStateSpec
from holdfast.model.state.specs import BagStateSpec, CombiningStateSpec, MapStateSpec, State, StateSpec
from holdfast.model.time.timers import TimeDomain, TimerSpec
from holdfast.model.windows.ready import Sessions
from holdfast.model.windows.windowing import Windowing

__all__ = ["CombinePerKey", "GroupByKey", "Grouping", "build", "build_grouping"]

T = TypeVar("T")

PANES = "panes"
"""The cell that tracks each window, beside the columns' own cells."""

SESSIONS = "sessions"
"""The cell with the sessions of a key."""

_MODES = (AccumulationMode.DISCARDING, AccumulationMode.ACCUMULATING)


@dataclass(frozen=True)
class Column:
    """One result of a grouping: a combined value, or a list of all values."""

    name: str
    combine_fn: CombineFn[Any, Any, Any] | None
    coder: Coder[Any]
    """For accumulators, or for the listed values."""


class GroupByKey:
    """All values of a key and window, as a list in order of arrival."""

    default_name = "GroupByKey"

    def __init__(self, coder: Coder[T] | None = None) -> None:
        self.coder: Coder[Any] = coder or default_coder()

    def columns(self) -> tuple[list[Column], list[str]]:
        return [Column("values", None, self.coder)], []

    def shaped(self, results: tuple[object, ...]) -> object:
        return results[0]


class CombinePerKey:
    """Combines the values of a key and window: with one CombineFn or function such as `sum`, or with several by name."""

    default_name = "CombinePerKey"

    def __init__(
        self, fn: CombineFn[Any, Any, Any] | Callable[..., Any] | Mapping[str, CombineFn[Any, Any, Any] | Callable[..., Any]]
    ) -> None:
        self.fn = fn

    @property
    def is_single(self) -> bool:
        return not isinstance(self.fn, Mapping)

    def columns(self) -> tuple[list[Column], list[str]]:
        """The results, and what is wrong with them."""
        given = dict(self.fn) if isinstance(self.fn, Mapping) else {"value": self.fn}
        problems = [] if given else ["There is nothing to combine with: give a CombineFn, or several by name."]
        made: list[Column] = []
        for name, fn in given.items():
            spec = CombiningStateSpec(name, fn)
            problems += list(spec.problems())
            if name == PANES:
                problems.append(f"A result cannot have the name {PANES!r}; a cell of Holdfast's own uses it.")
            if spec.combine_fn is not None:
                made.append(Column(name, spec.combine_fn, spec.coder))
        return made, problems

    def shaped(self, results: tuple[object, ...]) -> object:
        """The results as a test sees them: a single one bare, several by name."""
        if self.is_single:
            return results[0]
        assert isinstance(self.fn, Mapping)
        return dict(zip(self.fn, results, strict=True))


Transform = GroupByKey | CombinePerKey


@dataclass(frozen=True)
class Grouping:
    """What a grouping computes, and everything that determines when."""

    transform: Transform
    columns: tuple[Column, ...]
    windowing: Windowing
    trigger: Trigger
    mode: Accumulation
    call_by_call: bool = False
    """Whether each key is processed separately: needed where one element may be refused, for an error or a limit."""

    @property
    def is_accumulating(self) -> bool:
        return self.mode == AccumulationMode.ACCUMULATING

    @property
    def keeps_whole_windows(self) -> bool:
        """Whether all keys of a window give their results together, when the watermark passes its end."""
        return not self.windowing.window_fn.is_merging() and self._gives_at_the_end

    @property
    def keeps_sessions(self) -> bool:
        """Whether the sessions of a key are kept together, and give their results when the watermark passes their ends."""
        combines = all(column.combine_fn is not None for column in self.columns)
        return type(self.windowing.window_fn) is Sessions and combines and self._gives_at_the_end

    @property
    def _gives_at_the_end(self) -> bool:
        return not self.call_by_call and _is_default(self.trigger, self.windowing)

    def shaped(self, result: tuple[Any, tuple[Any, ...]]) -> tuple[Any, Any]:
        """A result as a test sees it: the key, and a single value bare, several by name."""
        key, values = result
        return key, self.transform.shaped(values)

    def describe(self) -> dict[str, Any]:
        return {
            "transform": type(self.transform).__name__,
            "trigger": {"id": "default"} if self.keeps_whole_windows or self.keeps_sessions else self.trigger.describe(),
            "accumulation_mode": self.mode,
        }


def _is_default(trigger: Trigger, windowing: Windowing) -> bool:
    if not isinstance(trigger, AfterWatermark) or trigger.early is not None:
        return False
    return windowing.allowed_lateness.micros == 0 or trigger.late == AfterCount(1)


def build(fn: DoFn | Transform, options: StepOptions, *, input_problems: Iterable[str] = ()) -> Step:
    """Builds the step of a DoFn or a grouping, with `build_step` or `build_grouping`."""
    if isinstance(fn, Transform):
        return build_grouping(fn, options, input_problems=input_problems)
    problems = list(input_problems)
    if isinstance(fn, Lookup):
        return build_lookup(fn, options, input_problems=problems)
    if options.trigger is not None or options.accumulation_mode is not None:
        problems.append(
            "A trigger says when an aggregation gives its results. A DoFn sees every element as it arrives and decides "
            "itself: leave out trigger and accumulation_mode, or use combine_per_key or group_by_key."
        )
    return build_step(fn, options, input_problems=problems)


def build_grouping(transform: Transform, options: StepOptions, *, input_problems: Iterable[str] = ()) -> Step:
    """Checks everything and returns the step, or raises one InvalidStep that lists every problem."""
    problems = [*input_problems, *options.problems(), *_not_for_groupings(transform, options)]
    lateness, window_fn = read_windowing(options.windowing, options.allowed_lateness, problems)
    columns, column_problems = transform.columns()
    problems += column_problems
    problems += trigger_problems(options.trigger, options.accumulation_mode, lateness.micros)
    tags = step_tags(options, problems)
    step_name = options.name or transform.default_name
    if problems:
        raise InvalidStep(step_name, dict.fromkeys(problems))
    grouping = Grouping(
        transform=transform,
        columns=tuple(columns),
        windowing=Windowing(window_fn, lateness),
        trigger=options.trigger or DefaultTrigger(),
        mode=options.accumulation_mode or AccumulationMode.DISCARDING,
        call_by_call=options.on_error != "fail" or options.limits is not None,
    )
    try:
        cells, timers, windowing = _parts(grouping)
    except HoldfastError as error:
        raise error.within(step=step_name) from None
    return _step(step_name, grouping, windowing, cells, timers, tags, options)


def _not_for_groupings(transform: Transform, options: StepOptions) -> Iterator[str]:
    if options.side_inputs:
        yield f"{transform.default_name} takes no side_inputs; that is for DoFns."
    if options.requires_time_sorted_input:
        yield f"{transform.default_name} takes no requires_time_sorted_input; that is for DoFns."


def trigger_problems(trigger: Any, mode: Any, lateness: int) -> Iterator[str]:
    """What is wrong with a trigger and an accumulation mode, given the allowed lateness in microseconds."""
    if trigger is not None and not isinstance(trigger, Trigger):
        given = f"the class {trigger.__name__}" if isinstance(trigger, type) else repr(trigger)
        yield f"The trigger is {given}; give one such as AfterWatermark(early=AfterCount(100))."
        return
    if mode is not None and mode not in _MODES:
        yield f"accumulation_mode is {mode!r}; it can be {' or '.join(map(repr, _MODES))}."
    if trigger is None:
        return
    if mode is None and trigger != DefaultTrigger():
        yield (
            f"The trigger {trigger!r} may give several results for a window; set accumulation_mode: each result holds "
            "only what is new ('discarding') or everything so far ('accumulating')."
        )
    reason = trigger.finishes(lateness)
    if reason is not None:
        yield (
            f"The trigger is unsafe: {reason}. Later elements would be lost: wrap it in Repeatedly(...), or use "
            "AfterWatermark(early=..., late=...)."
        )


_Parts = tuple[tuple[StateSpec[State], ...], tuple[TimerSpec, ...], Windowing]


def _parts(grouping: Grouping) -> _Parts:
    if grouping.keeps_whole_windows:
        return _whole_windows(grouping)
    return _sessions(grouping) if grouping.keeps_sessions else _triggered(grouping)


def _whole_windows(grouping: Grouping) -> _Parts:
    return tuple(_cell(column) for column in grouping.columns), (), grouping.windowing


def _sessions(grouping: Grouping) -> _Parts:
    names, coders = [column.name for column in grouping.columns], [column.coder for column in grouping.columns]
    cell = SessionsStateSpec(SESSIONS, SessionsCoder(names, coders), grouping.windowing.allowed_lateness.micros)
    # Its windows are in the cell, in the global window, so that those of one key can merge independently.
    return (cell,), (), Windowing()


def _cell(column: Column) -> StateSpec[State]:
    if column.combine_fn is None:
        return BagStateSpec(column.name, column.coder)
    return CombiningStateSpec(column.name, column.coder, column.combine_fn)


def _triggered(grouping: Grouping) -> _Parts:
    cells = (MapStateSpec(PANES, BytesCoder(), default_coder()), *(_map_cell(column) for column in grouping.columns))
    timers = [TimerSpec("event", TimeDomain.WATERMARK)]
    if grouping.trigger.uses_processing_time():
        timers.append(TimerSpec("clock", TimeDomain.REAL_TIME))
    # Its windows are map keys in cells of the global window, so that the windows of one key can merge independently.
    return cells, tuple(timers), Windowing()


def _map_cell(column: Column) -> StateSpec[State]:
    if column.combine_fn is None:
        return MapStateSpec(column.name, VarIntCoder(), ListCoder(column.coder))
    return MapStateSpec(column.name, BytesCoder(), column.coder)


def _step(
    name: str,
    grouping: Grouping,
    windowing: Windowing,
    cells: tuple[StateSpec[State], ...],
    timers: tuple[TimerSpec, ...],
    tags: frozenset[str] | None,
    options: StepOptions,
) -> Step:
    fn = TriggeredGrouping(grouping)
    state = [Argument(cell.name, ParamKind.STATE, cell) for cell in cells]
    state += [Argument(timer.name, ParamKind.TIMER, timer) for timer in timers]
    key, tag = Argument("key", ParamKind.KEY), Argument("tag", ParamKind.TIMER_TAG)
    at = Argument("at", ParamKind.TIMESTAMP)
    callbacks = {"event": fn.on_event, "clock": fn.on_clock}
    return Step(
        name=name,
        fn=fn,
        windowing=windowing,
        cells=cells,
        timers=timers,
        process=MethodSignature("process", fn.process, [Argument("element", ParamKind.ELEMENT), *state]),
        callbacks={t.name: MethodSignature(t.name, callbacks[t.name], [key, at, tag, *state]) for t in timers},
        on_expiration=None,
        side_inputs={},
        extra_side_inputs=(),
        dead_letters=options.on_error == "dead_letter",
        time_sorted=False,
        tags=tags,
        grouping=grouping,
        limits=options.limits,
        key_groups=options.key_groups,
    )
