"""The errors a user of Holdfast can meet.

Every error has three parts: what happened, the detail (which step, cell, key and micro-batch), and what to do.
"Could not" is said where a retry may help, "cannot" where it will not.

    HoldfastError
    ├── InvalidStep          the step cannot be built; lists every problem found        (also a ValueError)
    ├── CoderError           a value does not fit its coder, or bytes do not decode     (also a ValueError)
    ├── InputError           an element is not what the step takes: not a pair, null key (also a ValueError)
    ├── UserCodeError        a user's function raised; its own traceback is the cause
    ├── OutputError          a function returned or yielded what cannot be an output    (also a TypeError)
    ├── GroupStateError      a function asked of its GroupState what it cannot do       (also a ValueError)
    ├── TimeError            time went back, or a time is out of range                  (also a ValueError)
    ├── LimitExceeded        a step keeps more state than its limits allow
    ├── CorruptState         stored bytes are damaged, incomplete, or of a foreign format
    ├── StateConflict        stored state and the code that would read it do not agree
    ├── CheckpointError      a path is not a checkpoint or savepoint, or not one that can be used for this
    ├── CheckpointLocked     a job is running on the checkpoint
    ├── MissingExtra         what is asked for needs packages that an extra installs    (also a ModuleNotFoundError)
    ├── SinkError            a sink cannot take a micro-batch without losing, doubling or altering rows
    └── JobFailed            a job's query ended with an error that is not a user's function's
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

__all__ = [
    "CheckpointError",
    "CheckpointLocked",
    "CoderError",
    "CorruptState",
    "GroupStateError",
    "HoldfastError",
    "InputError",
    "InvalidStep",
    "JobFailed",
    "LimitExceeded",
    "MissingExtra",
    "OutputError",
    "SinkError",
    "StateConflict",
    "TimeError",
    "UserCodeError",
]


class HoldfastError(Exception):
    """What happened, where, and what to do.

    `context` may be filled in on the way up (`within`): the coder that refuses a value knows neither cell nor
    key, the cell knows its name, the bundle knows the key and the step.
    """

    def __init__(self, what: str, *, detail: str = "", todo: str = "", context: Mapping[str, object] | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.detail = detail
        self.todo = todo
        self.context: dict[str, Any] = dict(context or {})

    def within(self, **context: object) -> HoldfastError:
        """Adds where it happened; what is already known stays."""
        for name, value in context.items():
            self.context.setdefault(name, value)
        return self

    def __str__(self) -> str:
        lines = [self.what]
        if self.context:
            lines.append("  where: " + ", ".join(f"{k.replace('_', ' ')} {v!r}" for k, v in self.context.items()))
        if self.detail:
            lines.extend("  " + line for line in self.detail.splitlines())
        if self.todo:
            lines.append("  what to do: " + self.todo)
        return "\n".join(lines)

    def __reduce__(self) -> tuple[Any, ...]:
        # Errors cross process boundaries: keep every part, not just `args`.
        return (_rebuild, (type(self), self.__dict__.copy(), self.args))


def _rebuild(cls: type[HoldfastError], parts: dict[str, Any], args: tuple[Any, ...]) -> HoldfastError:
    error = cls.__new__(cls)
    Exception.__init__(error, *args)
    error.__dict__.update(parts)
    return error


class InvalidStep(HoldfastError, ValueError):
    """A step, or a part of one, that cannot be built. `problems` holds all of them, not just the first."""

    def __init__(self, step: str, problems: Iterable[str]) -> None:
        self._tell(f"The step {step!r} cannot be built", problems)

    @classmethod
    def of(cls, part: str, problems: Iterable[str]) -> InvalidStep:
        """Of a part of a step, such as `Ttl`, which is refused where it is made."""
        error = cls.__new__(cls)
        error._tell(f"{part}(...) cannot be made", problems)
        return error

    def _tell(self, what: str, problems: Iterable[str]) -> None:
        self.problems = list(problems)
        count = len(self.problems)
        super().__init__(
            f"{what}: {count} problem{'s' if count != 1 else ''}.",
            detail="\n".join(f"- {problem}" for problem in self.problems),
        )


class CoderError(HoldfastError, ValueError):
    """A value that its coder does not take, or bytes that it cannot read."""


class InputError(HoldfastError, ValueError):
    """An element that a keyed step cannot take."""


class UserCodeError(HoldfastError):
    """A user's function raised. The original exception is `__cause__`, its traceback is in `detail`."""


class OutputError(HoldfastError, TypeError):
    """A function gave something that cannot be an output."""


class GroupStateError(HoldfastError, ValueError):
    """A function asked of its `GroupState` what it cannot do: a value that is not there, a timeout of the wrong kind."""


class TimeError(HoldfastError, ValueError):
    """A time that is out of range, or a clock that would go back."""


class LimitExceeded(HoldfastError):
    """A step that keeps more state than its limits allow. The heaviest keys are in `detail`."""


class CorruptState(HoldfastError):
    """Stored bytes that are damaged, incomplete or of a foreign format. Nothing was decoded from them."""


class JobFailed(HoldfastError):
    """A job whose query failed. What Spark said is `__cause__`."""


class StateConflict(HoldfastError):
    """Stored state that the present code cannot read as its own."""


class CheckpointError(HoldfastError):
    """A path at which there is no checkpoint or savepoint, or none that can be used for what was asked."""


class CheckpointLocked(HoldfastError):
    """A checkpoint that a running job, or another tool, is using."""


class MissingExtra(HoldfastError, ModuleNotFoundError):
    """Packages that are missing, and the extra that installs them: Spark's, without `holdfast[spark]`."""


class SinkError(HoldfastError):
    """A place where a sink cannot write without losing, doubling or altering rows: it belongs to another query, say."""
