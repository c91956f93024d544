"""The join of two streams by key and time: a row of the left meets the rows of the right that are near it in time.

Invariants, for each key
- A row is kept only while a row that is not late can still meet it: until the watermark is beyond the last time such a
  row could have.
- `…_alone` has the times of kept rows that have met no other row. Which rows a row meets depends only on its key and
  time, so all rows with the same time share one entry.
- If anything is kept, the timer is set no later than the first time at which something can be dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Literal, NamedTuple

from holdfast.errors import HoldfastError, InputError
from holdfast.model.coders import BooleanCoder
from holdfast.model.functions.dofn import DoFn, Grouped, GroupedDoFn
from holdfast.model.present import current_clocks
from holdfast.model.state.specs import OrderedListState, OrderedListStateSpec, ValueState, ValueStateSpec
from holdfast.model.time.timers import TimeDomain, Timer, TimerSpec, on_timer
from holdfast.model.time.timestamps import MIN_TIMESTAMP, Duration, Timestamp
from holdfast.model.time.units import MAX_MICROS, MIN_MICROS, SECOND

__all__ = ["IntervalJoin"]

Span = str | float | timedelta | Duration
JoinKind = Literal["inner", "left", "right", "outer", "full"]

_OUTER = {"inner": "", "left": "left", "right": "right", "outer": "left right", "full": "left right"}


class _Side(NamedTuple):
    """One side of a join for the current key: the row at t meets the other side's rows from t + back to t + on."""

    is_left: bool
    rows: OrderedListState[Any]
    alone: OrderedListState[bool]
    is_outer: bool
    """Whether rows without a match are output too."""
    back: int
    on: int


class _Horizon(NamedTuple):
    """What is known about the kept rows without reading them, in microseconds."""

    wake: int
    """What the timer is set to."""
    last_left: int
    last_right: int


class IntervalJoin(GroupedDoFn):
    """Joins the elements `(key, ("left", row))` and `(key, ("right", row))` that are near each other in event time.

    `within` is a duration, or a pair (lower, upper): a right row meets a left row if its time is from left time + lower
    to left time + upper, both included. The outputs are (key, left row, right row). With `how` "left", "right" or
    "outer", a row of that side, or of either, without a match is output with None for the other, once the watermark is
    past the last time a match could have. State is bounded by the watermark.

    A late row still meets the rows that are kept. If its matches are gone, it is output alone, or not at all.
    """

    LEFT = OrderedListStateSpec("left")
    RIGHT = OrderedListStateSpec("right")
    LEFT_ALONE = OrderedListStateSpec("left_alone", BooleanCoder())
    RIGHT_ALONE = OrderedListStateSpec("right_alone", BooleanCoder())
    HORIZON = ValueStateSpec("horizon")
    DUE = TimerSpec("due", TimeDomain.WATERMARK)

    def __init__(self, within: Span | tuple[Span, Span], how: JoinKind = "inner") -> None:
        self._problems: list[str] = []
        self._lower, self._upper = _bounds(within, self._problems)
        if how not in _OUTER:
            self._problems.append(f"how is {how!r}; it can be 'inner', 'left', 'right' or 'outer'.")
        self._outer = _OUTER.get(how, "").split()

    def declaration_problems(self) -> list[str]:
        return self._problems

    def state_parameters(self) -> dict[str, object]:
        how = {(): "inner", ("left",): "left", ("right",): "right"}.get(tuple(self._outer), "outer")
        return {"how": how, "within_micros": [self._lower, self._upper]}

    def process(
        self,
        element: tuple[object, Grouped],
        left: OrderedListState[object] = DoFn.StateParam(LEFT),
        right: OrderedListState[object] = DoFn.StateParam(RIGHT),
        left_alone: OrderedListState[bool] = DoFn.StateParam(LEFT_ALONE),
        right_alone: OrderedListState[bool] = DoFn.StateParam(RIGHT_ALONE),
        horizon: ValueState[tuple[int, ...]] = DoFn.StateParam(HORIZON),
        due: Timer = DoFn.TimerParam(DUE),
    ) -> list[object]:
        key, group = element
        sides = self._sides(left, right, left_alone, right_alone)
        wake, *last = horizon.read() or (MAX_MICROS, MIN_MICROS, MIN_MICROS)
        found: list[Any] = []
        clocks = current_clocks()
        watermark = MIN_MICROS if clocks is None else clocks.late
        is_over = False
        for value, time in zip(*group, strict=True):
            is_left, row = self._read(value)
            mine, other = sides if is_left else sides[::-1]
            self._meet(key, time, row, mine, other, found)
            if time + mine.on < watermark:
                is_over = True
            else:
                wake = min(wake, time + mine.on + 1)
            side = 0 if is_left else 1
            last[side] = max(last[side], time)
        if is_over:
            found += self._expire(key, sides, watermark)
        if wake < MAX_MICROS:
            horizon.write((wake, *last))
            due.set(_at(wake))
        return found

    @on_timer(DUE)
    def on_due(
        self,
        key: object = DoFn.KeyParam,
        left: OrderedListState[object] = DoFn.StateParam(LEFT),
        right: OrderedListState[object] = DoFn.StateParam(RIGHT),
        left_alone: OrderedListState[bool] = DoFn.StateParam(LEFT_ALONE),
        right_alone: OrderedListState[bool] = DoFn.StateParam(RIGHT_ALONE),
        horizon: ValueState[tuple[int, ...]] = DoFn.StateParam(HORIZON),
        due: Timer = DoFn.TimerParam(DUE),
    ) -> list[object]:
        clocks = current_clocks()
        assert clocks is not None, "a timer fires within a bundle"
        sides = self._sides(left, right, left_alone, right_alone)
        # Everything the watermark has passed, in one call, however many times lie between.
        watermark = MAX_MICROS if clocks.final else clocks.watermark
        found = self._expire(key, sides, watermark)
        known = _Horizon(*horizon.read())  # type: ignore[misc]  # a timer that is set has a horizon
        wakes = [
            first + side.on + 1
            for side, last in zip(sides, (known.last_left, known.last_right), strict=True)
            for first in _first(side.rows, watermark - side.on, last)
        ]
        if wakes:
            horizon.write((min(wakes), known.last_left, known.last_right))
            due.set(_at(min(wakes)))
        else:
            horizon.clear()
        return found

    def _sides(self, left: Any, right: Any, left_alone: Any, right_alone: Any) -> tuple[_Side, _Side]:
        return (
            _Side(True, left, left_alone, "left" in self._outer, self._lower, self._upper),
            _Side(False, right, right_alone, "right" in self._outer, -self._upper, -self._lower),
        )

    def _meet(self, key: Any, time: int, row: Any, mine: _Side, other: _Side, found: list[Any]) -> None:
        """Outputs a new row with each row it meets, and keeps it."""
        first, limit = _at(time + mine.back), _at(time + mine.on + 1)
        now = _at(time)
        met = other.rows.read_range(first, limit)
        if mine.is_left:
            found += [self._row(key, now, row, at, partner) for at, partner in met]
        else:
            found += [self._row(key, at, partner, now, row) for at, partner in met]
        if met and other.is_outer:
            other.alone.clear_range(first, limit)
        if not met and mine.is_outer and not mine.rows.read_range(now, now.successor()):
            mine.alone.add((now, True))
        mine.rows.add((now, row))

    def _expire(self, key: Any, sides: tuple[_Side, _Side], watermark: int) -> list[Any]:
        """Drops the rows that nothing can meet any more, and outputs those without a match."""
        found = []
        for side in sides:
            limit = _at(watermark - side.on) if watermark < MAX_MICROS else _at(MAX_MICROS)
            if side.is_outer:
                for at, _ in side.alone.read_range(MIN_TIMESTAMP, limit):
                    for _, row in side.rows.read_range(at, at.successor()):
                        pair = (at, row, None, None) if side.is_left else (None, None, at, row)
                        found.append(self._row(key, *pair))
                side.alone.clear_range(MIN_TIMESTAMP, limit)
            side.rows.clear_range(MIN_TIMESTAMP, limit)
        return found

    def _read(self, value: Any) -> tuple[bool, Any]:
        """Whether an element's value belongs to the left side, and its row."""
        try:
            side, row = value
        except (TypeError, ValueError):
            side = row = None
        if side not in ("left", "right"):
            raise InputError(
                f"A join takes elements (key, (side, row)); it was given the value {value!r:.200}.",
                todo="name the side of the row: (key, ('left', row)) or (key, ('right', row))",
            )
        return side == "left", row

    def _row(self, key: Any, left_time: Any, left: Any, right_time: Any, right: Any) -> Any:
        """The output for two rows that meet; time and row of one side may be None."""
        return key, left, right


def _first(rows: OrderedListState[Any], start: int, last: int) -> Iterator[int]:
    """The time of the first row at or after `start`, if any, without reading rows far after it. No row is after `last`."""
    span = SECOND
    while start <= last:
        found = rows.read_range(_at(start), _at(start + span))
        if found:
            yield found[0][0].micros
            return
        start, span = start + span, span * 4


def _at(micros: int) -> Timestamp:
    """The timestamp, or the nearest one in range."""
    return Timestamp._of_micros(min(max(micros, MIN_MICROS), MAX_MICROS))


def _bounds(within: Any, problems: list[str]) -> tuple[int, int]:
    """Lower and upper bound in microseconds."""
    is_pair = isinstance(within, (tuple, list))
    given = list(within) if is_pair else [within]
    if is_pair and len(given) != 2:
        problems.append(f"within is {within!r}; give a duration, or a pair (lower, upper).")
        return 0, 0
    spans = [span for bound in given for span in _span(bound, problems)]
    if len(spans) != len(given):
        return 0, 0
    if not is_pair and spans[0] < 0:
        problems.append(f"within is {within!r}; a single duration cannot be negative, only a pair (lower, upper) can.")
    if is_pair and spans[0] > spans[1]:
        problems.append(f"within is {within!r}; the lower bound is above the upper one, so nothing would ever meet.")
    return (spans[0], spans[1]) if is_pair else (-spans[0], spans[0])


def _span(bound: Any, problems: list[str]) -> Iterator[int]:
    try:
        if isinstance(bound, str) and bound.strip().startswith("-"):
            yield -Duration.of(bound.strip()[1:]).micros
        else:
            yield Duration.of(bound).micros
    except (HoldfastError, TypeError, ValueError) as refused:
        what = refused.what if isinstance(refused, HoldfastError) else str(refused)
        problems.append(f"within has {bound!r}, which is not a duration: {what} Write '10 minutes', or seconds.")
