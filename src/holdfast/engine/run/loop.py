"""The loop over the elements of a bundle, generated for one step.

What a step does for every element is known when it is built: which arguments `process` takes, whether it is a
generator, whether windows, times or dead letters matter. So the loop is generated as source text and compiled, once
per step, as `dataclasses` does with `__init__`. For a running counter it is:

    def loop(rows, out, marks, window, bind, failed):
        extend = out.extend
        for focus.key, element in rows:
            extend(process(element, argument_1))

Each element costs one attribute store, the user's call, and what it yields; everything else is prepared.
`loop.source` has the text, for the curious and for tests.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from holdfast.engine.run.outputs import checked
from holdfast.engine.state.keys import key_of
from holdfast.engine.tables import Focus, Undo
from holdfast.model.functions.params import ParamKind
from holdfast.model.functions.signature import MethodSignature
from holdfast.model.time.timestamps import Timestamp
from holdfast.model.windows.values import PANE_INFO_UNKNOWN, WindowedValue

__all__ = ["Loop", "compile_loop"]

_VARYING = {
    ParamKind.ELEMENT: "element",
    ParamKind.KEY: "key_of(focus.key)",
    ParamKind.TIMESTAMP: "Timestamp._of_micros(time)",
    ParamKind.WINDOW: "window.window",
    ParamKind.WINDOWED_VALUE: "WindowedValue(element, Timestamp._of_micros(time), (window.window,))",
    ParamKind.PANE_INFO: "PANE_INFO_UNKNOWN",
}


@dataclass(frozen=True)
class Loop:
    """A compiled loop. `run(rows, out, marks, window, bind, failed)`: `rows` are tuples of slot, element, and, where the
    loop says it needs them, time and window."""

    run: Callable[..., None]
    source: str
    needs_time: bool
    needs_window: bool


def compile_loop(
    signature: MethodSignature,
    process: Callable[..., Any],
    fixed: dict[int, Any],
    focus: Focus,
    *,
    windowed: bool,
    origins: bool,
    marks_seen: bool,
    undo: Undo | None,
    caught: tuple[type[BaseException], ...] = (Exception,),
    extra: tuple[Any, ...] = (),
    clock: Any = None,
    check: Callable[[list[Any], int], None] | None = None,
) -> Loop:
    """Makes the loop. `fixed` has the arguments that are the same for every call, by position. With `undo`, a call that
    raises one of `caught` is rolled back. `clock`, if given, is told the time of each element. `check` is given all outputs
    and the index where those of the call start, and raises if one cannot be written."""
    kinds = {argument.kind for argument in signature.arguments}
    needs_time = bool({ParamKind.TIMESTAMP, ParamKind.WINDOWED_VALUE} & kinds) or origins
    needs_time = needs_time or undo is not None or clock is not None
    call = _call(signature, fixed, extra)
    targets = [
        "focus.key",
        "element",
        *(["time"] if needs_time else []),
        *(["next_window"] if windowed else []),
    ]
    body = [f"for {', '.join(targets)} in rows:"]
    if windowed:
        body += ["    if next_window is not window:", "        window = next_window", "        bind(window)"]
        body += ["        seen = window.seen"] if marks_seen else []
    body += ["    clock.present = time"] if clock is not None else []
    body += ["    " + line for line in _guarded(_emit(process, call, check), marks_seen, undo is not None, caught)]
    if origins:
        body.append("    marks.append((len(out), time, window.window))")
    source = "\n".join(
        [
            "def loop(rows, out, marks, window, bind, failed):",
            "    extend = out.extend",
            *(["    seen = None if window is None else window.seen"] if marks_seen else []),
            *("    " + line for line in body),
        ]
    )
    namespace: dict[str, Any] = {f"argument_{position}": value for position, value in fixed.items()}
    namespace |= {f"extra_{position}": value for position, value in enumerate(extra)}
    namespace |= {
        "CAUGHT": caught,
        "PANE_INFO_UNKNOWN": PANE_INFO_UNKNOWN,
        "check": check,
        "Timestamp": Timestamp,
        "WindowedValue": WindowedValue,
        "checked": checked,
        "clock": clock,
        "focus": focus,
        "key_of": key_of,
        "process": process,
        "undo": undo,
    }
    exec(compile(source, f"<loop of {signature.method}>", "exec"), namespace)
    return Loop(namespace["loop"], source, needs_time, windowed)


def _call(signature: MethodSignature, fixed: dict[int, Any], extra: tuple[Any, ...]) -> str:
    arguments = [
        f"argument_{position}" if position in fixed else _VARYING[argument.kind]
        for position, argument in enumerate(signature.arguments)
    ]
    return f"process({', '.join([*arguments, *(f'extra_{i}' for i in range(len(extra)))])})"


def _emit(process: Callable[..., Any], call: str, check: Any) -> list[str]:
    checking = [] if check is None else ["check(out, start)"]
    if inspect.isgeneratorfunction(process):
        return [f"extend({call})", *checking]
    return [f"result = {call}", "if result is not None:", "    extend(checked(result, 'process'))", *checking]


def _guarded(emit: list[str], marks_seen: bool, atomic: bool, caught: tuple[type[BaseException], ...]) -> list[str]:
    mark = ["if focus.key not in seen.values:", "    seen.put(focus.key, True)"] if marks_seen else []
    if not atomic:
        return emit + mark
    return [
        "undo.begin()",
        "start = len(out)",
        "try:",
        *("    " + line for line in emit),
        f"except {'Exception' if caught == (Exception,) else 'CAUGHT'} as error:",
        "    undo.rollback()",
        "    del out[start:]",
        "    failed(element, time, error)",
        *(["else:", *("    " + line for line in mark)] if mark else []),
    ]
