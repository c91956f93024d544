"""Group state: a function over all values of a key in a micro-batch, with one state value and one timeout.

It has the shape of Spark's `flatMapGroupsWithState`, built on one value cell and one timer. What a call sees:

    the key has values:           fn(key, values, state)    the pending timeout is cancelled; the call may set a new one
    the key's timeout has passed: fn(key, [], state)        once, with state.hasTimedOut
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from types import GeneratorType
from typing import Any, Generic, Literal, TypeVar

from holdfast.errors import CoderError, GroupStateError, OutputError
from holdfast.model.coders import Coder, StructCoder
from holdfast.model.coders.struct import StructSchema
from holdfast.model.functions.dofn import DoFn, Grouped, GroupedDoFn
from holdfast.model.functions.plain_functions import call_problems, label_of, module_of
from holdfast.model.metrics import Metrics
from holdfast.model.present import BundleClocks, current_clocks
from holdfast.model.state.specs import ValueState, ValueStateSpec
from holdfast.model.time.timers import TimeDomain, Timer, TimerSpec, on_timer
from holdfast.model.time.timestamps import MIN_TIMESTAMP, Duration, Timestamp

__all__ = ["FlatMapGroupsWithState", "GroupState", "GroupStateTimeout", "MapGroupsWithState"]

Span = str | int | timedelta | Duration
When = int | datetime | Timestamp

GroupTimeout = Literal["none", "processing_time", "event_time", "NoTimeout", "ProcessingTimeTimeout", "EventTimeTimeout"]
"""How a group times out; the last three are the values of `GroupStateTimeout`, Spark's and ours."""


class GroupStateTimeout:
    """Spark's names for how a key times out. `timeout=` takes them, and Holdfast's own words."""

    NoTimeout: Literal["NoTimeout"] = "NoTimeout"
    ProcessingTimeTimeout: Literal["ProcessingTimeTimeout"] = "ProcessingTimeTimeout"
    EventTimeTimeout: Literal["EventTimeTimeout"] = "EventTimeTimeout"


_MILLI = 1000
S = TypeVar("S")

_UNREAD: Any = object()
_TIMEOUTS = {
    None: None,
    "none": None,
    "processing_time": TimeDomain.REAL_TIME,
    "event_time": TimeDomain.WATERMARK,
    # The values of Spark's GroupStateTimeout.
    "NoTimeout": None,
    "ProcessingTimeTimeout": TimeDomain.REAL_TIME,
    "EventTimeTimeout": TimeDomain.WATERMARK,
}
_NAMES = {TimeDomain.REAL_TIME: "processing_time", TimeDomain.WATERMARK: "event_time"}


class GroupState(Generic[S]):
    """The state of the current call's key, with Spark's names. Do not keep it beyond the call.

    Plain numbers are milliseconds, as in Spark, in what it takes and in what ends with `Ms`. A timeout lasts until the
    next call, which has to set it again.
    """

    __slots__ = ("_cell", "_clocks", "_domain", "_kept", "_timed_out", "_timer")

    def __init__(
        self, cell: ValueState[S], timer: Timer | None, domain: TimeDomain | None, clocks: BundleClocks, timed_out: bool
    ) -> None:
        self._cell = cell
        self._timer = timer
        self._domain = domain
        self._clocks = clocks
        self._timed_out = timed_out
        # What `exists` read, for the `get` that usually follows: a value is decoded only once.
        self._kept: S | None = _UNREAD

    @property
    def exists(self) -> bool:
        """Whether there is a value."""
        self._kept = self._read()
        return self._kept is not None

    @property
    def get(self) -> S:
        """The value; an error if there is none. Changes made in place are not stored until you pass it to `update`."""
        value = self._read()
        if value is None:
            raise GroupStateError(
                "state.get found no value for the key.",
                todo="check state.exists first, or use state.getOption, which returns None",
            )
        return value

    @property
    def getOption(self) -> S | None:
        """The value, or None if there is none."""
        return self._read()

    def update(self, newValue: S) -> None:
        """Replaces the value."""
        if newValue is None:
            raise GroupStateError(
                "state.update was given None, which means no value.",
                todo="call state.remove() to remove the value, or store something that stands for None",
            )
        self._kept = _UNREAD
        self._cell.write(newValue)

    def remove(self) -> None:
        """Removes the value. A timeout that this call sets, before or after, stays."""
        self._kept = _UNREAD
        self._cell.clear()

    @property
    def hasTimedOut(self) -> bool:
        """Whether this call is due to the key's timeout."""
        return self._timed_out

    def setTimeoutDuration(self, duration: Span) -> None:
        """Times the key out after this much processing time: milliseconds, a text, a timedelta or a Duration."""
        timer = self._timer_of(TimeDomain.REAL_TIME, "setTimeoutDuration")
        micros = _span_micros(duration)
        if micros <= 0:
            raise GroupStateError(f"A timeout cannot be set for {duration!r}.", todo="give a duration longer than zero")
        self._set(timer, self._clocks.now + micros)

    def setTimeoutTimestamp(self, timestamp: When, additionalDuration: Span = 0) -> None:
        """Times the key out once the watermark has passed this time: milliseconds, an aware datetime or a Timestamp.

        `additionalDuration` is added to it. A time before the watermark is an error.
        """
        timer = self._timer_of(TimeDomain.WATERMARK, "setTimeoutTimestamp")
        time = _time_micros(timestamp) + _span_micros(additionalDuration)
        if time <= 0:
            raise GroupStateError(
                f"A timeout cannot be at {timestamp!r}, which is not after 1970.", todo="give the time in milliseconds"
            )
        watermark = self._watermark()
        if not self._at_end() and time < watermark:
            raise GroupStateError(
                f"A timeout cannot be at {Timestamp(micros=time)}, before the watermark at {Timestamp(micros=watermark)}.",
                todo="set it relative to state.getCurrentWatermarkMs(), or add a longer duration",
            )
        # A timeout is due when the watermark is beyond its time, a timer as soon as it is reached.
        self._set(timer, time + 1)

    def getCurrentProcessingTimeMs(self) -> int:
        """The time of the micro-batch, in milliseconds since 1970; a replay sees the same time."""
        return self._clocks.now // _MILLI

    def getCurrentWatermarkMs(self) -> int:
        """The watermark that lateness was judged by in this call, in milliseconds since 1970; 0 if there is none yet."""
        watermark = self._watermark()
        return 0 if watermark <= MIN_TIMESTAMP.micros else watermark // _MILLI

    def getCurrentProcessingTime(self) -> Timestamp:
        """The same as a `Timestamp`, which fits a column for timestamps; a number of milliseconds would not."""
        return Timestamp(micros=self.getCurrentProcessingTimeMs() * _MILLI)

    def getCurrentWatermark(self) -> Timestamp:
        """The same as a `Timestamp`; that of 1970 if there is none yet."""
        return Timestamp(micros=self.getCurrentWatermarkMs() * _MILLI)

    def _read(self) -> S | None:
        kept, self._kept = self._kept, _UNREAD
        return self._cell.read() if kept is _UNREAD else kept

    def _watermark(self) -> int:
        # Values from another step of the query may be behind the watermark without being late.
        return self._clocks.watermark if self._timed_out else self._clocks.late

    def _at_end(self) -> bool:
        """Whether the input has ended: then every timeout passes, once."""
        return self._timed_out and self._clocks.final

    def _set(self, timer: Timer, micros: int) -> None:
        if not self._at_end():
            timer.set(Timestamp(micros=micros))

    def _timer_of(self, wanted: TimeDomain, method: str) -> Timer:
        if self._timer is None or self._domain is not wanted:
            has = "none" if self._domain is None else _NAMES[self._domain]
            raise GroupStateError(
                f"state.{method} needs the timeout {_NAMES[wanted]!r}, but this step has {has!r}.",
                todo=f"build the step with timeout={_NAMES[wanted]!r}, or set the timeout with the other method",
            )
        return self._timer

    def __repr__(self) -> str:
        value = self.getOption
        return f"GroupState({'<undefined>' if value is None else repr(value)})"


def _span_micros(span: Any) -> int:
    if isinstance(span, int) and not isinstance(span, bool):
        return span * _MILLI
    if isinstance(span, (str, timedelta, Duration)):
        return Duration.of(span).micros
    raise GroupStateError(
        f"A duration cannot be made of {span!r}.", todo="give whole milliseconds, a text such as '5 minutes', or a timedelta"
    )


def _time_micros(when: Any) -> int:
    if isinstance(when, int) and not isinstance(when, bool):
        return when * _MILLI
    if isinstance(when, (datetime, Timestamp)):
        return Timestamp.of(when).micros
    raise GroupStateError(
        f"A time cannot be made of {when!r}.", todo="give whole milliseconds since 1970, an aware datetime or a Timestamp"
    )


class _GroupsWithState(GroupedDoFn):
    """What both functions share. Cell and timer depend on the arguments, so each instance has its own class."""

    method = ""

    def __init__(
        self,
        fn: Callable[[Any, list[Any], GroupState[Any]], object],
        state_schema: StructSchema | None = None,
        timeout: GroupTimeout | None = None,
        *,
        state_coder: Coder[S] | None = None,
    ) -> None:
        self._fn: Callable[..., object] = fn
        self._problems = [*call_problems(fn, self.method, ("key", "values", "state")), *_timeout_problems(timeout)]
        if state_schema is not None:
            state_coder = self._schema_coder(state_schema, state_coder)
        spec: ValueStateSpec[S] = ValueStateSpec("state") if state_coder is None else ValueStateSpec("state", state_coder)
        domain = None if self._problems else _TIMEOUTS[timeout]
        base = type(self)
        self.__class__ = _without_timeout(base, spec) if domain is None else _with_timeout(base, spec, domain)
        self.__class__.__name__ = base.__name__

    def _schema_coder(self, schema: Any, state_coder: Coder[S] | None) -> Coder[Any] | None:
        """The coder for a schema; what is wrong with it goes to the problems."""
        if state_coder is not None:
            self._problems.append("state_schema and state_coder both say how the state is stored: give one of them.")
        elif not callable(getattr(schema, "jsonValue", None)):
            self._problems.append(f"state_schema is {schema!r:.200}; give a StructType.")
        else:
            try:
                return StructCoder(schema)
            except CoderError as refused:
                self._problems += [f"The state_schema cannot be used: {line}" for line in refused.detail.splitlines()]
        return state_coder

    def declaration_problems(self) -> Iterable[str]:
        return self._problems

    @property
    def code_modules(self) -> list[str]:
        return [module_of(self._fn)]

    def default_label(self) -> str:
        return label_of(self._fn, self.method)

    def _rows(self, key: Any, values: list[Any], state: GroupState[Any]) -> Iterable[Any] | None:
        """Calls the function and returns its rows."""
        raise NotImplementedError


def _without_timeout(base: type[_GroupsWithState], spec: ValueStateSpec[Any]) -> type[_GroupsWithState]:
    """The class with its cell."""

    class WithoutTimeout(base):  # type: ignore[valid-type,misc]
        def process(self, element: Any, cell: Any = DoFn.StateParam(spec)) -> Any:
            key, group = element
            return self._rows(key, group.values, GroupState(cell, None, None, _clocks(), False))

    return WithoutTimeout


def _with_timeout(base: type[_GroupsWithState], spec: ValueStateSpec[Any], domain: TimeDomain) -> type[_GroupsWithState]:
    """The class with its cell and its timer."""
    timeout = TimerSpec("timeout", domain)
    is_event_time = domain is TimeDomain.WATERMARK

    class WithTimeout(base):  # type: ignore[valid-type,misc]
        def process(self, element: Any, cell: Any = DoFn.StateParam(spec), timer: Any = DoFn.TimerParam(timeout)) -> Any:
            key, group = element
            clocks = _clocks()
            values = _on_time(group, clocks.late) if is_event_time else group.values
            if not values:
                return None
            timer.clear()
            return self._rows(key, values, GroupState(cell, timer, domain, clocks, False))

        @on_timer(timeout)
        def on_timeout(
            self, key: Any = DoFn.KeyParam, cell: Any = DoFn.StateParam(spec), timer: Any = DoFn.TimerParam(timeout)
        ) -> Any:
            return self._rows(key, [], GroupState(cell, timer, domain, _clocks(), True))

    return WithTimeout


def _clocks() -> BundleClocks:
    clocks = current_clocks()
    assert clocks is not None, "a function is called within a bundle"
    return clocks


def _on_time(group: Grouped, watermark: int) -> list[Any]:
    """The values not older than the watermark. With event-time timeouts, Spark drops the others."""
    if min(group.times) >= watermark:
        return group.values
    kept = [value for value, time in zip(*group, strict=True) if time >= watermark]
    Metrics.counter("group_state", "late").inc(len(group.values) - len(kept))
    return kept


def _timeout_problems(timeout: Any) -> Iterator[str]:
    if not (timeout is None or isinstance(timeout, str)) or timeout not in _TIMEOUTS:
        yield f"timeout is {timeout!r}; it can be None, 'processing_time' or 'event_time'."


class FlatMapGroupsWithState(_GroupsWithState):
    """Calls `fn(key, values, state)` for each key of a micro-batch; it yields rows, or returns an iterable of rows or None.

    `state_schema` is a `StructType` that says what the state has; without one it is any plain value. `timeout` is None,
    "processing_time" or "event_time", or one of `GroupStateTimeout`. `fn` is called once for all values of a
    micro-batch, so take care that its results do not depend on how values are split into micro-batches.
    """

    method = "flat_map_groups_with_state"

    def _rows(self, key: Any, values: list[Any], state: GroupState[Any]) -> Iterable[Any] | None:
        rows: Any = self._fn(key, values, state)
        if rows is None or type(rows) is GeneratorType:
            return rows
        if isinstance(rows, (str, bytes, dict)) or not isinstance(rows, Iterable):
            kind = type(rows).__name__
            raise OutputError(
                f"{self.default_label()} returned a {kind}; flat_map_groups_with_state takes an iterable of rows, or None.",
                detail=f"It returned {rows!r:.200}",
                todo="yield the row, or return it in a list: return [row]",
            )
        return rows


class MapGroupsWithState(_GroupsWithState):
    """Calls `fn(key, values, state)` for each key of a micro-batch; it returns exactly one row, even on a timeout."""

    method = "map_groups_with_state"

    def _rows(self, key: Any, values: list[Any], state: GroupState[Any]) -> Iterable[Any] | None:
        row: Any = self._fn(key, values, state)
        if row is None or isinstance(row, Iterator):
            gave = "no row" if row is None else "an iterator"
            raise OutputError(
                f"{self.default_label()} gave {gave}; map_groups_with_state takes exactly one row from each call.",
                todo="return one row, or use flat_map_groups_with_state, which takes any number of rows",
            )
        return (row,)
