"""How much memory does a key take? Each kind of cell beside a plain dict that has the same values, in one process.

A worker fills one key group by bundles (*live*); a fresh worker reads it from its log (*read*), and the processor time of
that is measured too. The bytes are what Python's allocator has given out, as `tracemalloc` counts them: a busy machine does
not matter. The keys, texts of eleven characters, are counted on both sides. Each number is an object of its own, as in data.

    python benchmarks/memory.py [--keys 100000] [--only set] [--json FILE]
"""

from __future__ import annotations

import argparse
import gc
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from _report import machine, print_table, save_json
from _rig import CountingStore, Worker, load_average

import holdfast as hf

_BUNDLE = 50_000
_EACH = 5
_NAMES = [f"name{place}" for place in range(_EACH)]


def _numbers(number: int) -> list[int]:
    return [1_000_000 + number * _EACH + place for place in range(_EACH)]


class Value(hf.DoFn):
    CELL = hf.ValueStateSpec("cell", hf.VarIntCoder())

    def process(self, element: Any, cell: Any = hf.DoFn.StateParam(CELL)) -> Any:
        cell.write(element[1] + 1_000_000)
        return ()


class Bag(hf.DoFn):
    CELL = hf.BagStateSpec("cell", hf.VarIntCoder())

    def process(self, element: Any, cell: Any = hf.DoFn.StateParam(CELL)) -> Any:
        for number in _numbers(element[1]):
            cell.add(number)
        return ()


class Map(hf.DoFn):
    CELL = hf.MapStateSpec("cell", hf.StrUtf8Coder(), hf.VarIntCoder())

    def process(self, element: Any, cell: Any = hf.DoFn.StateParam(CELL)) -> Any:
        for name, number in zip(_NAMES, _numbers(element[1]), strict=True):
            cell.put(name, number)
        return ()


class Set(hf.DoFn):
    CELL = hf.SetStateSpec("cell", hf.VarIntCoder())

    def process(self, element: Any, cell: Any = hf.DoFn.StateParam(CELL)) -> Any:
        for number in _numbers(element[1]):
            cell.add(number)
        return ()


class OrderedList(hf.DoFn):
    CELL = hf.OrderedListStateSpec("cell", hf.VarIntCoder())

    def process(self, element: Any, cell: Any = hf.DoFn.StateParam(CELL)) -> Any:
        for number in _numbers(element[1]):
            cell.add((number, number + 1))
        return ()


class Combining(hf.DoFn):
    CELL = hf.CombiningStateSpec("cell", combine_fn=hf.Mean())

    def process(self, element: Any, cell: Any = hf.DoFn.StateParam(CELL)) -> Any:
        cell.add(element[1] + 1_000_000)
        return ()


class ValueAndTimer(hf.DoFn):
    CELL = hf.ValueStateSpec("cell", hf.VarIntCoder())
    TIMER = hf.TimerSpec("timer", hf.TimeDomain.WATERMARK)

    def process(self, element: Any, cell: Any = hf.DoFn.StateParam(CELL), timer: Any = hf.DoFn.TimerParam(TIMER)) -> Any:
        cell.write(element[1] + 1_000_000)
        timer.set(element[1] + 1_000_000)
        return ()

    @hf.on_timer(TIMER)
    def due(self) -> Any:
        return ()


class Kind(NamedTuple):
    name: str
    fn: type[hf.DoFn]
    plain: Callable[[int], Any]
    """What a dict would have for the key with this number."""


KINDS = (
    Kind("value", Value, lambda number: number + 1_000_000),
    Kind("bag of 5", Bag, _numbers),
    Kind("map of 5", Map, lambda number: dict(zip(_NAMES, _numbers(number), strict=True))),
    Kind("set of 5", Set, lambda number: set(_numbers(number))),
    Kind("ordered list of 5", OrderedList, lambda number: [(time, time + 1) for time in _numbers(number)]),
    Kind("combining (mean)", Combining, lambda number: (number + 1_000_000, 1)),
    Kind("value and timer", ValueAndTimer, lambda number: (number + 1_000_000, number + 1_000_001)),
)


def _key(number: int) -> str:
    return f"user-{number:06}"


def traced(make: Callable[[], Any], keys: int) -> float:
    """Bytes for each key that what `make` returns takes."""
    gc.collect()
    tracemalloc.start()
    made = make()
    gc.collect()
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    del made
    return size / keys


def measured(kind: Kind, keys: int) -> dict[str, Any]:
    kept = CountingStore()

    def live() -> Worker:
        worker = Worker(kind.fn(), CountingStore())
        for first in range(0, keys, _BUNDLE):
            worker.bundle([(_key(number), number) for number in range(first, min(first + _BUNDLE, keys))])
        kept.committed = worker.store.committed
        worker.store = CountingStore()
        return worker

    def stored(worker: Worker) -> Worker:
        worker.open()
        return worker

    live_bytes = traced(live, keys)
    # The log was traced with it.
    live_bytes -= sum(map(len, kept.committed.values())) / keys
    kept.rollback()
    read_bytes = traced(lambda: stored(Worker(kind.fn(), kept)), keys)
    seconds = min(Worker(kind.fn(), kept).open() for _ in range(3)) / 1000
    plain = traced(lambda: {_key(number): kind.plain(number) for number in range(keys)}, keys)
    return {
        "kind": kind.name,
        "plain": plain,
        "live": live_bytes,
        "read": read_bytes,
        "seconds_per_million": seconds / keys * 1e6,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--only", default="", help="kinds whose name has this text")
    parser.add_argument("--json", type=Path, default=Path("artifacts/memory.json"))
    options = parser.parse_args()
    began = time.perf_counter()
    found = [measured(kind, options.keys) for kind in KINDS if options.only in kind.name]
    columns = ["bytes for each key", "plain dict", "live", "read", "live / dict", "seconds to read a million keys"]
    rows = [
        [
            kinds["kind"],
            *(f"{kinds[name]:,.0f}" for name in ("plain", "live", "read")),
            f"{kinds['live'] / kinds['plain']:.2f}",
            f"{kinds['seconds_per_million']:.2f}",
        ]
        for kinds in found
    ]
    print_table(columns, rows)
    print(f"{options.keys:,} keys, load average {load_average():.1f}, {time.perf_counter() - began:.0f} s")
    save_json(options.json, {"keys": options.keys, "machine": machine(), "load": load_average(), "kinds": found})


if __name__ == "__main__":
    main()
