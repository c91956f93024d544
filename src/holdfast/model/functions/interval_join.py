"""The join of two streams by key and time: a row of the left meets the rows of the right that are near it in time.

Invariants, for each key
- A row is kept only while a row that is not late can still meet it: until the watermark is beyond the last time such a
  row could have.
- `…_alone` has the times of kept rows that have met no other row. Which rows a row meets depends only on its key and
  time, so all rows with the same time share one entry.
- If anything is kept, the timer is set no later than the first time at which something can be dropped. `horizon` has what
  it is set to, first of what may be several numbers: earlier versions kept more.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Literal, NamedTuple, Protocol

from holdfast.errors import HoldfastError, InputError
from holdfast.model.coders import BooleanCoder
from holdfast.model.functions.dofn import DoFn, Grouped, GroupedDoFn
from holdfast.model.present import current_clocks
from holdfast.model.state.specs import OrderedListState, OrderedListStateSpec, ValueState, ValueStateSpec
from holdfast.model.time.timers import TimeDomain, Timer, TimerSpec, on_timer
from holdfast.model.time.timestamps import Duration, Timestamp
from holdfast.model.time.units import MAX_MICROS, MIN_MICROS

__all__ = ["IntervalJoin"]

Span = str | float | timedelta | Duration
JoinKind = Literal["inner", "left", "right", "outer", "full"]

_OUTER = {"inner": "", "left": "left", "right": "right", "outer": "left right", "full": "left right"}


class _Rows(Protocol):
    """What an ordered list also has: the same with times in microseconds."""

    def between(self, minimum: int, limit: int) -> list[tuple[int, Any]]: ...

    def keep(self, time: int, value: Any) -> None: ...

    def cut(self, minimum: int, limit: int) -> None: ...

    def first_time(self) -> int | None: ...


class _Side(NamedTuple):
    """One side of a join for the current key: the row at t meets the other side's rows from t + back to t + on."""

    is_left: bool
    rows: _Rows
    alone: _Rows
    is_outer: bool
    """Whether rows without a match are output too."""
    back: int
    on: int


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
        self._known_sides: tuple[_Side, _Side] | None = None

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
        sides = lefts, rights = self._sides(left, right, left_alone, right_alone)
        known, *_ = horizon.read() or (MAX_MICROS,)
        found: list[Any] = []
        clocks = current_clocks()
        watermark = MIN_MICROS if clocks is None else clocks.late
        wake, is_over = known, False
        read, meet = self._read, self._meet
        for value, time in zip(*group, strict=True):
            is_left, row = read(value)
            if is_left:
                meet(key, time, row, lefts, rights, found)
                last = time + lefts.on
            else:
                meet(key, time, row, rights, lefts, found)
                last = time + rights.on
            if last < watermark:
                is_over = True
            elif last < wake:
                wake = last + 1
        if is_over:
            found += self._expire(key, sides, watermark)
        if wake < known:
            self._wake_at(wake, horizon, due)
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
        found = self._expire(key, sides, MAX_MICROS if clocks.final else clocks.watermark)
        firsts = ((side, side.rows.first_time()) for side in sides)
        wakes = [first + side.on + 1 for side, first in firsts if first is not None]
        if wakes:
            self._wake_at(min(wakes), horizon, due)
        else:
            horizon.clear()
        return found

    def _wake_at(self, wake: int, horizon: ValueState[tuple[int, ...]], due: Timer) -> None:
        horizon.write((wake,))
        due.set(_at(wake))

    def _sides(self, left: Any, right: Any, left_alone: Any, right_alone: Any) -> tuple[_Side, _Side]:
        # A runner gives the same cells with each call.
        if self._known_sides is None or self._known_sides[0].rows is not left:
            self._known_sides = (
                _Side(True, left, left_alone, "left" in self._outer, self._lower, self._upper),
                _Side(False, right, right_alone, "right" in self._outer, -self._upper, -self._lower),
            )
        return self._known_sides

    def _meet(self, key: Any, time: int, row: Any, mine: _Side, other: _Side, found: list[Any]) -> None:
        """Outputs a new row with each row it meets, and keeps it."""
        first, limit = time + mine.back, time + mine.on + 1
        met = other.rows.between(first, limit)
        if met:
            if mine.is_left:
                found += [self._row(key, time, row, at, partner) for at, partner in met]
            else:
                found += [self._row(key, at, partner, time, row) for at, partner in met]
            if other.is_outer:
                other.alone.cut(_in_range(first), _in_range(limit))
        elif mine.is_outer and not mine.rows.between(time, time + 1):
            mine.alone.keep(time, True)
        mine.rows.keep(time, row)

    def _expire(self, key: Any, sides: tuple[_Side, _Side], watermark: int) -> list[Any]:
        """Drops the rows that nothing can meet any more, and outputs those without a match."""
        found = []
        for side in sides:
            limit = _in_range(watermark - side.on) if watermark < MAX_MICROS else MAX_MICROS
            if side.is_outer:
                for at, _ in side.alone.between(MIN_MICROS, limit):
                    for _, row in side.rows.between(at, at + 1):
                        pair = (at, row, None, None) if side.is_left else (None, None, at, row)
                        found.append(self._row(key, *pair))
                side.alone.cut(MIN_MICROS, limit)
            side.rows.cut(MIN_MICROS, limit)
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
        """The output for two rows that meet; time, in microseconds, and row of one side may be None."""
        return key, left, right


def _in_range(micros: int) -> int:
    return min(max(micros, MIN_MICROS), MAX_MICROS)


def _at(micros: int) -> Timestamp:
    """The timestamp, or the nearest one in range."""
    return Timestamp._of_micros(_in_range(micros))


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
