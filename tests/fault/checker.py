"""The checker: whether the rows in a sink are those that the history of a run calls for.

It says true, false or unknown. Unknown is what cannot be judged: a run that did not end, one that was not disturbed as
often as it should have been, a checker that crashed. Only true is a pass.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from .oracle import Row

__all__ = ["UNKNOWN", "History", "Verdict", "check"]

UNKNOWN = "unknown"
_SHOWN_MAX = 8


@dataclass
class History:
    """What was done to a run, in order: (seconds, what, detail)."""

    faults_wanted: int = 0
    events: list[tuple[float, str, str]] = field(default_factory=list)
    ended: bool = False
    _began: float = field(default_factory=time.monotonic)

    def note(self, what: str, detail: str = "") -> None:
        self.events.append((round(time.monotonic() - self._began, 2), what, detail))
        print(f"{self.events[-1][0]:8.2f}  {what:8} {detail}", flush=True)

    @property
    def faults(self) -> int:
        return sum(what == "kill" for _, what, _ in self.events)


@dataclass(frozen=True)
class Verdict:
    """`valid` is True, False or UNKNOWN; `problems` says why it is not True."""

    valid: bool | str
    problems: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.valid is True

    def __str__(self) -> str:
        return "\n".join([f"valid: {self.valid}", *(f"- {problem}" for problem in self.problems)])


def check(history: History, read: Callable[[], Iterable[Row]], expected: Callable[[], Iterable[Row]]) -> Verdict:
    """The verdict on a run: `read` gives the rows of its sink, `expected` those of the oracle."""
    doubts = list(_doubts(history))
    try:
        problems = list(_differences(list(read()), list(expected())))
    except Exception as error:
        return Verdict(UNKNOWN, (*doubts, f"the checker crashed: {type(error).__name__}: {error}"))
    if doubts:
        # Rows may be missing for no fault of the job's; but what is there too often is wrong at any time.
        return Verdict(UNKNOWN, (*doubts, *problems))
    return Verdict(not problems, tuple(problems))


def _doubts(history: History) -> Iterable[str]:
    if not history.ended:
        yield "the run did not come to its end"
    if history.faults < history.faults_wanted:
        yield f"only {history.faults} of {history.faults_wanted} faults happened"


def _differences(rows: list[Row], expected: list[Row]) -> Iterable[str]:
    if not expected:
        raise ValueError("the oracle gives no rows at all, so that an empty sink would pass")
    have, want = Counter(rows), Counter(expected)
    by_place: dict[Any, list[Row]] = defaultdict(list)
    for row in have - want:
        by_place[_place(row)].append(row)
    wrong, missing = [], []
    for row in sorted((want - have).elements()):
        others = by_place.get(_place(row))
        if others:
            wrong.append(f"{row} came as {others.pop()}")
        else:
            missing.append(str(row))
    doubled = [f"{row} is there {have[row]} times" for row in sorted(have) if have[row] > want[row] > 0]
    strange = [str(row) for left in by_place.values() for row in left if row not in want]
    yield from _some("missing", missing)
    yield from _some("doubled", doubled)
    yield from _some("wrong", wrong)
    yield from _some("unexpected", strange)


def _place(row: Row) -> Any:
    """Key, event, life and count: which row it is, whatever the state behind it."""
    return row[:4]


def _some(kind: str, found: list[str]) -> Iterable[str]:
    for problem in found[:_SHOWN_MAX]:
        yield f"{kind}: {problem}"
    if len(found) > _SHOWN_MAX:
        yield f"{kind}: {len(found) - _SHOWN_MAX} more"
