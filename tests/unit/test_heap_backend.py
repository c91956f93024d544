"""The heap backend: what it writes and when, and what it reads."""

from __future__ import annotations

import base64
import dataclasses
import random
from typing import Any

import pytest

from holdfast.engine.backends.heap import HEAD, HeapBackend, HeapOptions, delta_name, segment_name
from holdfast.engine.log.blob import DELTA, SEGMENT, plain_size, read_blob
from holdfast.engine.log.head import NO_TOKEN, Head
from holdfast.engine.state.key_group import Layout
from holdfast.engine.tables import Focus, make_cell
from holdfast.errors import CorruptState, StateConflict
from holdfast.model.functions.dofn import DoFn
from holdfast.model.functions.options import StepOptions
from holdfast.model.functions.step import build_step
from holdfast.model.state.specs import BagStateSpec, ValueStateSpec
from holdfast.model.windows.ready import FixedWindows, GlobalWindow, IntervalWindow
from holdfast.testing.memory_store import MemoryStore


class Kept(DoFn):
    VALUE = ValueStateSpec("value")
    BAG = BagStateSpec("bag")

    def process(self, element, value=DoFn.StateParam(VALUE), bag=DoFn.StateParam(BAG)):
        pass


class Renamed(DoFn):
    VALUE = ValueStateSpec("amount")

    def process(self, element, value=DoFn.StateParam(VALUE)):
        pass


LAYOUT = Layout(build_step(Kept()))


class CountingStore(MemoryStore):
    """Notes what is written and read."""

    def __init__(self, blobs: dict[str, bytes] | None = None) -> None:
        super().__init__(blobs)
        self.written: list[tuple[str, int]] = []
        self.read: list[str] = []

    def get(self, name: str) -> bytes | None:
        self.read.append(name)
        return super().get(name)

    def put(self, name: str, blob: bytes) -> None:
        self.written.append((name, len(blob)))
        super().put(name, blob)


def write(backend: HeapBackend, store: MemoryStore, **values: Any) -> Any:
    """A bundle that writes these values under these keys."""
    state = backend.open(store)
    cell: Any = make_cell(LAYOUT.cells[0], focus := Focus(), None)
    cell.attach(state.window(GlobalWindow()).tables[0])
    for focus.key, value in values.items():
        cell.write(value)
    commit = backend.commit(store)
    store.commit()
    return commit


def append(backend: HeapBackend, store: MemoryStore, key: str, value: Any) -> Any:
    state = backend.open(store)
    cell: Any = make_cell(LAYOUT.cells[1], focus := Focus(), None)
    cell.attach(state.window(GlobalWindow()).tables[1])
    focus.key = key
    cell.add(value)
    commit = backend.commit(store)
    store.commit()
    return commit


def noise(seed: int, length: int) -> str:
    """Text that cannot be compressed by much, always the same."""
    return base64.b64encode(random.Random(seed).randbytes(length)).decode()[:length]


def values_in(backend: HeapBackend, store: MemoryStore) -> dict[Any, Any]:
    return dict(backend.open(store).window(GlobalWindow()).tables[0].values)


def head_of(store: MemoryStore) -> Head:
    return Head.decode(store.committed.get(HEAD))


# --- deltas -------------------------------------------------------------------------------------------------------


def test_a_bundle_writes_its_delta_and_the_head():
    backend, store = HeapBackend(LAYOUT), CountingStore()
    commit = write(backend, store, a=1)
    assert [name for name, _ in store.written] == ["d0000000000000001", "head"]
    assert (commit.delta_bytes, commit.snapshot_bytes) == (len(store.committed[delta_name(1)]), 0)
    head = head_of(store)
    assert (head.base, head.last, head.parts, head.base_token) == (0, 1, 0, NO_TOKEN)
    assert head.delta_bytes == commit.delta_bytes
    blob = read_blob(store.committed[delta_name(1)], "d1")
    assert (blob.kind, blob.sequence, blob.parent, blob.token) == (DELTA, 1, NO_TOKEN, head.token)


def test_a_delta_has_only_what_changed():
    backend, store = HeapBackend(LAYOUT), MemoryStore()
    first = write(backend, store, **{f"key {n}": noise(n, 100) for n in range(100)})
    second = write(backend, store, **{"key 5": noise(0, 100)})
    assert second.delta_bytes < first.delta_bytes / 30


def test_a_bundle_that_changed_nothing_writes_nothing():
    backend, store = HeapBackend(LAYOUT), CountingStore()
    write(backend, store, a=1)
    store.written.clear()
    commit = write(backend, store)
    assert store.written == []
    assert (commit.delta_bytes, commit.snapshot_bytes) == (0, 0)
    assert values_in(backend, store) == {"a": 1}


def test_the_first_bundle_that_changed_nothing_writes_nothing():
    backend, store = HeapBackend(LAYOUT), CountingStore()
    write(backend, store)
    assert store.written == []
    assert store.committed == {}


def test_a_value_that_is_written_again_as_it_was_is_a_change_all_the_same():
    # Comparing would cost every write; the log says what was written.
    backend, store = HeapBackend(LAYOUT), MemoryStore()
    assert write(backend, store, a=1).delta_bytes == write(backend, store, a=1).delta_bytes > 0
    assert head_of(store).last == 2


def test_the_same_changes_give_the_same_bytes_in_any_worker():
    stores = MemoryStore(), MemoryStore()
    for store in stores:
        backend = HeapBackend(LAYOUT)
        write(backend, store, b=1, a=2)
        append(backend, store, "b", [3])
    assert stores[0].committed == stores[1].committed


# --- snapshots ----------------------------------------------------------------------------------------------------


def test_a_snapshot_takes_the_place_of_the_deltas_once_they_are_too_many():
    backend, store = HeapBackend(LAYOUT, HeapOptions(deltas_max=3)), MemoryStore()
    commits = [write(backend, store, **{f"k{n}": n}) for n in range(9)]
    assert [bool(commit.snapshot_bytes) for commit in commits] == [False, False, False, True] * 2 + [False]
    assert [bool(commit.delta_bytes) for commit in commits] == [True, True, True, False] * 2 + [True]
    assert sorted(store.committed) == [delta_name(9), HEAD, segment_name(8, 0)]
    assert values_in(HeapBackend(LAYOUT), store) == {f"k{n}": n for n in range(9)}


def test_a_snapshot_is_written_when_the_deltas_outgrow_the_last_one():
    options = HeapOptions(delta_bytes_min=1000, snapshot_ratio=2.0)
    backend, store = HeapBackend(LAYOUT, options), MemoryStore()
    deltas, snapshot, sizes = 0, 0, []
    for n in range(200):
        commit = write(backend, store, **{f"k{n % 50}": noise(n, 50)})
        if commit.snapshot_bytes:
            # The delta that is not written any more, being in the snapshot, is as long as the others.
            assert deltas + sizes[-1] + 2 > max(1000, 2 * snapshot)
            deltas, snapshot = 0, plain_size(store.committed[segment_name(head_of(store).base, 0)])
        else:
            deltas += commit.delta_bytes
            sizes.append(commit.delta_bytes)
            assert deltas <= max(1000, 2 * snapshot)
        assert (head_of(store).delta_bytes, head_of(store).snapshot_bytes) == (deltas, snapshot)
    assert snapshot > 2000


@pytest.mark.parametrize("ratio", [1.0, 3.0])
def test_what_is_written_is_in_proportion_to_what_changed(ratio):
    """The cost of snapshots is paid for by the deltas that led to them, however large the state grows."""
    backend = HeapBackend(LAYOUT, HeapOptions(delta_bytes_min=2000, snapshot_ratio=ratio, deltas_max=10**9))
    unsnapshot = HeapBackend(LAYOUT, HeapOptions(delta_bytes_min=10**9, deltas_max=10**9))
    store, plain_store = MemoryStore(), MemoryStore()
    written = changed = snapshots = 0
    for n in range(600):
        commit = append(backend, store, f"k{n % 97}", noise(n, n % 60))
        written += commit.delta_bytes + commit.snapshot_bytes
        snapshots += bool(commit.snapshot_bytes)
        changed += append(unsnapshot, plain_store, f"k{n % 97}", noise(n, n % 60)).delta_bytes
    assert snapshots >= 4
    assert written <= 3 * changed
    assert sum(map(len, store.committed.values())) <= 96 + written


def test_a_snapshot_is_cut_into_segments():
    options = HeapOptions(deltas_max=0, segment_bytes_max=500)
    backend, store = HeapBackend(Layout(build_step(Kept(), StepOptions(windowing=FixedWindows(10)))), options), MemoryStore()
    state = backend.open(store)
    cell: Any = make_cell(LAYOUT.cells[0], focus := Focus(), None)
    focus.key = "k"
    for start in range(0, 200, 10):
        cell.attach(state.window(IntervalWindow(start, start + 10)).tables[0])
        cell.write("x" * 100)
    commit = backend.commit(store)
    store.commit()
    head = head_of(store)
    names = [segment_name(1, part) for part in range(head.parts)]
    assert head.parts == 5  # four windows of some 120 bytes fit into one
    assert sorted(store.committed) == [HEAD, *names]
    assert commit.snapshot_bytes == head.snapshot_bytes == sum(len(store.committed[name]) for name in names)
    for part, name in enumerate(names):
        blob = read_blob(store.committed[name], name)
        assert (blob.kind, blob.part) == (SEGMENT, part)
        assert (blob.sequence, blob.parent) == (head.base, head.base_token) == (1, head.token)
        assert sum(len(section.keys) + sum(map(len, section.columns)) for section in blob.sections) <= 500
    read = HeapBackend(Layout(build_step(Kept(), StepOptions(windowing=FixedWindows(10))))).open(
        MemoryStore(store.committed)
    )
    assert len(read.windows) == 20


def test_the_snapshot_of_an_empty_state_has_no_segments():
    backend, store = HeapBackend(LAYOUT, HeapOptions(deltas_max=1)), MemoryStore()
    write(backend, store, a=1)
    state = backend.open(store)
    state.window(GlobalWindow()).tables[0].drop("a")  # type: ignore[attr-defined]
    backend.commit(store)
    store.commit()
    assert list(store.committed) == [HEAD]
    assert (head_of(store).parts, head_of(store).base, head_of(store).last) == (0, 2, 2)
    assert values_in(HeapBackend(LAYOUT), store) == {}


@pytest.mark.parametrize(("kept", "most"), [(0, 200), (800_000, 200), (4_000_000, 976)])
def test_small_deltas_pay_for_a_large_snapshot(kept, most):
    options = HeapOptions()
    head = Head(base=10, last=10 + most, snapshot_bytes=kept, delta_bytes=most * 150)
    assert not options.is_due(head)
    assert options.is_due(dataclasses.replace(head, last=head.last + 1))
    assert not HeapOptions(spread=0.5).is_due(dataclasses.replace(head, last=10 + most * 3 // 2))
    assert HeapOptions(spread=0.5).is_due(dataclasses.replace(head, last=11 + most * 3 // 2))
    assert HeapOptions(deltas_max=100).is_due(head)


def test_spread_shifts_the_limits():
    options = HeapOptions(snapshot_ratio=2.0, delta_bytes_min=1000, deltas_max=10, spread=0.5)
    assert (options.snapshot_ratio, options.delta_bytes_min, options.deltas_max) == (3.0, 1500, 15)


# --- reading ------------------------------------------------------------------------------------------------------


def test_a_worker_that_wrote_the_last_bundle_reads_only_the_head():
    backend, store = HeapBackend(LAYOUT), CountingStore()
    write(backend, store, a=1)
    store.read.clear()
    assert values_in(backend, store) == {"a": 1}
    assert store.read == [HEAD]
    assert (backend.loads, backend.catch_ups) == (0, 0)


def test_a_worker_that_is_behind_reads_only_what_it_missed():
    first, second, store = HeapBackend(LAYOUT), HeapBackend(LAYOUT), CountingStore()
    write(first, store, a=1)
    write(second, store, b=2)
    write(second, store, c=3)
    store.read.clear()
    assert values_in(first, store) == {"a": 1, "b": 2, "c": 3}
    assert store.read == [HEAD, delta_name(2), delta_name(3)]
    assert (first.loads, first.catch_ups) == (0, 1)


def test_a_worker_that_is_behind_the_snapshot_reads_everything():
    first, second, store = HeapBackend(LAYOUT), HeapBackend(LAYOUT, HeapOptions(deltas_max=0)), MemoryStore()
    write(first, store, a=1)
    write(second, store, b=2)
    write(second, store, c=3)
    assert values_in(first, store) == {"a": 1, "b": 2, "c": 3}
    assert (first.loads, first.catch_ups) == (1, 0)


def test_a_worker_that_has_just_the_snapshot_goes_on_from_there():
    first, second, store = HeapBackend(LAYOUT, HeapOptions(deltas_max=0)), HeapBackend(LAYOUT), MemoryStore()
    write(first, store, a=1)
    write(second, store, b=2)
    assert values_in(first, store) == {"a": 1, "b": 2}
    assert (first.loads, first.catch_ups) == (0, 1)
    assert (second.loads, second.catch_ups) == (1, 0)


def test_a_fresh_worker_reads_everything():
    first, second, store = HeapBackend(LAYOUT), HeapBackend(LAYOUT), MemoryStore()
    write(first, store, a=1)
    commit = write(second, store, b=2)
    assert (second.loads, second.catch_ups) == (1, 0)
    assert (commit.loads, commit.catch_ups) == (1, 0)
    commit = write(second, store, b=3)
    assert (commit.loads, commit.catch_ups) == (0, 0)


@pytest.mark.parametrize("told", [True, False])
def test_a_bundle_that_did_not_commit_is_not_seen_again(told):
    backend, store = HeapBackend(LAYOUT), MemoryStore()
    write(backend, store, a=1)
    backend.open(store).window(GlobalWindow()).tables[0].put("a", 2)  # type: ignore[attr-defined]
    if told:
        backend.abandon()
    assert values_in(backend, store) == {"a": 1}
    assert backend.loads == 1


def test_a_commit_that_failed_is_not_seen_again():
    backend, store = HeapBackend(LAYOUT), MemoryStore()
    write(backend, store, a=1)
    backend.open(store).window(GlobalWindow()).tables[0].put("a", 2)  # type: ignore[attr-defined]

    class Full(MemoryStore):
        def put(self, name: str, blob: bytes) -> None:
            raise OSError("no room")

    with pytest.raises(OSError, match="no room"):
        backend.commit(Full(store.committed))
    assert values_in(backend, store) == {"a": 1}


def test_a_copy_of_what_was_rolled_back_is_thrown_away():
    backend, store = HeapBackend(LAYOUT), MemoryStore()
    write(backend, store, a=1)
    versions = [dict(store.committed)]
    write(backend, store, a=2)
    assert values_in(backend, MemoryStore(versions[0])) == {"a": 1}
    assert (backend.loads, backend.catch_ups) == (1, 0)


# --- damage -------------------------------------------------------------------------------------------------------


def damaged_store(**options: Any) -> MemoryStore:
    backend, store = HeapBackend(LAYOUT, HeapOptions(**options)), MemoryStore()
    for n in range(4):
        write(backend, store, **{f"k{n}": n})
    return store


def test_a_delta_that_is_missing_is_named():
    store = damaged_store()
    store.remove(delta_name(2))
    with pytest.raises(CorruptState, match="'d0000000000000002' is missing between 0 and 4"):
        HeapBackend(LAYOUT).open(store)


def test_a_segment_that_is_missing_is_named():
    store = damaged_store(deltas_max=2)
    store.remove(segment_name(3, 0))
    with pytest.raises(CorruptState, match=r"'s0000000000000003\.0000', one of 1, is missing"):
        HeapBackend(LAYOUT).open(store)


def test_a_head_that_is_missing_is_not_an_empty_log():
    store = damaged_store()
    store.remove(HEAD)
    with pytest.raises(CorruptState, match="'head' is missing"):
        HeapBackend(LAYOUT).open(store)


def test_a_delta_in_the_place_of_the_snapshot_is_refused():
    # It has the same parent as the segment; taken for one it would be applied twice, and the rest would be lost.
    store = damaged_store(deltas_max=2)
    assert head_of(store).parts == 1
    store.put(segment_name(3, 0), store.committed[delta_name(4)])
    with pytest.raises(CorruptState, match=r"'s0000000000000003\.0000'"):
        HeapBackend(LAYOUT).open(store)


def test_a_segment_in_the_place_of_a_missed_delta_is_refused():
    first, second, store = HeapBackend(LAYOUT, HeapOptions(deltas_max=0)), HeapBackend(LAYOUT), MemoryStore()
    write(first, store, a=1)
    write(second, store, b=2)
    write(second, store, c=3)
    store.put(delta_name(2), store.committed[segment_name(1, 0)])
    with pytest.raises(CorruptState, match="'d0000000000000002' does not follow"):
        first.open(store)


@pytest.mark.parametrize("is_fresh", [True, False])
@pytest.mark.parametrize("last", [2, 3])
def test_a_delta_of_an_attempt_that_was_not_committed_is_refused(is_fresh, last):
    first, second, store = HeapBackend(LAYOUT), HeapBackend(LAYOUT), MemoryStore()
    write(first, store, a=1)
    attempted = MemoryStore(store.committed)
    write(HeapBackend(LAYOUT), attempted, b=-2)  # has the same parent and number as the delta that counts
    for n in range(2, last + 1):
        write(second, store, b=n)
    store.put(delta_name(2), attempted.committed[delta_name(2)])
    with pytest.raises(CorruptState, match=f"{delta_name(last)!r} does not follow"):
        (HeapBackend(LAYOUT) if is_fresh else first).open(store)


@pytest.mark.parametrize("last", [2, 3])
def test_a_delta_of_an_attempt_that_was_not_committed_is_refused_after_a_snapshot(last):
    first, store = HeapBackend(LAYOUT, HeapOptions(deltas_max=0)), MemoryStore()
    write(first, store, a=1)
    attempted = MemoryStore(store.committed)
    write(HeapBackend(LAYOUT), attempted, b=-2)
    for n in range(2, last + 1):
        write(HeapBackend(LAYOUT), store, b=n)
    store.put(delta_name(2), attempted.committed[delta_name(2)])
    with pytest.raises(CorruptState, match=f"{delta_name(last)!r} does not follow"):
        HeapBackend(LAYOUT).open(store)


def test_a_worker_is_none_the_worse_for_damage_it_met():
    store = damaged_store()
    backend = HeapBackend(LAYOUT)
    values_in(backend, store)
    backend.commit(store)
    loads = backend.loads
    bad = MemoryStore(store.committed | {HEAD: b"?"})
    with pytest.raises(CorruptState):
        backend.open(bad)
    assert values_in(backend, store) == {f"k{n}": n for n in range(4)}
    assert backend.loads == loads


def test_a_cell_that_the_step_does_not_declare_is_a_conflict():
    with pytest.raises(StateConflict, match="has a cell 'value', which the step 'Renamed' does not declare"):
        HeapBackend(Layout(build_step(Renamed()))).open(damaged_store())
