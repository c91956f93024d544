"""Placing: which stateful operator each step of a graph is in, and which slot it has there.

Steps that have state stay where it is, as long as every step still comes after those it depends on. A new step goes into an
operator that is there already, if one is at the right place in the line and keeps time as the step needs it. If that cannot
be, all steps are placed anew, and the stored state has to be rearranged. A slot is never given to another step while there
is state under it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from holdfast.checkpoint.labels import SLOTS_MAX
from holdfast.errors import InvalidStep, StateConflict
from holdfast.spark.graph.graph import Graph
from holdfast.spark.steps.lineage import BuiltStep
from holdfast.spark.steps.par_do import time_mode_of

__all__ = ["OperatorPlace", "Place", "Placement", "Stored", "placed"]

_TIME_MODES = ("None", "EventTime", "ProcessingTime")
"""Each can do what those before it can."""


@dataclass(frozen=True)
class Place:
    """Where the state of a step is: the number that Spark gives the operator, and the slot in it."""

    operator: int
    slot: int


@dataclass(frozen=True)
class Stored:
    """Where the state of a checkpoint's steps is, by the names that they have now."""

    places: Mapping[str, Place]
    time_modes: Sequence[str]
    """Of the operators, by their numbers."""


@dataclass(frozen=True)
class OperatorPlace:
    """An operator, and the steps that share it."""

    steps: tuple[BuiltStep, ...]
    time_mode: str


@dataclass(frozen=True)
class Placement:
    """The operators, in the order in which rows pass them, and the slots of the steps.

    Spark counts operators from the end of a query: the last one has the number 0.
    """

    operators: tuple[OperatorPlace, ...]
    slots: dict[BuiltStep, int]
    idle: dict[str, Place] = field(default_factory=dict)
    """Steps that the job no longer has, whose state is kept."""
    is_rearranged: bool = False
    """Whether the stored state is not where it has to be."""

    @property
    def places(self) -> dict[str, Place]:
        """All steps with state, by name."""
        last = len(self.operators) - 1
        own = {
            step.plan.name: Place(last - level, self.slots[step])
            for level, operator in enumerate(self.operators)
            for step in operator.steps
        }
        return own | self.idle


def placed(graph: Graph, stored: Stored | None = None, *, anew: bool = False) -> Placement:
    """Where the steps of a graph are, given where there is state, which `anew` has rearranged in any case. Raises
    StateConflict if the state of two steps would be in one place."""
    slots = _slots(graph, {} if stored is None else stored.places)
    if stored is None:
        return _by_levels(graph, slots, _levels(graph), [])
    idle = {name: place for name, place in stored.places.items() if name not in {step.plan.name for step in graph.steps}}
    levels = None if anew else _kept_levels(graph, stored)
    if levels is not None:
        modes = list(reversed(stored.time_modes))
        return _by_levels(graph, slots, levels, modes, idle)
    return _anew(graph, slots, stored, idle)


def _slots(graph: Graph, places: Mapping[str, Place]) -> dict[BuiltStep, int]:
    taken = {place.slot for place in places.values()}
    free = (slot for slot in count() if slot not in taken)
    slots = {step: places[step.plan.name].slot if step.plan.name in places else next(free) for step in graph.steps}
    if max(slots.values(), default=0) >= SLOTS_MAX:
        raise InvalidStep("job", [f"A job has at most {SLOTS_MAX} steps."])
    return slots


def _levels(graph: Graph) -> dict[BuiltStep, int]:
    """Each step right after those it depends on."""
    levels: dict[BuiltStep, int] = {}
    for step in graph.steps:
        levels[step] = max((levels[above] + 1 for above in graph.upstream[step]), default=0)
    return levels


def _kept_levels(graph: Graph, stored: Stored) -> dict[BuiltStep, int] | None:
    """The levels of the steps if those with state stay where they are; None if they cannot."""
    last = len(stored.time_modes) - 1
    fixed = {step: last - stored.places[step.plan.name].operator for step in graph.steps if step.plan.name in stored.places}
    latest: dict[BuiltStep, int] = {}
    for step in reversed(graph.steps):
        below = [latest[other] - 1 for other in graph.steps if step in graph.upstream[other]]
        latest[step] = min([*below, fixed.get(step, last)])
    levels: dict[BuiltStep, int] = {}
    for step in graph.steps:
        first = max((levels[above] + 1 for above in graph.upstream[step]), default=0)
        allowed = range(first, latest[step] + 1)
        possible = [level for level in allowed if _suffices(stored.time_modes[last - level], step)]
        if step in fixed:
            possible = [level for level in possible if level == fixed[step]]
        if not possible:
            return None
        levels[step] = possible[0]
    return levels


def _suffices(time_mode: str, step: BuiltStep) -> bool:
    return _TIME_MODES.index(time_mode) >= _TIME_MODES.index(time_mode_of([step.plan]))


def _anew(graph: Graph, slots: dict[BuiltStep, int], stored: Stored, idle: Mapping[str, Place]) -> Placement:
    """All steps placed as if for the first time; idle ones as near to where they were as there are operators."""
    levels = _levels(graph)
    last, before = max(levels.values(), default=0), len(stored.time_modes) - 1
    moved = {name: Place(last - min(before - place.operator, last), place.slot) for name, place in idle.items()}
    modes = ["None"] * (last + 1)
    for name, place in moved.items():
        level = last - place.operator
        modes[level] = _most([modes[level], stored.time_modes[idle[name].operator]])
    for step, level in levels.items():
        modes[level] = _most([modes[level], time_mode_of([step.plan])])
    placement = _by_levels(graph, slots, levels, modes, moved, is_rearranged=True)
    _check_apart(placement.places)
    return placement


def _most(time_modes: Iterable[str]) -> str:
    return max(time_modes, key=_TIME_MODES.index)


def _check_apart(places: Mapping[str, Place]) -> None:
    for name, place in places.items():
        others = [other for other, its in places.items() if other < name and its == place]
        if others:
            raise StateConflict(
                f"The steps {others[0]!r} and {name!r} would have their state in one place of the checkpoint.",
                detail="They were written by a job in which one followed the other, and now neither does.",
                todo="export the state of one of them, drop it, and import it into a new checkpoint",
            )


def _by_levels(
    graph: Graph,
    slots: dict[BuiltStep, int],
    levels: Mapping[BuiltStep, int],
    time_modes: Sequence[str],
    idle: Mapping[str, Place] | None = None,
    *,
    is_rearranged: bool = False,
) -> Placement:
    count = len(time_modes) or max(levels.values(), default=-1) + 1
    operators = []
    for level in range(count):
        steps = tuple(step for step in graph.steps if levels[step] == level)
        mode = time_modes[level] if time_modes else time_mode_of([step.plan for step in steps])
        operators.append(OperatorPlace(steps, mode))
    return Placement(tuple(operators), slots, dict(idle or {}), is_rearranged)
