"""Calls of a function whose side inputs are streams, on behalf of the step that has looked them up."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from holdfast.model.functions.params import ParamKind
from holdfast.model.functions.signature import Argument, MethodSignature
from holdfast.model.time.timestamps import Timestamp
from holdfast.model.windows.values import PANE_INFO_UNKNOWN, WindowedValue

if TYPE_CHECKING:
    from holdfast.engine.run.step_runner import StepRunner

__all__ = ["FunctionCalls"]

_Call = tuple[Any, Any, int, Any, Mapping[str, Any]]
"""Key, value, time in microseconds, window, and the views of the side inputs that are streams."""


class FunctionCalls:
    """Calls the user's function for one element at a time. If dead letters are wanted, one that raises becomes one."""

    def __init__(self, runner: StepRunner, signature: MethodSignature, side_inputs: Mapping[str, Any]) -> None:
        self._runner = runner
        self._function = signature.function
        self._arguments = [_getter(argument, side_inputs) for argument in signature.arguments]

    def __call__(self, key: Any, value: Any, time: int, window: Any, views: Mapping[str, Any]) -> None:
        runner = self._runner
        runner.calling()
        call = key, value, time, window, views
        arguments = [get(call) for get in self._arguments]
        items = runner.collector.items
        start = len(items)
        if not runner.step.dead_letters:
            runner.collector.collect(self._function(*arguments), time, window, "process")
            return
        try:
            runner.collector.collect(self._function(*arguments), time, window, "process")
            runner.check_from(start)
        except Exception as error:
            del items[start:]
            runner.dead_letter_of(key, value, time, error, window)


def _getter(argument: Argument, side_inputs: Mapping[str, Any]) -> Callable[[_Call], Any]:
    if argument.kind is not ParamKind.SIDE_INPUT:
        return _GETTERS[argument.kind]
    name = argument.name
    static = side_inputs.get(name, None if argument.default is inspect.Parameter.empty else argument.default)
    return lambda call: call[4].get(name, static)


_GETTERS: dict[ParamKind, Callable[[_Call], Any]] = {
    ParamKind.ELEMENT: lambda call: (call[0], call[1]),
    ParamKind.KEY: lambda call: call[0],
    ParamKind.TIMESTAMP: lambda call: Timestamp._of_micros(call[2]),
    ParamKind.WINDOW: lambda call: call[3],
    ParamKind.WINDOWED_VALUE: lambda call: WindowedValue(
        (call[0], call[1]), Timestamp._of_micros(call[2]), (call[3],), PANE_INFO_UNKNOWN
    ),
    ParamKind.PANE_INFO: lambda call: PANE_INFO_UNKNOWN,
}
