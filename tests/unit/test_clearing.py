"""State removed by hand is as if the function had cleared it, whatever the engine keeps beside it."""

from __future__ import annotations

import pytest

import holdfast as hf
from holdfast.engine.state.keys import slot_of, slot_to_bytes
from holdfast.engine.stored.reading import Blobs, StoredGroup, read_group
from holdfast.ops.move.clearing import Mark, cleared, packed_marks, unpacked_marks
from holdfast.testing import TestStream, run

ORIGIN = b"an operation that was"


class Cells(hf.DoFn):
    """One of each, a time to live, timers with and without tags; the value "clear" empties all of it."""

    COUNT = hf.ValueStateSpec("count", hf.VarIntCoder())
    BAG = hf.BagStateSpec("bag", ttl=hf.Ttl("1 hour", time="event"))
    DUE = hf.TimerSpec("due")

    def process(
        self,
        element,
        at=hf.DoFn.TimestampParam,
        count=hf.DoFn.StateParam(COUNT),
        bag=hf.DoFn.StateParam(BAG),
        due=hf.DoFn.TimerParam(DUE),
    ):
        key, value = element
        if value == "clear":
            count.clear()
            bag.clear()
            due.clear()
            due.clear("x")
            return
        count.write((count.read() or 0) + 1)
        bag.add(value)
        due.set(at + 100)
        due.set(at + 200, dynamic_timer_tag="x")
        yield key, count.read(), list(bag.read())

    @hf.on_timer(DUE)
    def fire(self, key=hf.DoFn.KeyParam, tag=hf.DoFn.DynamicTimerTagParam, at=hf.DoFn.TimestampParam):
        yield key, tag, at.micros


def mark(key: object, table: str | None = None, tag: str | None = None, window: bytes = b"") -> Mark:
    return Mark(slot_to_bytes(slot_of(key)), window, table, tag)


def elements(*pairs, at: int = 0) -> TestStream:
    return TestStream().add_elements([hf.TimestampedValue(pair, at) for pair in pairs])


def without(results, *marks: Mark):
    """The results of a run, with its state as it is when marks have been cleared from it."""
    for store in results.stores:
        store.committed = dict(cleared(Blobs(store.committed), marks, ORIGIN).items())
    return results


def group(results) -> StoredGroup:
    (store,) = results.stores
    return read_group(Blobs(store.committed))


def everything(results) -> dict[tuple[str, str], bytes]:
    """What is stored of each key, the engine's own too."""
    found = group(results)
    return {
        (str(slot), window.data.hex()): window.pack(slot)
        for window in found.state.windows.values()
        for slot in window.slots()
    }


PLAIN = [mark("a", "count"), mark("a", "bag"), mark("a", "~timer:due"), mark("a", "~tags:due", "x")]
BACKENDS = pytest.mark.parametrize("backend", ["heap", "disk"])


@BACKENDS
@pytest.mark.parametrize("marks", [PLAIN, [mark("a")]], ids=["each cell", "the key"])
def test_as_if_the_function_had_cleared_it(backend, marks):
    before = run(Cells(), elements(("a", 1), ("b", 2), ("a", 3)), name="step", backend=backend)
    by_function = run(Cells(), elements(("a", "clear"), at=1), name="step", start_from=before, backend=backend)
    by_hand = without(before, *marks)
    assert everything(by_hand) == everything(by_function)
    later = elements(("a", 5), ("b", 6), at=50).advance_watermark_to(1_000)
    expected = run(Cells(), later, name="step", start_from=by_function, backend=backend)
    found = run(Cells(), later, name="step", start_from=by_hand, backend=backend)
    assert found.values == expected.values
    assert ("a", 1, [5]) in found.values
    assert everything(found) == everything(expected)


def test_one_cell_and_the_stamp_of_its_time_to_live():
    results = without(run(Cells(), elements(("a", 1), ("b", 2))), mark("a", "bag"))
    found = {(cell.slot, cell.spec.name) for cell in group(results).cells()}
    names = {name for slot, name in found if slot == slot_of("a")}
    assert names == {"count", "~timer:due", "~tags:due"}
    assert {name for slot, name in found if slot == slot_of("b")} == names | {"bag", "~ttl:bag"}


def test_one_of_several_tags():
    class Tags(hf.DoFn):
        DUE = hf.TimerSpec("due")

        def process(self, element, due=hf.DoFn.TimerParam(DUE)):
            for tag in ("x", "y"):
                due.set(100, dynamic_timer_tag=tag)
            return []

        @hf.on_timer(DUE)
        def fire(self, tag=hf.DoFn.DynamicTimerTagParam):
            yield tag

    before = without(run(Tags(), elements(("a", 1)), name="step"), mark("a", "~tags:due", "x"))
    assert run(Tags(), TestStream().advance_watermark_to(200), name="step", start_from=before).values == ["y"]
    gone = without(before, mark("a", "~tags:due", "y"))
    assert everything(gone) == {}


@BACKENDS
@pytest.mark.parametrize("policy", ["over_limit", "evict_lru", "evict_oldest"])
def test_limits_count_what_is_left(backend, policy):
    options = {"limits": hf.Limits(max_keys=2, policy=policy), "name": "step", "backend": backend}
    before = without(run(Cells(), elements(("a", 1), ("b", 2)), **options), mark("a"))
    after = run(Cells(), elements(("c", 3), ("b", 4), at=1), start_from=before, **options)
    assert after.values == [("c", 1, [3]), ("b", 2, [2, 4])]
    assert sorted(after.keys()) == ["b", "c"]


def test_a_key_without_cells_has_no_age():
    options = {"limits": hf.Limits(max_keys=2, policy="evict_lru"), "name": "step"}
    before = run(Cells(), elements(("a", 1), ("b", 2)), **options)
    assert [name for (name, _), packed in everything(before).items() if b"~age" in packed] != []
    left = without(before, *PLAIN)
    assert {slot for window in group(left).state.windows.values() for slot in window.slots()} == {slot_of("b")}


class AtEnd(hf.DoFn):
    """Tells of every key that a window has seen."""

    COUNT = hf.ValueStateSpec("count", hf.VarIntCoder())

    def process(self, element, count=hf.DoFn.StateParam(COUNT)):
        count.write((count.read() or 0) + 1)
        return []

    def on_window_expiration(self, key=hf.DoFn.KeyParam, count=hf.DoFn.StateParam(COUNT)):
        yield key, count.read()


def test_a_cell_goes_and_the_window_still_tells_of_the_key():
    options = {"windowing": hf.FixedWindows(10), "name": "step"}
    stream = elements(("a", 1), ("b", 2), at=1)
    (window,) = group(run(AtEnd(), stream, **options)).state.windows
    end = TestStream().advance_watermark_to(100)
    one_cell = without(run(AtEnd(), stream, **options), mark("a", "count", window=window))
    assert run(AtEnd(), end, start_from=one_cell, **options).values == [("a", None), ("b", 1)]
    whole = without(run(AtEnd(), stream, **options), mark("a", window=window))
    assert run(AtEnd(), end, start_from=whole, **options).values == [("b", 1)]


def test_only_in_the_window_that_is_meant():
    options = {"windowing": hf.FixedWindows(10), "name": "step"}
    stream = TestStream().add_elements([hf.TimestampedValue(("a", 1), at) for at in (1, 11)])
    before = run(AtEnd(), stream, **options)
    first, second = sorted(group(before).state.windows)
    left = without(before, mark("a", window=first))
    assert list(group(left).state.windows) == [second]


def test_an_aggregation_begins_anew():
    options = {"windowing": hf.FixedWindows(100), "name": "sums"}
    before = run(hf.CombinePerKey(sum), elements(("a", 5), ("b", 7)), **options)
    (window,) = group(before).state.windows
    later = elements(("a", 1), ("b", 1), at=1).advance_watermark_to_infinity()
    after = run(hf.CombinePerKey(sum), later, start_from=without(before, mark("a", window=window)), **options)
    assert sorted(after.values) == [("a", 1), ("b", 8)]


def test_elements_that_are_held_back_go_with_their_key():
    options = {"requires_time_sorted_input": True, "name": "step"}
    before = run(Cells(), elements(("a", 1), ("b", 2)), **options)
    left = without(before, mark("a"))
    after = run(Cells(), TestStream().advance_watermark_to(50), start_from=left, **options)
    assert after.values == [("b", 1, [2])]


def test_what_else_is_stored_with_a_key_group_stays():
    (store,) = run(Cells(), elements(("a", 1))).stores
    left = cleared(Blobs({**store.committed, "~clock": b"12345678"}), [mark("a")], ORIGIN)
    assert left.get("~clock") == b"12345678"
    assert left.get("~manifest") == store.committed["~manifest"]


def test_a_worker_cannot_mistake_it_for_what_it_knows():
    """Its log ends otherwise than the one before, and than that of another operation."""
    (store,) = run(Cells(), elements(("a", 1), ("b", 1))).stores
    ends = [group_end(cleared(Blobs(store.committed), [mark("a")], origin)) for origin in (b"1", b"2")]
    assert len({*ends, group_end(Blobs(store.committed))}) == 3


def group_end(blobs: Blobs) -> bytes:
    return read_group(blobs).head.token


def test_the_log_goes_on_with_larger_numbers():
    """Ages of keys are such numbers."""
    results = run(Cells(), elements(("a", 1)).add_elements([("b", 1)]))
    last = group(results).head.last
    assert group(without(results, mark("a"))).head.last > last


def test_marks_travel():
    marks = [mark(("de", 5), "count"), mark(1.5), mark("a", "~tags:due", "x", b"\x00\xff")]
    assert unpacked_marks(packed_marks(marks)) == marks
