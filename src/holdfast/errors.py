"""The errors a user of Holdfast can meet.

Every error has three parts: what happened, the detail (which step, cell, key and micro-batch), and what to do.
"Could not" means that a retry may help, "cannot" that it will not.

    HoldfastError
    ├── InvalidStep          the step cannot be built; lists every problem found        (also a ValueError)
    ├── CoderError           a value does not fit its coder, or bytes do not decode     (also a ValueError)
    ├── InputError           an element that a step cannot take: not a pair, null key   (also a ValueError)
    ├── UserCodeError        a user's function raised; its own traceback is the cause
    ├── OutputError          a function gave something that cannot be an output         (also a TypeError)
    ├── GroupStateError      a function asked its GroupState for the impossible         (also a ValueError)
    ├── TimeError            time went back, or a time is out of range                  (also a ValueError)
    ├── LimitExceeded        a step keeps more state than its limits allow
    ├── CorruptState         stored bytes are damaged, incomplete, or of a foreign format
    ├── StateConflict        the stored state and the code do not match
    ├── CheckpointError      a path is not a checkpoint or savepoint, or cannot be used for this purpose
    │   └── NeedsSpark       state that can only be read through Spark, and there is no session
    ├── CheckpointLocked     a job is running on the checkpoint
    ├── MissingExtra         this needs packages that an extra installs                 (also a ModuleNotFoundError)
    ├── SinkError            a sink cannot take a micro-batch without losing, doubling or altering rows
    └── JobFailed            a job's query failed, but not in a user's function
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
    "NeedsSpark",
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
        """Adds where it happened; does not overwrite what is known."""
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
    """A step, a part of one, a job or a sink that cannot be built. `problems` holds all of them, not just the first."""

    def __init__(self, step: str, problems: Iterable[str]) -> None:
        self._tell(f"The step {step!r} cannot be built", problems)

    @classmethod
    def of(cls, part: str, problems: Iterable[str]) -> InvalidStep:
        """For a part of a step, such as `Ttl`, that is refused when it is made."""
        error = cls.__new__(cls)
        error._tell(f"{part}(...) cannot be made", problems)
        return error

    @classmethod
    def of_job(cls, job: str, problems: Iterable[str]) -> InvalidStep:
        """For a job, or what is written by one."""
        error = cls.__new__(cls)
        error._tell(f"The job {job!r} cannot be built", problems)
        return error

    @classmethod
    def of_sink(cls, sink: object, problems: Iterable[str]) -> InvalidStep:
        """For a sink that cannot write what it is given, which is found before anything is written."""
        error = cls.__new__(cls)
        error._tell(f"Rows cannot be written to {sink!r}", problems)
        return error

    def _tell(self, what: str, problems: Iterable[str]) -> None:
        self.problems = list(problems)
        count = len(self.problems)
        super().__init__(
            f"{what}: {count} problem{'s' if count != 1 else ''}.",
            detail="\n".join(f"- {problem}" for problem in self.problems),
        )


class CoderError(HoldfastError, ValueError):
    """A value that its coder cannot encode, or bytes that it cannot decode."""


class InputError(HoldfastError, ValueError):
    """An element that a keyed step cannot take."""


class UserCodeError(HoldfastError):
    """A user's function raised. The original exception is `__cause__`, its traceback is in `detail`."""


class OutputError(HoldfastError, TypeError):
    """A function gave something that cannot be an output."""


class GroupStateError(HoldfastError, ValueError):
    """A function asked its `GroupState` for the impossible: a missing value, a timeout of the wrong kind."""


class TimeError(HoldfastError, ValueError):
    """A time that is out of range, or a clock that would go back."""


class LimitExceeded(HoldfastError):
    """A step that keeps more state than its limits allow. `detail` names the heaviest keys."""


class CorruptState(HoldfastError):
    """Stored bytes that are damaged, incomplete or of a foreign format. Nothing was decoded from them."""


class JobFailed(HoldfastError):
    """A job whose query failed. Spark's error is `__cause__`."""


class StateConflict(HoldfastError):
    """Stored state that does not match the code."""


class CheckpointError(HoldfastError):
    """A path that is not a checkpoint or savepoint, or cannot be used for this purpose."""


class NeedsSpark(CheckpointError):
    """State whose files have a format, or are in a place, that only Spark can read."""


class CheckpointLocked(HoldfastError):
    """A checkpoint that a running job, or another tool, is using."""


class MissingExtra(HoldfastError, ModuleNotFoundError):
    """Missing packages, and the extra that installs them, such as `holdfast[spark]`."""


class SinkError(HoldfastError):
    """A sink cannot write without losing, doubling or altering rows: its target belongs to another query, say."""
