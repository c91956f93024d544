"""Functions that use everything a backend must keep, and their input, for the checks of backends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from holdfast.model.aggregate.combiners import Mean, Sum
from holdfast.model.functions.dofn import DoFn
from holdfast.model.functions.grouping import CombinePerKey
from holdfast.model.state.specs import (
    BagStateSpec,
    CombiningStateSpec,
    MapStateSpec,
    OrderedListStateSpec,
    SetStateSpec,
    ValueStateSpec,
)
from holdfast.model.state.ttl import Ttl
from holdfast.model.time.timers import TimeDomain, TimerSpec, on_timer
from holdfast.model.windows.ready import FixedWindows

__all__ = ["SCRIPTS", "Batch", "Count", "Script"]


@dataclass(frozen=True)
class Batch:
    """The input of one bundle: (key, value, event time) triples, and the clocks' new times. Times are in seconds."""

    elements: Sequence[tuple[Any, Any, float]] = ()
    watermark: float | None = None
    now: float = 0
    final: bool = False


@dataclass(frozen=True)
class Script:
    """A function, its bundles, and what they show."""

    shows: str
    fn: Any
    batches: Sequence[Batch]
    options: dict[str, Any] = field(default_factory=dict)


class Count(DoFn):
    """Counts the elements of each key so far."""

    COUNT = ValueStateSpec("count")

    def process(self, element: Any, count: Any = DoFn.StateParam(COUNT)) -> Iterator[Any]:
        now = (count.read() or 0) + 1
        count.write(now)
        yield element[0], now


class EveryCell(DoFn):
    """Does what an element says to a cell of each kind."""

    VALUE = ValueStateSpec("value")
    BAG = BagStateSpec("bag")
    SET = SetStateSpec("set")
    MAP = MapStateSpec("map")
    LIST = OrderedListStateSpec("list")
    MEAN = CombiningStateSpec("mean", Mean())

    def process(
        self,
        element: Any,
        value: Any = DoFn.StateParam(VALUE),
        bag: Any = DoFn.StateParam(BAG),
        members: Any = DoFn.StateParam(SET),
        names: Any = DoFn.StateParam(MAP),
        ordered: Any = DoFn.StateParam(LIST),
        mean: Any = DoFn.StateParam(MEAN),
    ) -> Iterator[Any]:
        verb, given = element[1]
        if verb == "put":
            value.write(given)
            bag.add(given)
            members.add(repr(given))
            names.put(repr(given), given)
            ordered.add((len(repr(given)), given))
            mean.add(len(repr(given)))
        elif verb == "remove":
            names.remove(repr(given))
            ordered.clear_range(0, 3)
            members.clear()
        elif verb == "clear":
            for cell in (value, bag, members, names, ordered, mean):
                cell.clear()
        yield value.read(), list(bag.read()), sorted(members.read()), list(names.items()), list(ordered.read()), mean.read()


class Windowed(DoFn):
    """Keeps something for each window, and outputs it when the window ends."""

    SEEN = BagStateSpec("seen")

    def process(self, element: Any, seen: Any = DoFn.StateParam(SEEN)) -> None:
        seen.add(element[1])

    def on_window_expiration(
        self, key: Any = DoFn.KeyParam, window: Any = DoFn.WindowParam, seen: Any = DoFn.StateParam(SEEN)
    ) -> Iterator[Any]:
        yield key, window, list(seen.read())


class Timed(DoFn):
    """Sets, moves and clears timers of both kinds, with tags and without."""

    RANG = BagStateSpec("rang")
    EVENT = TimerSpec("event", TimeDomain.WATERMARK)
    REAL = TimerSpec("real", TimeDomain.REAL_TIME)

    def process(self, element: Any, event: Any = DoFn.TimerParam(EVENT), real: Any = DoFn.TimerParam(REAL)) -> None:
        kind, tag, time = element[1]
        timer = event if kind == "event" else real
        if time is None:
            timer.clear(dynamic_timer_tag=tag)
        else:
            timer.set(time, dynamic_timer_tag=tag)

    @on_timer(EVENT)
    def on_event(
        self, key: Any = DoFn.KeyParam, tag: Any = DoFn.DynamicTimerTagParam, rang: Any = DoFn.StateParam(RANG)
    ) -> Iterator[Any]:
        rang.add(tag)
        yield key, "event", tag, list(rang.read())

    @on_timer(REAL)
    def on_real(
        self, key: Any = DoFn.KeyParam, tag: Any = DoFn.DynamicTimerTagParam, rang: Any = DoFn.StateParam(RANG)
    ) -> Iterator[Any]:
        rang.add(tag)
        yield key, "real", tag, list(rang.read())


class Fading(DoFn):
    """Cells that expire when they are not touched."""

    LAST = ValueStateSpec("last", ttl=Ttl("10 seconds"))
    KEPT = ValueStateSpec("kept")

    def process(self, element: Any, last: Any = DoFn.StateParam(LAST), kept: Any = DoFn.StateParam(KEPT)) -> Iterator[Any]:
        yield element[0], last.read(), kept.read()
        last.write(element[1])
        kept.write(element[1])


class Sorted(DoFn):
    """Gives what it gets."""

    def process(self, element: Any) -> Iterator[Any]:
        yield element


_VALUES: list[Any] = [None, True, 0, -1, 2**70, 1.5, "", "text", b"bytes", (1, "a"), [1, [2]], {"a": {1}}]
_KEYS: list[Any] = [1, 1.0, True, "1", b"1", (1, "1"), ("1", 1), (1.0,), -(2**70), "", "ключ"]


def _on_all(keys: Sequence[Any], value: Any, time: float = 0) -> list[tuple[Any, Any, float]]:
    return [(key, value, time) for key in keys]


_MANY = [f"key {n}" for n in range(500)]

SCRIPTS: dict[str, Script] = {
    "cells": Script(
        "every kind of cell holds what it was given, and forgets what was cleared",
        EveryCell(),
        [
            Batch([(n % 2, ("put", value), 0) for n, value in enumerate(_VALUES)]),
            Batch([(0, ("remove", _VALUES[0]), 0), (1, ("put", _VALUES[4]), 0)]),
            Batch([(0, ("clear", None), 0), (2, ("put", "new"), 0)]),
            Batch([(0, ("put", "again"), 0), (0, ("remove", "again"), 0), (1, ("clear", None), 0)]),
            Batch(_on_all([0, 1, 2], ("read", None))),
        ],
    ),
    "keys": Script(
        "keys of different types are different keys, and come back as they were",
        Count(),
        [Batch(_on_all(_KEYS, 0)), Batch(_on_all(_KEYS[::2], 0)), Batch(_on_all(_KEYS, 0))],
    ),
    "many keys": Script(
        "the state has many keys, and a bundle touches few of them",
        Count(),
        [Batch(_on_all(_MANY, 0)), Batch(_on_all(_MANY[::50], 0)), Batch(_on_all(_MANY[::7], 0)), Batch(_on_all(_MANY, 0))],
    ),
    "windows": Script(
        "each window has its own state, removed once the watermark has passed its end and the allowed lateness",
        Windowed(),
        [
            Batch([*_on_all("abc", 1, 5), *_on_all("ab", 2, 15)]),
            Batch([("a", 3, 6), ("d", 3, 25)], watermark=12),
            Batch(watermark=16),
            Batch([("b", 4, 3), ("e", 4, 17)], watermark=17),
            Batch(_on_all("ae", 5, 26), watermark=27),
            Batch(final=True),
        ],
        {"windowing": FixedWindows(10), "allowed_lateness": 5},
    ),
    "timers": Script(
        "timers of both kinds fire when they are due, even for keys that the bundle does not touch",
        Timed(),
        [
            Batch([(key, ("event", "", 10 + n), 0) for n, key in enumerate("abcdef")]),
            Batch([("a", ("event", "x", 11), 0), ("b", ("real", "y", 5), 0), ("c", ("real", "", 9), 0)], watermark=1),
            Batch([("d", ("event", "", None), 0), ("e", ("event", "", 30), 0)], watermark=12, now=4),
            Batch(watermark=13, now=5),
            Batch([("z", ("real", "q", 7), 0)], watermark=14, now=8),
            Batch(watermark=14, now=100),
            Batch(_on_all("mno", ("event", "end", 1000)), watermark=15, now=100),
            Batch(final=True),
        ],
    ),
    "timers in windows": Script(
        "a timer belongs to its window, and ends with it",
        Timed(),
        [
            Batch([("a", ("event", "", 4), 1), ("a", ("event", "", 14), 11), ("b", ("event", "", 90), 1)]),
            Batch([("c", ("real", "", 50), 12)], watermark=5, now=1),
            Batch(watermark=10, now=2),
            Batch(watermark=14, now=3),
            Batch(watermark=95, now=4),
        ],
        {"windowing": FixedWindows(10)},
    ),
    "time to live": Script(
        "cells expire, even for keys that are never seen again; those without a time to live stay",
        Fading(),
        [
            Batch(_on_all("abcd", 1), now=1),
            Batch([("a", 2, 0)], now=8),
            Batch(now=12),
            Batch(_on_all("ab", 3), now=13),
            Batch(now=50),
            Batch(_on_all("abcd", 4), now=51),
        ],
    ),
    "sorted input": Script(
        "held-back elements come when the watermark has passed them",
        Sorted(),
        [
            Batch([("a", 9, 9), ("a", 3, 3), ("b", 5, 5), ("c", 30, 30)]),
            Batch([("b", 4, 4)], watermark=5),
            Batch(watermark=20),
            Batch(final=True),
        ],
        {"requires_time_sorted_input": True},
    ),
    "aggregation": Script(
        "a window of an aggregation gives its result once, and another only for late elements",
        CombinePerKey(Sum()),
        [
            Batch([*_on_all("abcde", 1, 5), *_on_all("ab", 10, 15)]),
            Batch(watermark=10),
            Batch([("a", 100, 6), ("f", 100, 7)], watermark=12),
            Batch(watermark=20),
            Batch(watermark=31),
            Batch(_on_all("a", 7, 40), watermark=60),
        ],
        {"windowing": FixedWindows(10), "allowed_lateness": 20},
    ),
}
