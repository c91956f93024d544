"""Failures: what happens to an exception raised by a user's function."""

from __future__ import annotations

import traceback
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from holdfast.engine.tables.base import Cell
from holdfast.errors import HoldfastError, UserCodeError
from holdfast.model.time.timestamps import Timestamp

__all__ = ["DeadLetter", "user_error"]

_OWN = tuple(str(Path(__file__).parents[2] / part) for part in ("engine", "model"))


class DeadLetter(NamedTuple):
    """An element or timer call that was diverted because the function raised. It leaves no trace in the state."""

    key: Any
    value: Any
    timestamp: Timestamp
    method: str
    error: str
    traceback: str


def user_error(error: Exception, **context: Any) -> HoldfastError:
    """The error to raise for a user's exception: it says where it happened, and shows the user's own frames first."""
    if isinstance(error, HoldfastError):
        return error.within(**context)
    raised = UserCodeError(
        f"{context.get('method', 'a function')} of the step {context.get('step')!r} raised {type(error).__name__}: {error}",
        detail=_wrong_use(error) + user_traceback(error),
        context={name: value for name, value in context.items() if name != "method"},
        todo="fix the function, or divert such elements with on_error='dead_letter'; "
        "the state is as of the last committed micro-batch",
    )
    raised.__cause__ = error
    return raised


def _wrong_use(error: Exception) -> str:
    """The sentence about calling a method that this kind of cell does not have."""
    if isinstance(error, AttributeError) and isinstance(error.obj, Cell):
        return error.obj.wrong_use(str(error.name)) + "\n"
    return ""


def user_traceback(error: Exception) -> str:
    """The traceback without Holdfast's own frames above the user's."""
    frames = error.__traceback__
    while frames is not None and frames.tb_next is not None and _is_own(frames):
        frames = frames.tb_next
    return "".join(traceback.format_exception(type(error), error, frames)).rstrip()


def _is_own(frame: TracebackType) -> bool:
    name = frame.tb_frame.f_code.co_filename
    return name.startswith((*_OWN, "<loop of "))
