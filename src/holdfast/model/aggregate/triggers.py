"""Triggers: when a grouping gives a result for a key and window, and how often.

A trigger is a plain description without state of its own: what it remembers for a key and window is a small value that the
engine keeps beside the accumulator and passes to every call. Order of calls for a window:

    start → { on_elements | merge }* → should_fire → on_fire → …

Triggers are checked once per bundle, after its elements, and whenever a clock has reached what `wake` asked for.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from holdfast.errors import InvalidStep
from holdfast.model.time.timestamps import Duration

__all__ = [
    "AccumulationMode",
    "AfterCount",
    "AfterProcessingTime",
    "AfterWatermark",
    "Always",
    "DefaultTrigger",
    "Moment",
    "Repeatedly",
    "Trigger",
    "Wake",
]


Accumulation = Literal["discarding", "accumulating"]
"""Whether each further result of a window holds only what is new, or everything so far."""


class AccumulationMode:
    """What a pane holds: only what is new since the last pane, or everything in the window so far."""

    DISCARDING: Literal["discarding"] = "discarding"
    ACCUMULATING: Literal["accumulating"] = "accumulating"


class Moment(NamedTuple):
    """The clocks as a trigger sees them, in microseconds."""

    watermark: int
    now: int
    end: int
    """The end of the window."""


class Wake(NamedTuple):
    """When to check a trigger again even if no element arrives, in microseconds; None: never."""

    event: int | None = None
    real: int | None = None

    def sooner(self, other: Wake) -> Wake:
        return Wake(_sooner(self.event, other.event), _sooner(self.real, other.real))


def _sooner(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else min(one, other)


class Trigger(abc.ABC):
    """The contract of a trigger. States are plain values: None, numbers, and tuples of these."""

    @abc.abstractmethod
    def start(self) -> Any:
        """The state of a window that has no element yet."""

    @abc.abstractmethod
    def on_elements(self, state: Any, count: int, at: Moment) -> Any:
        """The state after `count` more elements."""

    @abc.abstractmethod
    def should_fire(self, state: Any, at: Moment) -> bool: ...

    @abc.abstractmethod
    def on_fire(self, state: Any, at: Moment) -> tuple[Any, bool]:
        """The state after a firing that `should_fire` allowed, and whether the trigger has finished and never fires
        again."""

    @abc.abstractmethod
    def merge(self, states: Sequence[Any]) -> Any:
        """The state of a merged window."""

    @abc.abstractmethod
    def wake(self, state: Any, at: Moment) -> Wake:
        """When it may fire because of the clocks alone."""

    @abc.abstractmethod
    def finishes(self, allowed_lateness: int) -> str | None:
        """How it could finish while elements can still arrive, which would be lost; None if it cannot."""

    def parts(self) -> Sequence[Trigger]:
        """The triggers it is made of."""
        return ()

    def uses_processing_time(self) -> bool:
        return any(part.uses_processing_time() for part in self.parts())

    def describe(self) -> dict[str, object]:
        """For a manifest: the state of one trigger means nothing to another."""
        return {"id": type(self).__name__}

    def __eq__(self, other: object) -> bool:
        return self.describe() == other.describe() if isinstance(other, Trigger) else NotImplemented

    def __hash__(self) -> int:
        return hash(repr(self.describe()))


class AfterCount(Trigger):
    """Once at least `count` elements have arrived. The state is their number."""

    def __init__(self, count: int) -> None:
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            raise InvalidStep("trigger", [f"AfterCount takes a whole number of at least 1, not {count!r}."])
        self.count = count

    def start(self) -> int:
        return 0

    def on_elements(self, state: int, count: int, at: Moment) -> int:
        return state + count

    def should_fire(self, state: int, at: Moment) -> bool:
        return state >= self.count

    def on_fire(self, state: int, at: Moment) -> tuple[int, bool]:
        return 0, True

    def merge(self, states: Sequence[int]) -> int:
        return sum(states)

    def wake(self, state: int, at: Moment) -> Wake:
        return Wake()

    def finishes(self, allowed_lateness: int) -> str | None:
        return f"{self!r} fires once"

    def describe(self) -> dict[str, object]:
        return {"id": "AfterCount", "count": self.count}

    def __repr__(self) -> str:
        return f"AfterCount({self.count})"


class AfterProcessingTime(Trigger):
    """`delay` after the first element arrived, in processing time. The state is the time to fire, or None."""

    def __init__(self, delay: Duration | int | float | str = 0) -> None:
        self.delay = Duration.of(delay)
        if self.delay.micros < 0:
            raise InvalidStep("trigger", [f"The delay of AfterProcessingTime is {self.delay!r}; it cannot be negative."])

    def start(self) -> int | None:
        return None

    def on_elements(self, state: int | None, count: int, at: Moment) -> int | None:
        return at.now + self.delay.micros if state is None else state

    def should_fire(self, state: int | None, at: Moment) -> bool:
        return state is not None and at.now >= state

    def on_fire(self, state: int | None, at: Moment) -> tuple[int | None, bool]:
        return None, True

    def merge(self, states: Sequence[int | None]) -> int | None:
        return min((state for state in states if state is not None), default=None)

    def wake(self, state: int | None, at: Moment) -> Wake:
        return Wake(real=state)

    def uses_processing_time(self) -> bool:
        return True

    def finishes(self, allowed_lateness: int) -> str | None:
        return f"{self!r} fires once"

    def describe(self) -> dict[str, object]:
        return {"id": "AfterProcessingTime", "delay_micros": self.delay.micros}

    def __repr__(self) -> str:
        return f"AfterProcessingTime({float(self.delay):g})"


class AfterWatermark(Trigger):
    """When the watermark passes the end of the window; before that whenever `early` fires, after that whenever `late` does.

    Both are repeated. The state is (whether the watermark has passed, the state of the trigger now in use).
    """

    def __init__(self, early: Trigger | None = None, late: Trigger | None = None) -> None:
        check_parts("AfterWatermark", [part for part in (early, late) if part is not None])
        self.early = early
        self.late = late

    def parts(self) -> Sequence[Trigger]:
        return [part for part in (self.early, self.late) if part is not None]

    def start(self) -> tuple[bool, object]:
        return False, self.early.start() if self.early else None

    def _part(self, passed: bool) -> Trigger | None:
        return self.late if passed else self.early

    def on_elements(self, state: tuple[bool, object], count: int, at: Moment) -> tuple[bool, object]:
        passed, inner = state
        if passed and at.watermark < at.end:
            # The window has grown beyond the watermark, which has yet to pass its end.
            passed, inner = self.start()
        part = self._part(passed)
        return passed, part.on_elements(inner, count, at) if part else None

    def should_fire(self, state: tuple[bool, object], at: Moment) -> bool:
        passed, inner = state
        if not passed and at.watermark >= at.end:
            return True
        part = self._part(passed)
        return part is not None and part.should_fire(inner, at)

    def on_fire(self, state: tuple[bool, object], at: Moment) -> tuple[tuple[bool, object], bool]:
        passed, inner = state
        if not passed and at.watermark >= at.end:
            return (True, self.late.start() if self.late else None), self.late is None
        part = self._part(passed)
        assert part is not None
        inner, finished = part.on_fire(inner, at)
        return (passed, part.start() if finished else inner), False

    def merge(self, states: Sequence[tuple[bool, object]]) -> tuple[bool, object]:
        # The merged window has the latest end, so the watermark has passed it only if it has passed all of them.
        passed = all(passed for passed, _ in states)
        part = self._part(passed)
        alike = [inner for other, inner in states if other == passed]
        return passed, part.merge(alike) if part else None

    def wake(self, state: tuple[bool, object], at: Moment) -> Wake:
        passed, inner = state
        part = self._part(passed)
        wake = part.wake(inner, at) if part else Wake()
        return wake if passed else wake.sooner(Wake(event=at.end))

    def finishes(self, allowed_lateness: int) -> str | None:
        if self.late is None and allowed_lateness > 0:
            return f"{self!r} gives nothing for elements within the allowed lateness; add late=AfterCount(1)"
        return None

    def describe(self) -> dict[str, object]:
        return {"id": "AfterWatermark", "early": _described(self.early), "late": _described(self.late)}

    def __repr__(self) -> str:
        parts = [f"{name}={part!r}" for name, part in (("early", self.early), ("late", self.late)) if part]
        return f"AfterWatermark({', '.join(parts)})"


class DefaultTrigger(AfterWatermark):
    """When the watermark passes the end of the window, and again whenever late elements arrive."""

    def __init__(self) -> None:
        super().__init__(late=AfterCount(1))

    def __repr__(self) -> str:
        return "DefaultTrigger()"


class Repeatedly(Trigger):
    """Repeats a trigger: it starts again each time it has finished."""

    def __init__(self, underlying: Trigger) -> None:
        check_parts("Repeatedly", [underlying])
        self.underlying = underlying

    def parts(self) -> Sequence[Trigger]:
        return (self.underlying,)

    def start(self) -> object:
        return self.underlying.start()

    def on_elements(self, state: object, count: int, at: Moment) -> object:
        return self.underlying.on_elements(state, count, at)

    def should_fire(self, state: object, at: Moment) -> bool:
        return self.underlying.should_fire(state, at)

    def on_fire(self, state: object, at: Moment) -> tuple[object, bool]:
        state, finished = self.underlying.on_fire(state, at)
        return (self.underlying.start() if finished else state), False

    def merge(self, states: Sequence[object]) -> object:
        return self.underlying.merge(states)

    def wake(self, state: object, at: Moment) -> Wake:
        return self.underlying.wake(state, at)

    def finishes(self, allowed_lateness: int) -> str | None:
        return None

    def describe(self) -> dict[str, object]:
        return {"id": "Repeatedly", "underlying": self.underlying.describe()}

    def __repr__(self) -> str:
        return f"Repeatedly({self.underlying!r})"


class Always(Trigger):
    """After every bundle with elements. The state is whether there are any."""

    def start(self) -> bool:
        return False

    def on_elements(self, state: bool, count: int, at: Moment) -> bool:
        return True

    def should_fire(self, state: bool, at: Moment) -> bool:
        return state

    def on_fire(self, state: bool, at: Moment) -> tuple[bool, bool]:
        return False, False

    def merge(self, states: Sequence[bool]) -> bool:
        return any(states)

    def wake(self, state: bool, at: Moment) -> Wake:
        return Wake()

    def finishes(self, allowed_lateness: int) -> str | None:
        return None

    def __repr__(self) -> str:
        return "Always()"


def _described(trigger: Trigger | None) -> Any:
    return None if trigger is None else trigger.describe()


def check_parts(owner: str, parts: Sequence[Any]) -> None:
    """Raises InvalidStep for anything that is not a trigger."""
    problems = []
    for part in parts:
        if not isinstance(part, Trigger):
            given = f"the class {part.__name__}" if isinstance(part, type) else repr(part)
            problems.append(f"{owner} takes triggers, such as AfterCount(10), not {given}.")
    if problems:
        raise InvalidStep("trigger", problems)
