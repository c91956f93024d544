"""State machines: what a key may go through, as a table of transitions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

import holdfast as hf
from holdfast.recipes.arguments import Arguments, Recipe, Span
from holdfast.recipes.rows import read

__all__ = ["StateMachine"]


class StateMachine(Recipe):
    """Moves each key from state to state: (key, state before, event, state after) for each event.

    `transitions` says what follows: {(state, event): next state}. The event is the text in the field `event`, or the value
    itself. A key begins in the state `initial`. A state that nothing leads out of is final. An event that the table does not
    have for the present state is an InputError with `unexpected="fail"`, which stops the job or makes a dead letter; with
    "ignore" it changes nothing and nothing comes out.

    Keeps for each key and window: the name of its state, and the time of the event that led there.

    Frees it: when it reaches a final state, after which the next event finds the key in `initial` again; and if you give
    `forget_after`, when the watermark is so far beyond the last event that moved it.

    Order: by event time, so the step needs `requires_time_sorted_input=True`. Late events go to the output `late`. Of events
    with equal times, the one that arrives first comes first.
    """

    needs_time_sorted_input = True

    STATE = hf.ValueStateSpec(
        "state", hf.TupleCoder([hf.StrUtf8Coder(), hf.TimestampCoder()]), doc="The state of the key, and since when."
    )
    QUIET = hf.TimerSpec("quiet", hf.TimeDomain.WATERMARK)

    def __init__(
        self,
        transitions: Mapping[tuple[str, str], str],
        initial: str,
        *,
        event: str | None = None,
        unexpected: Literal["fail", "ignore"] = "fail",
        forget_after: Span | None = None,
    ) -> None:
        super().__init__()
        check = self._arguments
        self._transitions = _read(transitions, initial, check)
        self._initial = initial
        self._going_on = {before for before, _ in self._transitions}
        self._event = check.optional_field("event", event)
        self._fails = check.choice("unexpected", unexpected, ("fail", "ignore")) == "fail"
        self._forget_after = check.optional_span("forget_after", forget_after)

    def process(
        self,
        element: tuple[object, object],
        at: hf.Timestamp = hf.DoFn.TimestampParam,
        state: hf.ValueState[tuple[str, hf.Timestamp]] = hf.DoFn.StateParam(STATE),
        quiet: hf.Timer = hf.DoFn.TimerParam(QUIET),
    ) -> Iterator[tuple[object, str, str, str]]:
        key, value = element
        event = read(value, self._event)
        known = state.read()
        if known is not None and self._forget_after is not None and at >= known[1] + self._forget_after:
            known = None
        before = self._initial if known is None else known[0]
        after = self._transitions.get((before, event)) if isinstance(event, str) else None
        if after is None:
            if self._fails:
                raise self._unexpected(before, event)
            return
        quiet.clear()
        if after not in self._going_on:
            state.clear()
        else:
            state.write((after, at))
            if self._forget_after is not None:
                quiet.set(at + self._forget_after)
        yield key, before, str(event), after

    @hf.on_timer(QUIET)
    def on_quiet(self, state: hf.ValueState[tuple[str, hf.Timestamp]] = hf.DoFn.StateParam(STATE)) -> None:
        state.clear()

    def _unexpected(self, before: str, event: object) -> hf.InputError:
        known = sorted(expected for state, expected in self._transitions if state == before)
        return hf.InputError(
            f"The event {event!r:.200} came in the state {before!r}, for which the table has no such event.",
            detail=f"In that state it has {', '.join(map(repr, known))}."
            if known
            else "The table does not have that state.",
            todo="Add it to the table, or give unexpected='ignore', or on_error='dead_letter' to the step.",
        )


def _read(transitions: object, initial: object, check: Arguments) -> dict[tuple[str, str], str]:
    """The table, if it is one; every state of it can be reached."""
    if not isinstance(transitions, Mapping) or not transitions:
        check.problems.append(f"transitions is {transitions!r:.200}; it must be a dict {{(state, event): next state}}.")
        return {}
    table: dict[tuple[str, str], str] = {}
    for pair, after in transitions.items():
        names = (*pair, after) if isinstance(pair, tuple) else (pair, after)
        if len(names) != 3 or not all(isinstance(name, str) and name for name in names):
            check.problems.append(
                f"transitions has {pair!r}: {after!r}; it must be (state, event): next state, three texts."
            )
        else:
            table[pair] = after
    if not check.problems:
        _check_reach(table, initial, check)
    return table


def _check_reach(table: dict[tuple[str, str], str], initial: object, check: Arguments) -> None:
    states = {before for before, _ in table}
    if initial not in states:
        check.problems.append(
            f"initial is {initial!r}; nothing leads out of it. There is {', '.join(map(repr, sorted(states)))}."
        )
        return
    reached, found = set[object](), {initial}
    while found:
        reached |= found
        found = {after for (before, _), after in table.items() if before in found} - reached
    lost = sorted(states - reached)
    if lost:
        check.problems.append(
            f"transitions leads out of {', '.join(map(repr, lost))}, but from {initial!r} nothing leads there."
        )
