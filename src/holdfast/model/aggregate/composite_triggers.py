"""Triggers made of other triggers, in parallel or in sequence."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from holdfast.errors import InvalidStep
from holdfast.model.aggregate.triggers import Moment, Trigger, Wake, check_parts

__all__ = ["AfterAll", "AfterAny", "AfterEach", "OrFinally"]

States = tuple[tuple[object, bool], ...]
"""For each trigger its state, and whether it has finished."""


class _Several(Trigger):
    """Several triggers at once. The state is a tuple with (state, whether it has finished) for each."""

    def __init__(self, *triggers: Trigger) -> None:
        check_parts(type(self).__name__, triggers)
        if len(triggers) < 2:
            raise InvalidStep("trigger", [f"{type(self).__name__} takes two triggers or more."])
        self.triggers = triggers

    def parts(self) -> Sequence[Trigger]:
        return self.triggers

    def start(self) -> States:
        return tuple((trigger.start(), False) for trigger in self.triggers)

    def on_elements(self, state: States, count: int, at: Moment) -> States:
        return tuple(
            (inner, True) if done else (trigger.on_elements(inner, count, at), False)
            for trigger, (inner, done) in zip(self.triggers, state, strict=True)
        )

    def merge(self, states: Sequence[States]) -> States:
        merged = []
        for trigger, parts in zip(self.triggers, zip(*states, strict=True), strict=True):
            open_states = [inner for inner, done in parts if not done]
            merged.append((trigger.merge(open_states), False) if open_states else parts[0])
        return tuple(merged)

    def wake(self, state: States, at: Moment) -> Wake:
        wake = Wake()
        for trigger, (inner, done) in zip(self.triggers, state, strict=True):
            if not done:
                wake = wake.sooner(trigger.wake(inner, at))
        return wake

    def _ready(self, state: States, at: Moment) -> list[bool]:
        return [
            not done and trigger.should_fire(inner, at) for trigger, (inner, done) in zip(self.triggers, state, strict=True)
        ]

    def _fired(self, state: States, at: Moment) -> States:
        """Fires those that are ready."""
        ready = self._ready(state, at)
        return tuple(
            trigger.on_fire(inner, at) if is_ready else (inner, done)
            for trigger, (inner, done), is_ready in zip(self.triggers, state, ready, strict=True)
        )

    def describe(self) -> dict[str, object]:
        return {"id": type(self).__name__, "triggers": [trigger.describe() for trigger in self.triggers]}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.triggers))})"


class AfterAny(_Several):
    """Once any of the triggers fires."""

    def should_fire(self, state: States, at: Moment) -> bool:
        return any(self._ready(state, at))

    def on_fire(self, state: States, at: Moment) -> tuple[States, bool]:
        fired = self._fired(state, at)
        return fired, True

    def finishes(self, allowed_lateness: int) -> str | None:
        return f"{self!r} fires once"


class AfterAll(_Several):
    """Once all of the triggers are ready to fire."""

    def should_fire(self, state: States, at: Moment) -> bool:
        return all(self._ready(state, at))

    def on_fire(self, state: States, at: Moment) -> tuple[States, bool]:
        return self._fired(state, at), True

    def finishes(self, allowed_lateness: int) -> str | None:
        return f"{self!r} fires once"


class AfterEach(_Several):
    """One trigger after another: each begins when the one before has finished."""

    def _present(self, state: States) -> int:
        return next((position for position, (_, done) in enumerate(state) if not done), len(state) - 1)

    def on_elements(self, state: States, count: int, at: Moment) -> States:
        return self._changed(state, lambda trigger, inner: (trigger.on_elements(inner, count, at), False))

    def should_fire(self, state: States, at: Moment) -> bool:
        position = self._present(state)
        inner, done = state[position]
        return not done and self.triggers[position].should_fire(inner, at)

    def on_fire(self, state: States, at: Moment) -> tuple[States, bool]:
        state = self._changed(state, lambda trigger, inner: trigger.on_fire(inner, at))
        return state, all(done for _, done in state)

    def wake(self, state: States, at: Moment) -> Wake:
        position = self._present(state)
        inner, done = state[position]
        return Wake() if done else self.triggers[position].wake(inner, at)

    def _changed(self, state: States, change: Callable[[Trigger, object], tuple[object, bool]]) -> States:
        position = self._present(state)
        inner, done = state[position]
        return state if done else (*state[:position], change(self.triggers[position], inner), *state[position + 1 :])

    def finishes(self, allowed_lateness: int) -> str | None:
        reasons = [trigger.finishes(allowed_lateness) for trigger in self.triggers]
        return None if None in reasons else f"{self!r} ends with its last trigger"


class OrFinally(_Several):
    """The first trigger, until the second one fires and gives the last pane."""

    def __init__(self, body: Trigger, exit_trigger: Trigger) -> None:
        super().__init__(body, exit_trigger)

    def should_fire(self, state: States, at: Moment) -> bool:
        return any(self._ready(state, at))

    def on_fire(self, state: States, at: Moment) -> tuple[States, bool]:
        leaves = self._ready(state, at)[1]
        state = self._fired(state, at)
        return state, leaves or state[0][1]

    def finishes(self, allowed_lateness: int) -> str | None:
        return f"{self!r} ends with its second trigger"
