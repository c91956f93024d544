"""The cases of `growth.py`: each does the same small work over as much state as it is told, and says what that cost."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from _rig import CountingStore, Worker

import holdfast as hf

__all__ = ["CALLS", "CASES", "LOG", "Case"]

ROUNDS = 11
_LOADED = 50_000
"""Elements in one bundle while state is being made."""


class Counting(hf.DoFn):
    COUNT = hf.ValueStateSpec("count", hf.VarIntCoder())

    def process(self, element: Any, count: Any = hf.DoFn.StateParam(COUNT)) -> Any:
        count.write((count.read() or 0) + 1)
        return ()


class Expiring(hf.DoFn):
    COUNT = hf.ValueStateSpec("count", hf.VarIntCoder(), ttl=hf.Ttl(10**9, time="event"))

    def process(self, element: Any, count: Any = hf.DoFn.StateParam(COUNT)) -> Any:
        count.write(element[1])
        return ()


class Waiting(hf.DoFn):
    COUNT = hf.ValueStateSpec("count", hf.VarIntCoder())
    TIMER = hf.TimerSpec("timer", hf.TimeDomain.WATERMARK)

    def process(self, element: Any, count: Any = hf.DoFn.StateParam(COUNT), timer: Any = hf.DoFn.TimerParam(TIMER)) -> Any:
        count.write(element[1])
        timer.set(10**6 + element[1])
        return ()

    @hf.on_timer(TIMER)
    def due(self) -> Any:
        return ()


class Setting(hf.DoFn):
    CELL = hf.SetStateSpec("cell", hf.VarIntCoder())

    def process(self, element: Any, cell: Any = hf.DoFn.StateParam(CELL)) -> Any:
        cell.add(element[1])
        return ()


class Mapping(hf.DoFn):
    CELL = hf.MapStateSpec("cell", hf.VarIntCoder(), hf.VarIntCoder())

    def process(self, element: Any, cell: Any = hf.DoFn.StateParam(CELL)) -> Any:
        cell.put(element[1], element[1])
        return ()


class Bagging(hf.DoFn):
    CELL = hf.BagStateSpec("cell", hf.VarIntCoder())

    def process(self, element: Any, cell: Any = hf.DoFn.StateParam(CELL)) -> Any:
        cell.add(element[1])
        return ()


class Listing(hf.DoFn):
    CELL = hf.OrderedListStateSpec("cell", hf.VarIntCoder())

    def process(self, element: Any, cell: Any = hf.DoFn.StateParam(CELL)) -> Any:
        cell.add((element[1], 1))
        return ()


class Trimming(hf.DoFn):
    CELL = hf.OrderedListStateSpec("cell", hf.VarIntCoder())

    def process(self, element: Any, cell: Any = hf.DoFn.StateParam(CELL)) -> Any:
        if element[1] < 0:
            cell.clear_range(0, -element[1])
        else:
            cell.add((element[1], 1))
        return ()


class Case(NamedTuple):
    """Something small to do, and the state over which it is done."""

    part: str
    name: str
    small: int
    large: int
    measure: Callable[[int], Sequence[float]]
    """From the size of the state to milliseconds of processor time, of several times the same work."""


def _loads(pairs: Iterator[Any], worker: Worker, **more: Any) -> None:
    while some := list(itertools.islice(pairs, _LOADED)):
        worker.bundle(some, **more)


def _keys(size: int) -> Iterator[tuple[str, int]]:
    return ((f"user-{number}", number) for number in range(size))


def _touches(size: int, count: int) -> list[list[tuple[str, int]]]:
    """Bundles of `count` elements each, whose keys are spread over all."""
    step = max(size // (count * (ROUNDS + 2)), 1)
    numbers = itertools.cycle(range(0, size, step))
    return [[(f"user-{number}", number + 1) for number in itertools.islice(numbers, count)] for _ in range(ROUNDS + 2)]


def catching_up(fn: type[hf.DoFn], **options: Any) -> Callable[[int], Sequence[float]]:
    """One worker writes ten keys; the other, which has been there before, opens the state."""

    def measure(size: int) -> Sequence[float]:
        store = CountingStore()
        writer, reader = Worker(fn(), store, **options), Worker(fn(), store, **options)
        _loads(_keys(size), writer)
        reader.bundle([("user-1", 1)])
        took = []
        for touched in _touches(size, 10):
            writer.bundle(touched)
            took.append(reader.open())
        assert reader.backend.catch_ups >= ROUNDS  # type: ignore[union-attr]
        writer.close()
        reader.close()
        return took[2:]

    return measure


def touching(fn: type[hf.DoFn], on_disk: bool = False) -> Callable[[int], Sequence[float]]:
    """A bundle of a hundred keys among many."""

    def measure(size: int) -> Sequence[float]:
        with tempfile.TemporaryDirectory(prefix="holdfast-growth-") as folder:
            worker = Worker(fn(), CountingStore(), Path(folder) / "state" if on_disk else None)
            _loads(_keys(size), worker)
            took = [worker.bundle(touched) for touched in _touches(size, 100)]
            worker.close()
        return took[2:]

    return measure


def windows(fn: Callable[[], Any], on_disk: bool = False, **options: Any) -> Callable[[int], Sequence[float]]:
    """One element in the last of many open windows, each with a key of its own."""

    def measure(count: int) -> Sequence[float]:
        with tempfile.TemporaryDirectory(prefix="holdfast-growth-") as folder:
            path = Path(folder) / "state" if on_disk else None
            worker = Worker(fn(), CountingStore(), path, windowing=hf.FixedWindows(1), **options)
            worker.bundle(list(_keys(count)), range(count))
            took = [worker.bundle([(f"user-{count - 1}", 1)], [count - 1]) for _ in range(ROUNDS + 2)]
            worker.close()
        return took[2:]

    return measure


def entries(
    fn: type[hf.DoFn], more: Callable[[int, int], Sequence[int]], on_disk: bool = False
) -> Callable[[int], Sequence[float]]:
    """One key has many entries, the even numbers, and gets more: `more(size, round)`."""

    def measure(size: int) -> Sequence[float]:
        with tempfile.TemporaryDirectory(prefix="holdfast-growth-") as folder:
            worker = Worker(fn(), CountingStore(), Path(folder) / "state" if on_disk else None)
            _loads((("key", 2 * number) for number in range(size)), worker)
            took = [worker.bundle([("key", number) for number in more(size, turn)]) for turn in range(ROUNDS + 2)]
            worker.close()
        return took[2:]

    return measure


def _at_the_end(count: int) -> Callable[[int, int], Sequence[int]]:
    return lambda size, turn: range(2 * (size + count * turn), 2 * (size + count * (turn + 1)), 2)


def _in_the_middle(count: int) -> Callable[[int, int], Sequence[int]]:
    return lambda size, turn: [size // 2 * 2 + 1 + 2 * (turn * count + number) - 20 for number in range(count)]


def _from_the_front(count: int) -> Callable[[int, int], Sequence[int]]:
    return lambda size, turn: [-2 * (turn * count + number) - 1 for number in range(count)]


def _timed() -> Iterator[Case]:
    for keys, fn in (("keys", Counting), ("timers", Waiting)):
        yield Case("a bundle of 100 keys", f"among other {keys}", 10_000, 1_000_000, touching(fn))
    yield Case("a bundle of 100 keys", "among other keys, on disk", 10_000, 1_000_000, touching(Counting, on_disk=True))
    missed = "catching up one missed delta of 10 keys"
    yield Case(missed, "timers in the key group", 10_000, 1_000_000, catching_up(Waiting))
    yield Case(missed, "keys with a TTL", 30_000, 300_000, catching_up(Expiring))
    limits = hf.Limits(max_keys=10**9, policy="evict_lru")
    yield Case(missed, "keys, limited", 30_000, 300_000, catching_up(Counting, limits=limits))
    opened = "one element, with open windows"
    yield Case(opened, "DoFn", 1, 10_000, windows(Counting))
    yield Case(opened, "combine_per_key", 1, 10_000, windows(lambda: hf.CombinePerKey(sum)))
    yield Case(opened, "DoFn with a TTL", 1, 10_000, windows(Expiring))
    yield Case(opened, "DoFn with limits", 1, 10_000, windows(Counting, limits=limits))
    yield Case(opened, "DoFn on disk", 1, 10_000, windows(Counting, on_disk=True))
    yield Case(opened, "combine_per_key on disk", 1, 10_000, windows(lambda: hf.CombinePerKey(sum), on_disk=True))
    one = "100 more entries of one key"
    yield Case(one, "set, add", 1_000, 1_000_000, entries(Setting, _at_the_end(100)))
    yield Case(one, "map, put", 1_000, 1_000_000, entries(Mapping, _at_the_end(100)))
    yield Case(one, "bag, add", 1_000, 1_000_000, entries(Bagging, _at_the_end(100)))
    yield Case(one, "ordered list, append", 1_000, 1_000_000, entries(Listing, _at_the_end(100)))
    yield Case(one, "ordered list, add in the middle", 1_000, 1_000_000, entries(Listing, _in_the_middle(100)))
    yield Case(one, "ordered list, clear the first", 10_000, 1_000_000, entries(Trimming, _from_the_front(100)))
    disk = "one more entry of one key on disk"
    yield Case(disk, "bag, add", 1_000, 1_000_000, entries(Bagging, _at_the_end(1), on_disk=True))
    yield Case(disk, "map, put", 1_000, 1_000_000, entries(Mapping, _at_the_end(1), on_disk=True))
    yield Case(disk, "ordered list, append", 1_000, 1_000_000, entries(Listing, _at_the_end(1), on_disk=True))


CASES = tuple(_timed())


def log_ratio(cells: int, keys: int = 100_000, bundles: int = 1_000) -> float:
    """Bytes put into the store for each byte of what changed, the keys and eight bytes for each number. The keys are in no
    order, so that they do not compress to nothing."""
    store = CountingStore()
    worker = Worker(Counting(), store)
    names = [f"{number * 2_654_435_761 % 2**40:010x}" for number in range(keys)]
    _loads(((name, 1) for name in names), worker)
    store.bytes_put, raw = 0, 0
    numbers = itertools.cycle(number * 7_919 % keys for number in range(keys))
    for _ in range(bundles):
        pairs = [(names[number], 1) for number in itertools.islice(numbers, cells)]
        worker.bundle(pairs)
        raw += sum(len(key) + 8 for key, _ in pairs)
    worker.close()
    return store.bytes_put / raw


LOG = (1, 10, 100, 1_000)
"""Cells that a bundle changes."""


def calls(fn: Callable[[], Any], on_disk: bool = False, **options: Any) -> Callable[[int], float]:
    """Calls of the store in a bundle of a hundred elements; the mean of many, for some of them write a snapshot."""

    def count(keys: int) -> float:
        with tempfile.TemporaryDirectory(prefix="holdfast-growth-") as folder:
            store = CountingStore()
            worker = Worker(fn(), store, Path(folder) / "state" if on_disk else None, **options)
            _loads(_keys(keys), worker)
            store.calls = 0
            touches = _touches(keys, 100)
            for touched in touches:
                worker.bundle(touched)
            worker.close()
        return store.calls / len(touches)

    return count


CALLS: dict[str, Callable[[int], float]] = {
    "DoFn": calls(Counting),
    "DoFn with a timer": calls(Waiting),
    "DoFn with a TTL": calls(Expiring),
    "DoFn in windows": calls(Counting, windowing=hf.FixedWindows(1)),
    "combine_per_key in windows": calls(lambda: hf.CombinePerKey(sum), windowing=hf.FixedWindows(1)),
    "combine_per_key in sessions": calls(lambda: hf.CombinePerKey(sum), windowing=hf.Sessions(1)),
    "DoFn on disk": calls(Counting, on_disk=True),
}
"""By kind of step."""
