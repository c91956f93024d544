"""Timers: they call a function back at a given time, for the same key and window.

A timer is identified by (timer name, tag, key, window); setting it again moves it. It fires once its clock has
reached the given time (inclusive); a time in the past fires in the same bundle. Timers of one key fire in
ascending order of time, and those that a callback sets fire in the same bundle if they are due.
"""

from __future__ import annotations

import abc
import enum
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from holdfast.errors import InvalidStep
from holdfast.model.docs import doc_problems, with_doc
from holdfast.model.time.timestamps import Timestamp

__all__ = ["TimeDomain", "Timer", "TimerSpec", "on_timer", "timers_of"]

F = TypeVar("F", bound=Callable[..., Any])

_MARK = "__holdfast_timers__"


class TimeDomain(enum.Enum):
    """The clock that a timer follows."""

    WATERMARK = "watermark"
    """Event time: the watermark, the time before which no more input is expected."""
    REAL_TIME = "real_time"
    """Processing time: the timestamp of the micro-batch, so that a replay sees the same time."""


class Timer(abc.ABC):
    """A live timer, bound by the engine to the key and window of the current call."""

    __slots__ = ()

    @abc.abstractmethod
    def set(self, timestamp: Timestamp | int | float, dynamic_timer_tag: str = "") -> None:
        """Sets the timer to an absolute time (seconds or a Timestamp), in either domain. The last call wins."""

    @abc.abstractmethod
    def clear(self, dynamic_timer_tag: str = "") -> None:
        """Cancels the timer; no error if it is not set."""


class TimerSpec:
    """The declaration of a timer. Specs are compared by identity; within a step their names are unique."""

    def __init__(self, name: str, time_domain: TimeDomain = TimeDomain.WATERMARK, *, doc: str | None = None) -> None:
        """`doc` says what the timer is for, in a sentence or two, for whoever looks at the state."""
        self.name = name
        self.time_domain = time_domain
        self.doc = doc
        problems = [*self._problems()]
        if problems:
            raise InvalidStep.of("TimerSpec", problems)
        # Where @on_timer was written for this spec, as (module, qualified name): it distinguishes a callback that was
        # overwritten from one that never existed.
        self.decorated: list[tuple[str, str]] = []

    def _problems(self) -> Iterator[str]:
        if not isinstance(self.name, str) or not self.name:
            yield f"A timer needs a name that is a non-empty string, not {self.name!r}."
        if not isinstance(self.time_domain, TimeDomain):
            yield (
                f"The timer {self.name!r} has the time domain {self.time_domain!r}; "
                "use TimeDomain.WATERMARK or TimeDomain.REAL_TIME."
            )
        yield from doc_problems(self.doc, f"The timer {self.name!r}")

    def describe(self) -> dict[str, object]:
        """What a manifest records about this timer."""
        return with_doc({"name": self.name, "time_domain": self.time_domain.value}, self.doc)

    def __repr__(self) -> str:
        return f"TimerSpec({self.name})"


def on_timer(spec: TimerSpec) -> Callable[[F], F]:
    """Makes a method the callback of a timer. May be stacked, so that several timers call one method."""

    def decorate(method: F) -> F:
        # Kept even if it is not a TimerSpec: the step's validation reports that, with everything else it finds.
        setattr(method, _MARK, (*getattr(method, _MARK, ()), spec))
        if isinstance(spec, TimerSpec):
            spec.decorated.append((method.__module__, method.__qualname__))
        return method

    return decorate


def timers_of(method: object) -> tuple[Any, ...]:
    """What the method was decorated with."""
    marks: tuple[Any, ...] = getattr(method, _MARK, ())
    return marks
