"""A step: a DoFn with its windowing and options, checked once, as a whole.

`build_step` finds every problem before it raises, so that a user can fix a function in one go.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.errors import HoldfastError, InvalidStep
from holdfast.model.functions.batch_checks import batch_problems, batch_signature
from holdfast.model.functions.batches import BatchDoFn
from holdfast.model.functions.dofn import DoFn
from holdfast.model.functions.options import StepOptions
from holdfast.model.functions.params import ParamKind
from holdfast.model.functions.side_inputs import SideInput
from holdfast.model.functions.signature import MethodSignature, read_signature
from holdfast.model.functions.stateless import PlainFunction
from holdfast.model.state.limits import Limits
from holdfast.model.state.specs import State, StateSpec
from holdfast.model.time.timers import TimerSpec, timers_of
from holdfast.model.time.timestamps import Duration
from holdfast.model.windows.ready import GlobalWindows, WindowFn
from holdfast.model.windows.windowing import Windowing

if TYPE_CHECKING:
    from holdfast.model.functions.grouping import Grouping

__all__ = [
    "DEAD_LETTER_TAG",
    "LATE_TAG",
    "MAIN_TAG",
    "OVER_LIMIT_TAG",
    "Step",
    "build_step",
    "get_dofn_specs",
    "is_stateful_dofn",
    "process_signature",
    "validate_stateful_dofn",
]

MAIN_TAG = "main"
LATE_TAG = "late"
DEAD_LETTER_TAG = "dead_letter"
OVER_LIMIT_TAG = "over_limit"

_CALLBACK = frozenset({ParamKind.KEY, ParamKind.TIMESTAMP, ParamKind.WINDOW, ParamKind.STATE, ParamKind.SIDE_INPUT})
_TIMER_CALLBACK = _CALLBACK | {ParamKind.TIMER, ParamKind.TIMER_TAG}
_PROCESS = (_CALLBACK | {ParamKind.TIMER, ParamKind.ELEMENT, ParamKind.WINDOWED_VALUE, ParamKind.PANE_INFO}) - {
    ParamKind.TIMER_TAG
}
_NOTHING: frozenset[ParamKind] = frozenset()


@dataclass(frozen=True)
class Step:
    """A DoFn that passed validation, and everything an engine needs to run it."""

    name: str
    fn: DoFn
    windowing: Windowing
    cells: tuple[StateSpec[State], ...]
    timers: tuple[TimerSpec, ...]
    process: MethodSignature
    callbacks: Mapping[str, MethodSignature]
    """By timer name."""
    on_expiration: MethodSignature | None
    side_inputs: Mapping[str, SideInput]
    extra_side_inputs: tuple[SideInput, ...]
    """Those passed to `*args` of process."""
    dead_letters: bool
    """Whether an element whose call raises goes to the tag `dead_letter` instead of stopping the job."""
    time_sorted: bool
    """Whether elements are held back until the watermark has passed them, then processed in order of event time."""
    tags: frozenset[str] | None
    """The tags that outputs may have besides the main output; None: any."""
    grouping: Grouping | None = None
    """What it computes, if it is an aggregation and not a user's function."""
    limits: Limits | None = None
    key_groups: int = 1
    """How many key groups share the limits of the step."""
    calls: MethodSignature | None = None
    """That of the user's function, where it is called by one of Holdfast's own."""

    def describe(self) -> dict[str, Any]:
        """What a manifest records about this step: everything stored state depends on."""
        windowing = self.windowing if self.grouping is None else self.grouping.windowing
        described: dict[str, Any] = {
            "name": self.name,
            "cells": [cell.describe() for cell in self.cells],
            "timers": [timer.describe() for timer in self.timers],
            "windowing": windowing.describe(),
            "time_sorted": self.time_sorted,
        }
        parameters = self.fn.state_parameters()
        if parameters:
            described["parameters"] = dict(parameters)
        if self.grouping is not None:
            described["grouping"] = self.grouping.describe()
        return described


_DEFAULTS = StepOptions()


def build_step(fn: DoFn, options: StepOptions = _DEFAULTS, *, input_problems: Iterable[str] = ()) -> Step:
    """Checks everything and returns the step, or raises one InvalidStep that lists every problem."""
    if not isinstance(fn, DoFn):
        raise InvalidStep(options.name or _name_of(fn), [*_not_a_dofn(fn), *input_problems])
    step_name = options.name or fn.default_label()
    problems = [*input_problems, *fn.declaration_problems(), *_parameter_problems(fn), *options.problems()]
    lateness, window_fn = read_windowing(options.windowing, options.allowed_lateness, problems)
    process = process_signature(fn)
    problems += batch_problems(fn, options)
    callbacks, callback_problems = _timer_callbacks(fn)
    on_expiration = None
    if type(fn).on_window_expiration is not DoFn.on_window_expiration:
        on_expiration = read_signature(
            fn.on_window_expiration, "on_window_expiration", allowed=_CALLBACK, element_first=False
        )
    methods = [process, *callbacks.values(), *([on_expiration] if on_expiration else [])]
    for method in methods:
        problems.extend(method.problems)
    for method_name in ("setup", "start_bundle", "finish_bundle", "teardown"):
        bound = getattr(fn, method_name)
        problems.extend(read_signature(bound, method_name, allowed=_NOTHING, element_first=False).problems)
    cells = _unique(methods, ParamKind.STATE, StateSpec)
    timers = _unique(methods, ParamKind.TIMER, TimerSpec)
    problems.extend(callback_problems)
    problems.extend(_spec_problems(fn, cells, timers, callbacks))
    named: dict[str, SideInput] = {}
    extra: tuple[SideInput, ...] = ()
    if options.side_inputs is not None:
        named, extra = _match_side_inputs(options.side_inputs, methods, problems)
    time_sorted = options.requires_time_sorted_input
    if window_fn.is_merging() and (cells or timers or on_expiration or time_sorted):
        problems.append(
            f"{type(window_fn).__name__} merges windows, and the cells of windows that merge cannot be merged for a "
            "stateful DoFn: only an aggregation says how. Use FixedWindows, SlidingWindows or GlobalWindows, and keep "
            "sessions in cells of your own with a timer for their end."
        )
    if fn.needs_time_sorted_input and time_sorted is not True:
        problems.append(
            f"{type(fn).__name__} is right only if a key's elements come in order of event time; give the step "
            "requires_time_sorted_input=True."
        )
    tags = step_tags(options, problems)
    if problems:
        raise InvalidStep(step_name, dict.fromkeys(problems))
    return Step(
        name=step_name,
        fn=fn,
        windowing=Windowing(window_fn, lateness),
        cells=tuple(cells),
        timers=tuple(timers),
        process=process,
        callbacks={spec.name: callbacks[id(spec)] for spec in timers},
        on_expiration=on_expiration,
        side_inputs=named,
        extra_side_inputs=extra,
        dead_letters=options.on_error == "dead_letter",
        time_sorted=time_sorted,
        tags=tags,
        limits=options.limits,
        key_groups=options.key_groups,
    )


def step_tags(options: StepOptions, problems: list[str]) -> frozenset[str] | None:
    """The tags that outputs may have; None: any. They must include the tags that elements are diverted to."""
    if options.outputs is None or isinstance(options.outputs, str):
        return None
    tags = frozenset(options.outputs)
    for tag, diverts, reason in (
        (DEAD_LETTER_TAG, options.on_error == "dead_letter", "on_error='dead_letter'"),
        (OVER_LIMIT_TAG, options.diverts, "Limits(policy='over_limit')"),
    ):
        if diverts and tag not in tags:
            problems.append(f"{reason} sends elements to the output {tag!r}; name it: outputs={{{tag!r}: None}}.")
    return tags


def _parameter_problems(fn: DoFn) -> Iterator[str]:
    """Parameters must compare equal after being stored and read back."""
    parameters = fn.state_parameters()
    try:
        is_plain = isinstance(parameters, Mapping) and json.loads(json.dumps(parameters)) == parameters
    except (TypeError, ValueError):
        is_plain = False
    if not is_plain:
        yield (
            f"state_parameters gives {parameters!r}; it must be a dict from names to plain JSON values: texts, numbers, "
            "True, False, None, and lists and dicts of them."
        )


def _name_of(fn: object) -> str:
    return fn.__name__ if isinstance(fn, type) else type(fn).__name__


def _not_a_dofn(fn: object) -> Iterator[str]:
    if isinstance(fn, type) and issubclass(fn, DoFn):
        yield f"{fn.__name__} is the class; give an instance, {fn.__name__}()."
    else:
        yield f"{fn!r} is not a DoFn: derive a class from holdfast.DoFn and give an instance of it."


def read_windowing(windowing: WindowFn | None, allowed_lateness: Any, problems: list[str]) -> tuple[Duration, WindowFn]:
    """The allowed lateness and the window function that were given; adds what is wrong with them to `problems`."""
    lateness, window_fn = Duration(), GlobalWindows() if windowing is None else windowing
    try:
        lateness = Duration.of(allowed_lateness)
    except (HoldfastError, TypeError, ValueError) as refused:
        problems.append(f"allowed_lateness is not a duration: {refused}")
    if lateness.micros < 0:
        problems.append(f"allowed_lateness is {lateness!r}; it cannot be negative.")
    if not isinstance(window_fn, WindowFn):
        given = f"the class {window_fn.__name__}" if isinstance(window_fn, type) else repr(window_fn)
        problems.append(f"The windowing is {given}; it must be an instance of a WindowFn, such as FixedWindows(60).")
        window_fn = GlobalWindows()
    return lateness, window_fn


def process_signature(fn: DoFn) -> MethodSignature:
    """What a function asks for when it is called for an element, or for many."""
    if isinstance(fn, BatchDoFn):
        return batch_signature(fn)
    if isinstance(fn, PlainFunction):
        return fn.process_signature()
    if type(fn).process is DoFn.process:
        return MethodSignature("process", fn.process, problems=[f"{type(fn).__name__} has no process method."])
    return read_signature(fn.process, "process", allowed=_PROCESS, element_first=True)


def _timer_callbacks(fn: DoFn) -> tuple[dict[int, MethodSignature], list[str]]:
    """The callbacks of all timers, by the identity of their specs, and what is wrong with the decorators."""
    callbacks: dict[int, MethodSignature] = {}
    problems = []
    for name in dir(type(fn)):
        for spec in timers_of(getattr(type(fn), name, None)):
            if not isinstance(spec, TimerSpec):
                problems.append(f"{name} is decorated with @on_timer({spec!r}), which is not a TimerSpec.")
            elif id(spec) in callbacks:
                problems.append(f"{spec!r} has two callbacks, {callbacks[id(spec)].method} and {name}; keep one.")
            else:
                callbacks[id(spec)] = read_signature(getattr(fn, name), name, allowed=_TIMER_CALLBACK, element_first=False)
    return callbacks, problems


def _unique(methods: Sequence[MethodSignature], kind: ParamKind, of_type: type[Any]) -> list[Any]:
    found: dict[int, Any] = {}
    for method in methods:
        for spec in method.specs(kind):
            if isinstance(spec, of_type):
                found.setdefault(id(spec), spec)
    return list(found.values())


def _spec_problems(
    fn: DoFn,
    cells: Sequence[StateSpec[State]],
    timers: Sequence[TimerSpec],
    callbacks: Mapping[int, MethodSignature],
) -> Iterator[str]:
    for kind, specs in (("state cells", cells), ("timers", timers)):
        names = [spec.name for spec in specs]
        for name in dict.fromkeys(n for n in names if names.count(n) > 1):
            yield f"Two {kind} have the name {name!r}; each needs a name of its own."
    for cell in cells:
        yield from cell.problems()
    for spec in timers:
        if id(spec) in callbacks:
            if _is_redefined(fn, spec):
                yield f"{spec!r} has two callbacks of one name, {callbacks[id(spec)].method}; only the last would ever run."
            continue
        overwritten = _overwritten(fn, spec)
        if overwritten:
            yield (
                f"The callback of {spec!r} was {overwritten}, but that name now stands for another function, "
                "without @on_timer. Decorate the new one too, or give it another name."
            )
        else:
            yield f"{spec!r} has no callback: decorate a method with @on_timer({spec.name.upper()})."


def _overwritten(fn: DoFn, spec: TimerSpec) -> str | None:
    """The name of the method that was the callback, if another function has taken over that name."""
    own = {(cls.__module__, cls.__qualname__) for cls in type(fn).__mro__}
    for module, qualified_name in spec.decorated:
        owner, _, name = qualified_name.rpartition(".")
        if (module, owner) in own:
            return name
    return None


def _is_redefined(fn: DoFn, spec: TimerSpec) -> bool:
    """Whether a class decorated two methods of one name. Only reported for a spec made in the class itself: one from
    outside is decorated again whenever the source of the class is run again, as in a notebook."""
    made_here = [cls for cls in type(fn).__mro__ if any(value is spec for value in vars(cls).values())]
    names = [at for at in spec.decorated for cls in made_here if at[1].rpartition(".")[0] == cls.__qualname__]
    return len(names) > len(set(names))


def _match_side_inputs(
    given: Mapping[str, SideInput] | Sequence[SideInput],
    methods: Sequence[MethodSignature],
    problems: list[str],
) -> tuple[dict[str, SideInput], tuple[SideInput, ...]]:
    """Side inputs by parameter name, and those for `*args`."""
    process = methods[0]
    wanted = [a.name for a in process.side_inputs]
    extra: tuple[SideInput, ...] = ()
    if isinstance(given, Mapping):
        named = dict(given)
    else:
        named = dict(zip(wanted, given, strict=False))
        extra = tuple(given[len(wanted) :])
        if extra and not process.takes_more:
            problems.append(f"{len(given)} side inputs are given, but process has {len(wanted)} parameters for them.")
    for name, side_input in named.items():
        if not isinstance(side_input, SideInput):
            problems.append(f"The side input {name!r} is {side_input!r}; wrap it in AsDict, AsList or AsSingleton.")
        elif side_input.wait is not None:
            problems.append(f"The side input {name!r} has wait=, which is for a stream, but is a table: leave it out.")
        elif side_input.ttl is not None:
            problems.append(f"The side input {name!r} has ttl=, which is for a stream, but is a table: leave it out.")
        if not any(name == a.name for m in methods for a in m.side_inputs):
            problems.append(f"A side input {name!r} is given, but no method has a parameter of that name for it.")
    for method in methods:
        for argument in method.side_inputs:
            if argument.name not in named and argument.default is inspect.Parameter.empty:
                problems.append(method.undeclared(argument))
    return named, extra


def get_dofn_specs(fn: DoFn) -> tuple[set[StateSpec[State]], set[TimerSpec]]:
    """The cells and timers that a function declares. Raises InvalidStep for an invalid function."""
    step = build_step(fn, StepOptions(side_inputs=None))
    return set(step.cells), set(step.timers)


def is_stateful_dofn(fn: DoFn) -> bool:
    """Whether a function has any cell or timer."""
    return any(get_dofn_specs(fn))


def validate_stateful_dofn(fn: DoFn) -> None:
    """Raises InvalidStep, listing every problem, if the function cannot run."""
    build_step(fn, StepOptions(side_inputs=None))
