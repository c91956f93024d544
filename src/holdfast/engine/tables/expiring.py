"""Cells with a time to live: a cell of any kind, wrapped so that every call checks and records the last touch."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from holdfast.engine.tables.base import Cell, Focus, Undo
from holdfast.engine.tables.value import value_cell
from holdfast.model.coders import VarIntCoder
from holdfast.model.state.methods import cell_methods
from holdfast.model.state.specs import State, StateSpec, ValueStateSpec
from holdfast.model.state.ttl import Ttl, lump
from holdfast.model.time.timestamps import MIN_TIMESTAMP

__all__ = ["NEVER_TOUCHED", "TtlClock", "expiring_cell", "stamp_name", "stamp_spec"]

NEVER_TOUCHED = MIN_TIMESTAMP.micros
"""The stamp of a touch at an unknown time."""

_READS = frozenset({"contains", "get", "items", "keys", "read", "read_range", "values"})


def stamp_spec(spec: StateSpec[State]) -> ValueStateSpec[Any]:
    """The hidden cell with the time of the last touch, in microseconds."""
    return ValueStateSpec(stamp_name(spec.name), VarIntCoder())


def stamp_name(cell: str) -> str:
    return f"~ttl:{cell}"


class TtlClock:
    """The times of the current bundle and call, and how many expired cells it found."""

    __slots__ = ("expired", "present", "real", "watermark")

    def __init__(self) -> None:
        self.real = 0
        self.watermark = NEVER_TOUCHED
        self.present = NEVER_TOUCHED
        """The event time of the current call's element or timer."""
        self.expired = 0

    def touched(self, ttl: Ttl) -> int:
        """The time of a touch in the current call."""
        return max(self.watermark, self.present) if ttl.in_event_time else self.real

    def now(self, ttl: Ttl) -> int:
        return self.watermark if ttl.in_event_time else self.real

    def count(self, by: int) -> None:
        self.expired += by


class _Expiring:
    """What all wrapped cells share. `enter` tells the index about a key that had no stamp before."""

    def __init__(self, inner: Cell[Any], stamps: Any, ttl: Ttl, clock: TtlClock, focus: Focus, undo: Undo | None) -> None:
        self._inner = inner
        self._stamps = stamps
        self.ttl = ttl
        self._micros = ttl.micros
        self._grain = ttl.grain
        self._clock = clock
        self._focus = focus
        self._undo = undo
        self._hides = ttl.expired == "never"
        self._on_read = ttl.refresh == "read"
        self._enter: Callable[[Any, int], None] = lambda slot, time: None

    def attach(self, table: Any) -> None:
        self._inner.attach(table)
        self._table = table

    def attach_stamps(self, table: Any, enter: Callable[[Any, int], None]) -> None:
        self._stamps.attach(table)
        self._enter = enter

    def has_expired(self) -> bool:
        stamp = self._stamps.read()
        if stamp is None or stamp == NEVER_TOUCHED:
            return False
        return bool(stamp + self._micros <= self._clock.now(self.ttl))

    def expire(self) -> None:
        """Empties the cell of the key in focus because it has expired."""
        self._inner.clear()
        self._stamps.clear()
        self._clock.count(1)
        if self._undo is not None:
            self._undo.add(self._clock.count, -1)

    def clear(self) -> None:
        self._inner.clear()
        self._stamps.clear()

    def touch(self) -> None:
        if self._focus.key not in self._table.values:
            self._stamps.clear()
            return
        now = self._clock.touched(self.ttl)
        if now != NEVER_TOUCHED:
            now += -now % self._grain
        stamp = self._stamps.read()
        if stamp is None or stamp < now:
            self._stamps.write(now)
        if stamp is None:
            self._enter(self._focus.key, lump(now + self._micros, self._micros))

    def _before_read(self) -> None:
        if not (self._hides or self._on_read):
            return
        if self.has_expired():
            # One that may still be seen is on its way out: a read does not bring it back to life.
            if self._hides:
                self.expire()
        elif self._on_read and self._focus.key in self._table.values:
            self.touch()

    def _before_write(self) -> None:
        # Even if expired values may still be returned: what is added now must not keep them alive.
        if self.has_expired():
            self.expire()

    def wrong_use(self, method: str) -> str:
        return self._inner.wrong_use(method)

    def __repr__(self) -> str:
        return repr(self._inner)


def _reader(name: str) -> Callable[..., Any]:
    def read(self: _Expiring, *args: Any, **kwargs: Any) -> Any:
        self._before_read()
        return getattr(self._inner, name)(*args, **kwargs)

    return read


def _writer(name: str) -> Callable[..., Any]:
    def write(self: _Expiring, *args: Any, **kwargs: Any) -> Any:
        self._before_write()
        result = getattr(self._inner, name)(*args, **kwargs)
        self.touch()
        return result

    return write


@lru_cache(maxsize=32)
def _class_for(live: Any, methods: tuple[str, ...]) -> type[_Expiring]:
    made = {name: _reader(name) if name in _READS else _writer(name) for name in methods if name != "clear"}
    return type(f"Expiring{live.__name__}", (_Expiring, live), {**made, "clear": _Expiring.clear})


def expiring_cell(spec: StateSpec[State], inner: Cell[Any], focus: Focus, undo: Undo | None, clock: TtlClock) -> Any:
    """A cell that follows the TTL of its spec."""
    assert spec.ttl is not None
    wrapper = _class_for(spec.live, tuple(cell_methods(spec)))
    return wrapper(inner, value_cell(stamp_spec(spec), focus, undo), spec.ttl, clock, focus, undo)
