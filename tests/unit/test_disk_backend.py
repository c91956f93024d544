"""The disk backend: bounded parts, what is due, counters of windows, and when its file is trusted."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from typing import Any
from unittest import mock

import pytest

from holdfast import BagStateSpec, DoFn, FixedWindows, Sum, TimeDomain, TimerSpec, Ttl, ValueStateSpec, on_timer
from holdfast.engine.backends import disk_file
from holdfast.engine.backends.disk import DiskBackend
from holdfast.engine.backends.heap import HeapBackend, delta_name
from holdfast.engine.backends.protocol import Commit, Due
from holdfast.engine.log.chain import SnapshotOptions
from holdfast.engine.run.bundle import run_bundle
from holdfast.engine.run.choice import make_runner
from holdfast.engine.run.clocks import Clocks
from holdfast.engine.state.key_group import Layout
from holdfast.errors import CorruptState
from holdfast.model.functions.grouping import CombinePerKey, build
from holdfast.model.functions.options import StepOptions
from holdfast.testing import TestStream, run
from holdfast.testing.memory_store import MemoryStore

SECOND = 1_000_000
NEVER = -1_000_000_000


class Count(DoFn):
    COUNT = ValueStateSpec("count")

    def process(self, element, count=DoFn.StateParam(COUNT)):
        count.write((count.read() or 0) + 1)
        yield element[0], count.read()


class Alarm(DoFn):
    """Rings at the time that an element says, whatever its window."""

    SEEN = BagStateSpec("seen")
    RING = TimerSpec("ring", TimeDomain.WATERMARK)

    def process(self, element, seen=DoFn.StateParam(SEEN), ring=DoFn.TimerParam(RING)):
        seen.add(element[1])
        ring.set(element[1])

    @on_timer(RING)
    def on_ring(self, key=DoFn.KeyParam):
        yield key


class Fading(DoFn):
    LAST = ValueStateSpec("last", ttl=Ttl("10 seconds"))

    def process(self, element, last=DoFn.StateParam(LAST)):
        last.write(element[1])


class Rig:
    """One key group on a backend: bundles, and what they gave."""

    def __init__(self, fn: Any, make: Any, store: MemoryStore | None = None, **options: Any) -> None:
        self.step = build(fn, StepOptions(**options))
        self.layout = Layout(self.step)
        self.runner = make_runner(self.step, self.layout, {}, (), origins=True)
        self.store = store or MemoryStore()
        self.backend = make(self.layout)
        self.parts: list[tuple[int, int]] = []
        """Of the last bundle: how many keys and elements each part had."""

    def bundle(self, elements: Any = (), watermark: int = NEVER, now: int = 0, late: int = NEVER) -> list[Any]:
        outputs: list[Any] = []
        self.open()
        self._watch()
        clocks = Clocks(late * SECOND, watermark * SECOND, now * SECOND)
        taken = self.runner.elements([(k, v) for k, v, *_ in elements], [e[-1] * SECOND for e in elements])
        self.metrics = run_bundle(
            self.backend, self.store, self.runner, taken, clocks, 0, lambda: outputs.extend(self.runner.outputs())
        )
        self.store.commit()
        return [output.value for output in outputs]

    def open(self) -> None:
        self.backend.open(self.store)

    def _watch(self) -> None:
        self.parts = []
        parts = type(self.backend).parts

        def watched(*arguments: Any) -> Any:
            for part in parts(self.backend, *arguments):
                keys = {slot for window in part.state.windows.values() for slot in window.slots()}
                self.parts.append((len(keys), -1 if part.positions is None else len(part.positions)))
                yield part

        self.backend.parts = watched

    @property
    def due(self) -> Due:
        return self.backend.next_due(self.runner)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "deep" / "group.sqlite"


@pytest.fixture
def rig(path):
    """A rig over the file, with parts of three keys."""
    made: list[Rig] = []

    def make(fn: Any, store: MemoryStore | None = None, at: Any = path, **options: Any) -> Rig:
        made.append(Rig(fn, lambda layout: DiskBackend(layout, at, part_keys=3), store, **options))
        return made[-1]

    yield make
    for each in made:
        each.backend.release()


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr(disk_file, "_LOCK_SECONDS", 0.0)


def rows(path: Any, statement: str) -> list[Any]:
    file = sqlite3.connect(path)
    try:
        return file.execute(statement).fetchall()
    finally:
        file.close()


# --- parts --------------------------------------------------------------------------------------------------------


def test_a_bundle_comes_in_parts_of_so_many_keys(rig):
    counting = rig(Count())
    elements = [(key, 0, 0) for key in "abcdefgabc"]
    assert counting.bundle(elements) == [*[(k, 1) for k in "abc"], *[(k, 2) for k in "abc"], *[(k, 1) for k in "defg"]]
    assert [places for _, places in counting.parts] == [6, 3, 1]
    counting.bundle([("a", 0, 0)])
    assert counting.parts == [(1, 1)]


def test_keys_that_a_bundle_does_not_touch_are_not_read(rig):
    alarm = rig(Alarm())
    alarm.bundle([(key, 50 + key, 0) for key in range(20)])
    assert alarm.bundle([(1, 90, 0)], watermark=10) == []
    assert alarm.parts == [(1, 1)]
    assert sorted(alarm.bundle(watermark=55)) == [0, 2, 3, 4, 5]
    assert alarm.parts == [(3, 0), (2, 0)]


def test_memory_is_bounded_whatever_the_state_holds(rig):
    counting = rig(Count())
    assert counting.backend.memory_bytes == 0
    counting.bundle([(key, 0, 0) for key in range(10)])
    small = counting.backend.memory_bytes
    counting.bundle([(key, 0, 0) for key in range(2000)])
    assert counting.backend.memory_bytes == small <= 32 * 2**20
    counting.backend.release()
    assert counting.backend.memory_bytes == 0


def test_parts_give_what_one_part_gives(rig, tmp_path):
    elements = [((n * 7) % 31, n, 0) for n in range(200)]
    small, whole = rig(Count()), Rig(Count(), HeapBackend)
    assert sorted(small.bundle(elements)) == sorted(whole.bundle(elements))


# --- what is due --------------------------------------------------------------------------------------------------


def test_due_is_the_earliest_of_each_kind(rig):
    alarm = rig(Alarm())
    alarm.bundle([("a", 30, 0), ("b", 20, 0), ("a", 40, 0)])
    assert alarm.due == Due(20 * SECOND, None)
    assert alarm.bundle(watermark=25) == ["b"]
    assert alarm.due == Due(40 * SECOND, None)
    alarm.bundle(watermark=99)
    assert alarm.due == Due(None, None)


def test_a_row_that_is_due_and_does_nothing_does_not_stop_everything(rig, path):
    alarm = rig(Alarm())
    alarm.bundle([("a", 30, 0)])
    alarm.backend.release()
    file = sqlite3.connect(path)
    file.execute("UPDATE due SET time = 0")
    file.commit()
    file.close()
    assert alarm.bundle(watermark=5) == []
    assert alarm.bundle(watermark=30) == ["a"]


def test_timers_of_a_window_that_another_backend_dropped_are_not_due(rig):
    # The heap drops a window as a whole. What the file knows to be due in it must go too.
    windowed = {"windowing": FixedWindows(10)}
    store = MemoryStore()
    heap, on_disk = Rig(Alarm(), HeapBackend, store, **windowed), rig(Alarm(), store, **windowed)
    on_disk.bundle([("a", 15, 1), ("b", 16, 2), ("c", 17, 3), ("d", 18, 4), ("a", 90, 25)])
    assert sorted(heap.bundle(watermark=12)) == ["a", "b", "c", "d"]  # as the window ends
    on_disk.open()
    assert on_disk.due == Due(30 * SECOND, None)
    assert on_disk.bundle(watermark=29) == []
    assert on_disk.parts == []


def test_a_fresh_file_over_a_log_with_dropped_windows(rig):
    windowed = {"windowing": FixedWindows(10)}
    store = MemoryStore()
    heap = Rig(Alarm(), HeapBackend, store, **windowed)
    heap.bundle([("a", 15, 1), ("b", 95, 25)])
    heap.bundle(watermark=12)
    on_disk = rig(Alarm(), store, **windowed)
    assert on_disk.bundle(watermark=29) == []
    assert on_disk.bundle(watermark=30) == ["b"]


def test_cells_that_expire_are_found_without_their_keys_being_seen(rig, path):
    fading = rig(Fading())
    fading.bundle([(key, 0, 0) for key in range(7)], now=1)
    fading.bundle([(0, 1, 0)], now=8)
    fading.bundle(now=12)
    assert fading.metrics.cells_expired == 6
    assert fading.parts == [(3, 0), (3, 0)]
    fading.bundle(now=18)
    assert rows(path, "SELECT count(*) FROM cells") == rows(path, "SELECT count(*) FROM due") == [(0,)]


# --- windows ------------------------------------------------------------------------------------------------------


def test_windows_are_counted_and_forgotten(rig, path):
    summing = rig(CombinePerKey(Sum()), windowing=FixedWindows(10))
    summing.bundle([("a", 1, 1), ("b", 1, 2), ("a", 1, 11)])
    counted = "SELECT rows, fired FROM windows ORDER BY window"
    assert rows(path, counted) == [(2, 0), (1, 0)]
    assert summing.due == Due(10 * SECOND, None)
    assert sorted(summing.bundle(watermark=10)) == [("a", 1), ("b", 1)]
    assert rows(path, counted) == [(1, 0)]
    assert summing.bundle([("a", 5, 12)], watermark=20, late=10) == [("a", 6)]
    assert rows(path, counted) == []
    assert summing.due == Due(None, None)


def test_a_window_that_waits_for_late_elements_gives_its_results_once(rig, path):
    options = {"windowing": FixedWindows(10), "allowed_lateness": 20}
    summing = rig(CombinePerKey(Sum()), **options)
    summing.bundle([(key, 1, 1) for key in "abcde"])
    assert len(summing.bundle(watermark=10)) == 5
    assert rows(path, "SELECT rows, fired FROM windows") == [(5, 1)]
    assert summing.due == Due(30 * SECOND, None)
    assert summing.bundle(watermark=15, late=10) == []
    assert summing.parts == []
    fresh = rig(CombinePerKey(Sum()), summing.store, at=path.with_name("another.sqlite"), **options)
    assert fresh.bundle([("b", 2, 2)], watermark=16, late=15) == [("b", 2)]
    assert fresh.bundle(watermark=30, late=16) == []
    assert rows(path.with_name("another.sqlite"), "SELECT count(*) FROM windows") == [(0,)]


def test_a_bundle_looks_at_the_windows_that_it_touches(rig):
    counting = rig(Count(), windowing=FixedWindows(10))
    counting.bundle([(f"k{number}", 0, 10 * number) for number in range(200)])
    assert counting.due == Due(10 * SECOND, None)
    with mock.patch.object(FixedWindows, "decode_window", autospec=True, side_effect=FixedWindows.decode_window) as decoded:
        counting.bundle([("k7", 0, 70)], watermark=5)
        assert counting.due == Due(10 * SECOND, None)
    assert decoded.call_count < 20


def test_windows_that_another_worker_opened_and_closed_are_known(rig):
    options = {"windowing": FixedWindows(10)}
    first = rig(CombinePerKey(Sum()), **options)
    second = rig(CombinePerKey(Sum()), first.store, **options)
    first.bundle([("a", 1, 15)])
    second.bundle([("a", 2, 5), ("a", 4, 25)])
    first.open()
    assert first.due == Due(10 * SECOND, None)
    first.backend.commit(first.store)
    assert second.bundle(watermark=20) == [("a", 2), ("a", 1)]
    assert first.bundle(watermark=20, late=20) == []
    assert first.due == Due(30 * SECOND, None)
    assert first.bundle(watermark=30, late=20) == [("a", 4)]


@pytest.mark.parametrize("abandons", [True, False])
def test_windows_of_a_bundle_that_came_to_nothing_are_forgotten(rig, abandons):
    summing = rig(CombinePerKey(Sum()), windowing=FixedWindows(10))
    summing.bundle([("a", 1, 35)])
    summing.open()
    taken = summing.runner.elements([("a", 1)], [5 * SECOND])
    clocks = Clocks(NEVER * SECOND, 0, 0)
    for state, _, _ in summing.backend.parts(taken.slots, clocks, summing.runner):
        summing.runner.run(state, taken, clocks, 0)
    assert summing.due == Due(10 * SECOND, None)
    if abandons:
        summing.backend.abandon()
    summing.store.rollback()
    summing.open()
    assert summing.due == Due(40 * SECOND, None)
    summing.backend.commit(summing.store)
    assert summing.bundle(watermark=40) == [("a", 1)]


# --- the file -----------------------------------------------------------------------------------------------------


def loads(rig: Rig) -> tuple[int, int]:
    """Whether opening read everything, or what was missed."""
    rig.open()
    commit: Commit = rig.backend.commit(rig.store)
    return commit.loads, commit.catch_ups


def test_workers_of_a_machine_share_the_file(rig):
    first = rig(Count())
    second = rig(Count(), first.store)
    first.bundle([("a", 0, 0)])
    assert loads(second) == (0, 0)
    assert second.bundle([("a", 0, 0)]) == [("a", 2)]
    assert loads(first) == (0, 0)
    assert first.bundle([("a", 0, 0)]) == [("a", 3)]


def test_a_worker_of_another_machine_catches_up(rig, path):
    first = rig(Count())
    second = rig(Count(), first.store, at=path.with_name("there.sqlite"))
    first.bundle([("a", 0, 0)])
    assert loads(second) == (1, 0)
    first.bundle([("b", 0, 0)])
    assert loads(second) == (0, 1)
    assert second.bundle([("a", 0, 0), ("b", 0, 0)]) == [("a", 2), ("b", 2)]


def test_what_was_rolled_back_is_read_anew(rig):
    counting = rig(Count())
    counting.bundle([("a", 0, 0)])
    before = dict(counting.store.committed)
    counting.bundle([("a", 0, 0)])
    counting.store = MemoryStore(before)
    assert loads(counting) == (1, 0)
    assert counting.bundle([("a", 0, 0)]) == [("a", 2)]


def test_a_file_of_other_cells_is_not_trusted(rig):
    class Renamed(DoFn):
        OTHER = BagStateSpec("other")
        COUNT = ValueStateSpec("count")

        def process(self, element, other=DoFn.StateParam(OTHER), count=DoFn.StateParam(COUNT)):
            yield count.read()

    counting = rig(Count())
    counting.bundle([("a", 0, 0)])
    counting.backend.release()
    assert rig(Renamed(), counting.store).bundle([("a", 0, 0)]) == [1]


@pytest.mark.parametrize("content", [b"", b"not a database at all" * 300], ids=["empty", "garbage"])
def test_a_damaged_file_costs_a_reading_of_the_log(rig, path, content):
    counting = rig(Count())
    counting.bundle([(key, 0, 0) for key in range(50)])
    counting.backend.release()
    path.write_bytes(content)
    assert loads(counting) == (1, 0)
    assert counting.bundle([(7, 0, 0)]) == [(7, 2)]


def test_damage_that_is_found_in_a_bundle_removes_the_file(rig, path):
    counting = rig(Count())
    counting.bundle([(key, 0, 0) for key in range(50)])
    counting.backend.release()
    file = sqlite3.connect(path)
    file.execute("UPDATE cells SET data = x'c1'")
    file.commit()
    file.close()
    with pytest.raises(CorruptState, match=r"working copy .* is damaged") as refused:
        counting.bundle([(7, 0, 0)])
    assert str(path) in str(refused.value)
    assert not path.exists()
    counting.backend.abandon()
    assert counting.bundle([(7, 0, 0)]) == [(7, 2)]


def test_a_file_that_is_deleted_while_it_is_open(rig, path):
    counting = rig(Count())
    counting.bundle([("a", 0, 0)])
    path.unlink()
    assert counting.bundle([("a", 0, 0)]) == [("a", 2)]
    assert rig(Count(), counting.store).bundle([("a", 0, 0)]) == [("a", 3)]


def test_what_a_deleted_file_left_beside_it_is_not_mixed_with_another(rig, path):
    """SQLite would find the log of the deleted file by its path, and take its pages for those of a new one."""
    one, other = rig(Count()), rig(Count())
    one.bundle([(key, 0, 0) for key in range(200)])
    path.unlink()
    assert other.bundle([("a", 0, 0)]) == [("a", 1)]
    assert one.bundle([(key, 0, 0) for key in range(3)]) == [(0, 2), (1, 2), (2, 2)]
    # Closing what was deleted takes nothing away from what is there now.
    one.backend.release()
    assert other.bundle([("a", 0, 0)]) == [("a", 2)]
    other.backend.release()
    assert rig(Count(), other.store).bundle([("a", 0, 0)]) == [("a", 3)]


def test_a_file_that_another_put_in_its_place_is_left_to_it(rig, path):
    one = rig(Count())
    one.bundle([(key, 0, 0) for key in range(200)])
    for left in path.parent.iterdir():
        left.unlink()
    other = rig(Count())
    assert other.bundle([("a", 0, 0)]) == [("a", 1)]
    one.backend.release()
    assert path.with_name(f"{path.name}-wal").exists()
    assert other.bundle([("a", 0, 0)]) == [("a", 2)]


def test_what_is_found_damaged_after_it_was_replaced_does_not_take_the_other_with_it(path):
    one, other = (disk_file.WorkingFile(path, by_window=False) for _ in range(2))
    one.begin()
    one.rollback()
    for left in list(path.parent.iterdir()):
        left.unlink()
    other.begin()
    other.commit()
    one.discard()
    assert path.exists()
    assert path.with_name(f"{path.name}-wal").exists()
    other.discard()
    assert list(path.parent.iterdir()) == []


def test_two_attempts_at_once_have_a_file_each(rig, path):
    first = rig(Count())
    first.bundle([("a", 0, 0)])
    second = rig(Count(), MemoryStore(first.store.committed))
    first.open()
    assert second.bundle([("a", 0, 0)]) == [("a", 2)]
    assert sorted(os.listdir(path.parent))[0] == path.name
    assert any(name.startswith(f"{path.name}.{os.getpid()}-") for name in os.listdir(path.parent))
    first.backend.commit(first.store)
    second.backend.release()
    first.backend.release()
    assert os.listdir(path.parent) == [path.name]


def test_a_locked_file_is_never_removed(rig, path):
    first = rig(Count())
    first.bundle([("a", 0, 0)])
    first.open()
    before = path.stat().st_ino
    rig(Count(), MemoryStore(first.store.committed)).bundle([("a", 0, 0)])
    assert path.stat().st_ino == before


@pytest.mark.parametrize("told", [True, False])
def test_a_bundle_that_did_not_commit_is_not_seen_again(rig, path, told):
    counting = rig(Count())
    counting.bundle([("a", 0, 0)])
    counting.open()
    clocks = Clocks(NEVER, NEVER, 0)
    elements = counting.runner.elements([("a", 0)], [0])
    for part in counting.backend.parts(elements.slots, clocks, counting.runner):
        counting.runner.run(part.state, elements, clocks, 0)
    if told:
        counting.backend.abandon()
    assert counting.bundle([("a", 0, 0)]) == [("a", 2)]
    assert os.listdir(path.parent).count(path.name) == 1
    assert not [name for name in os.listdir(path.parent) if str(os.getpid()) in name]


def test_a_bundle_that_changed_nothing_writes_nothing(rig):
    counting = rig(Count())
    counting.bundle([("a", 0, 0)])
    before = dict(counting.store.committed)
    counting.bundle()
    assert counting.store.committed == before


def test_a_snapshot_is_read_part_by_part_and_heap_reads_it(path):
    store = MemoryStore()
    options = SnapshotOptions(deltas_max=1, segment_bytes_max=1)
    on_disk = Rig(Count(), lambda layout: DiskBackend(layout, path, options, part_keys=3), store)
    on_disk.bundle([(key, 0, 0) for key in range(10)])
    on_disk.bundle([(key, 0, 0) for key in range(5)])
    on_disk.backend.release()
    assert sum(name.startswith("s") for name in store.committed) == 4
    assert delta_name(1) not in store.committed
    heap = Rig(Count(), HeapBackend, store)
    assert heap.bundle([(0, 0, 0), (9, 0, 0)]) == [(0, 3), (9, 2)]


SCRIPT = """
import sys
from holdfast import DoFn, FixedWindows, ValueStateSpec
from holdfast.testing import TestStream, run

class Keep(DoFn):
    CELL = ValueStateSpec("cell")
    def process(self, element, cell=DoFn.StateParam(CELL)):
        cell.write(element[1])

stream = TestStream().add_elements([(f"key {n}", n) for n in range(40)], event_timestamp=1)
stream.add_elements([(f"key {n}", n) for n in range(20)], event_timestamp=11)
out = run(Keep(), stream.advance_watermark_to(15), windowing=FixedWindows(10), backend="disk")
print(out.stores[0].committed["head"].hex())
"""


def test_the_same_bundles_give_the_same_bytes_in_any_process():
    def head(seed: str) -> bytes:
        environment = os.environ | {"PYTHONHASHSEED": seed}
        return subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, check=True).stdout

    assert head("1") == head("2")


def test_the_state_of_a_run_is_read_from_the_log():
    out = run(Count(), TestStream().add_elements([("a", 1), ("b", 1)]).crash().add_elements([("a", 1)]), backend="disk")
    assert out.state("a") == {"count": 2}
    assert out.keys() == ["a", "b"]
