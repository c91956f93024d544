"""Cells with a time to live."""

from __future__ import annotations

import pytest

import holdfast as hf
from holdfast.testing import TestStream

HOUR = 3600


def seen_fn(**ttl):
    class Seen(hf.DoFn):
        SEEN = hf.ValueStateSpec("seen", hf.VarIntCoder(), ttl=hf.Ttl(HOUR, **ttl))

        def process(self, element, seen=hf.DoFn.StateParam(SEEN)):
            key, do = element
            if do == "write":
                seen.write((seen.read() or 0) + 1)
            elif do == "overwrite":
                seen.write(1)
            yield key, seen.read()

    return Seen()


def test_what_is_not_touched_is_gone(run):
    stream = TestStream().add_elements([("a", "write")]).advance_processing_time(HOUR - 1).add_elements([("a", "read")])
    stream.advance_processing_time(1).add_elements([("a", "read")])
    results = run(seen_fn(), stream)
    assert results.values == [("a", 1), ("a", 1), ("a", None)]
    assert results.state("a") == {}
    assert results.metrics.cells_expired == 1


def test_a_write_keeps_it(run):
    stream = TestStream().add_elements([("a", "write")]).advance_processing_time(HOUR - 1).add_elements([("a", "write")])
    stream.advance_processing_time(HOUR - 1).add_elements([("a", "read")])
    assert run(seen_fn(), stream).values == [("a", 1), ("a", 2), ("a", 2)]


@pytest.mark.parametrize(("refresh", "then"), [("write", None), ("read", 1)])
def test_a_read_keeps_it_if_that_is_wanted(run, refresh, then):
    stream = TestStream().add_elements([("a", "write")]).advance_processing_time(HOUR - 1).add_elements([("a", "read")])
    stream.advance_processing_time(HOUR - 1).add_elements([("a", "read")])
    assert run(seen_fn(refresh=refresh), stream).values == [("a", 1), ("a", 1), ("a", then)]


def test_keys_that_are_never_seen_again_are_swept(run):
    stream = TestStream().add_elements([(f"k{n}", "write") for n in range(20)]).advance_processing_time(HOUR)
    stream.add_elements([("other", "write")])
    results = run(seen_fn(), stream)
    assert results.keys() == ["other"]
    assert results.metrics.cells_expired == 20


class Careless(hf.DoFn):
    """Looks at what it has and may fail after that."""

    SEEN = hf.ValueStateSpec("seen", hf.VarIntCoder(), ttl=hf.Ttl(HOUR))

    def process(self, element, seen=hf.DoFn.StateParam(SEEN)):
        key, does_fail = element
        seen.write((seen.read() or 0) + 1)
        if does_fail:
            raise ValueError("after all")
        yield key, seen.read()


def test_what_expired_in_calls_that_were_taken_back_is_counted_once(run):
    # More than a bundle sweeps, so that the calls come first to the last of them.
    keys = [f"k{n:04}" for n in range(1_100)]
    stream = TestStream().add_elements([(key, False) for key in keys]).advance_processing_time(HOUR)
    stream.add_elements([(keys[-1], True), (keys[-1], True), (keys[-1], False)])
    results = run(Careless(), stream, on_error="dead_letter")
    assert results.metrics.dead_letters == 2
    assert results.keys() == [keys[-1]]
    assert results.metrics.cells_expired == len(keys)


def at(time, *pairs):
    return [hf.TimestampedValue(pair, time) for pair in pairs]


def test_event_time(run):
    stream = TestStream().advance_watermark_to(100).add_elements(at(100, ("a", "write")))
    stream.advance_processing_time(10 * HOUR).add_elements(at(100, ("a", "read")))
    stream.advance_watermark_to(100 + HOUR).add_elements(at(100 + HOUR, ("a", "read")))
    results = run(seen_fn(time="event"), stream)
    assert results.values == [("a", 1), ("a", 1), ("a", None)]


def test_event_time_counts_from_the_element_that_touched_it(run):
    stream = TestStream().add_elements(at(1000, ("a", "write"))).advance_watermark_to(HOUR)
    stream.add_elements(at(HOUR, ("a", "read"))).advance_watermark_to(1000 + HOUR).add_elements(at(9999, ("a", "read")))
    assert run(seen_fn(time="event"), stream).values == [("a", 1), ("a", 1), ("a", None)]


def test_a_touch_at_the_end_of_the_input(run):
    class Late(hf.DoFn):
        SEEN = hf.ValueStateSpec("seen", ttl=hf.Ttl(HOUR, time="event"))
        SOON = hf.TimerSpec("soon", hf.TimeDomain.WATERMARK)

        def process(self, element, soon=hf.DoFn.TimerParam(SOON)):
            soon.set(100)

        @hf.on_timer(SOON)
        def fire(self, seen=hf.DoFn.StateParam(SEEN)):
            seen.write(1)

    results = run(Late(), TestStream().add_elements([("a", 1)]).advance_watermark_to_infinity())
    assert results.state("a") == {"seen": 1}


def test_an_element_that_is_behind_does_not_shorten_it(run):
    stream = TestStream().add_elements(at(1000, ("a", "write"))).add_elements(at(10, ("a", "write")))
    stream.advance_watermark_to(999 + HOUR).add_elements(at(5000, ("a", "read")))
    assert run(seen_fn(time="event"), stream).values == [("a", 1), ("a", 2), ("a", 2)]


def test_a_new_value_after_the_old_expired_does_not_continue_it(run):
    stream = TestStream().add_elements([("a", "write")]).advance_processing_time(HOUR).add_elements([("a", "write")])
    assert run(seen_fn(), stream).values == [("a", 1), ("a", 1)]


def test_survives_a_crash(run):
    stream = TestStream().add_elements([("a", "write"), ("b", "write")]).crash().advance_processing_time(HOUR - 1)
    stream.add_elements([("b", "write")]).crash().advance_processing_time(1).crash().add_elements([("b", "read")])
    results = run(seen_fn(), stream)
    assert results.values == [("a", 1), ("b", 1), ("b", 2), ("b", 2)]
    assert results.keys() == ["b"]


class Kinds(hf.DoFn):
    BAG = hf.BagStateSpec("bag", ttl="1 hour")
    SET = hf.SetStateSpec("set", ttl="1 hour")
    MAP = hf.MapStateSpec("map", ttl="1 hour")
    ORDERED = hf.OrderedListStateSpec("ordered", ttl="1 hour")
    SUM = hf.CombiningStateSpec("sum", sum, ttl="1 hour")

    def process(
        self,
        element,
        bag=hf.DoFn.StateParam(BAG),
        members=hf.DoFn.StateParam(SET),
        mapping=hf.DoFn.StateParam(MAP),
        ordered=hf.DoFn.StateParam(ORDERED),
        total=hf.DoFn.StateParam(SUM),
    ):
        value = element[1]
        if value is not None:
            bag.add(value)
            members.add(value)
            mapping.put("k", value)
            ordered.add((value, value))
            total.add(value)
        yield list(bag.read()), members.read(), mapping.get("k"), [v for _, v in ordered.read()], total.read()


def test_every_kind_of_cell(run):
    stream = TestStream().add_elements([("a", 1)]).advance_processing_time(1800).add_elements([("a", 2)])
    stream.advance_processing_time(3599).add_elements([("a", None)]).advance_processing_time(1).add_elements([("a", None)])
    results = run(Kinds(), stream)
    full = ([1, 2], {1, 2}, 2, [1, 2], 3)
    assert results.values == [([1], {1}, 1, [1], 1), full, full, ([], set(), None, [], 0)]
    assert results.keys() == []


def test_a_call_that_raises_leaves_the_time_as_it_was(run):
    class Fragile(hf.DoFn):
        SEEN = hf.ValueStateSpec("seen", ttl=HOUR)

        def process(self, element, seen=hf.DoFn.StateParam(SEEN)):
            if element[1] != "read":
                seen.write(element[1])
            if element[1] == "bad":
                raise ValueError("bad")
            yield seen.read()

    stream = TestStream().add_elements([("a", 1)]).advance_processing_time(HOUR - 1).add_elements([("a", "bad")])
    stream.advance_processing_time(1).add_elements([("a", "read")])
    assert run(Fragile(), stream, on_error="dead_letter").values == [1, None]


def test_in_windows(run):
    stream = TestStream().add_elements([hf.TimestampedValue(("a", "write"), time) for time in (1, 61)])
    stream.advance_processing_time(HOUR).add_elements([hf.TimestampedValue(("a", "read"), time) for time in (1, 61)])
    values = run(seen_fn(), stream, windowing=hf.FixedWindows(60)).values
    assert values == [("a", 1), ("a", 1), ("a", None), ("a", None)]


def test_what_a_key_has_in_several_windows_is_swept_together(run):
    stream = TestStream().add_elements([hf.TimestampedValue(("a", "write"), time) for time in (1, 61, 121)])
    results = run(seen_fn(), stream.advance_processing_time(HOUR), windowing=hf.FixedWindows(60))
    assert results.metrics.cells_expired == 3
    assert results.keys() == []


def test_a_bundle_sweeps_only_so_many(run):
    """And until its turn, a value that may be seen when it has expired can be."""
    many = [(n, "write") for n in range(2_500)]
    stream = TestStream().add_elements(many).advance_processing_time(HOUR).add_elements([(2_499, "read")])
    results = run(seen_fn(expired="until_cleaned"), stream)
    # The bundle that moves the clock removes 1,000; the next 1,000 and two for its element.
    assert results.metrics.cells_expired == 2_002
    assert results.values[-1] == (2_499, 1)
    results = run(seen_fn(), stream)
    assert results.values[-1] == (2_499, None)


@pytest.mark.parametrize(("expired", "seen"), [("until_cleaned", 1), ("never", None)])
def test_a_read_does_not_revive_what_has_expired(run, expired, seen):
    many = [(n, "write") for n in range(2_500)]
    stream = TestStream().add_elements(many).advance_processing_time(HOUR).add_elements([(2_499, "read")]).crash()
    stream.advance_processing_time(1).add_elements([(2_499, "read")])
    results = run(seen_fn(refresh="read", expired=expired), stream)
    assert results.values[-2:] == [(2_499, seen), (2_499, None)]
    assert results.metrics.cells_expired == 2_500
    assert results.keys() == []


@pytest.mark.parametrize(
    ("ttl", "says"),
    [
        (-1, "longer than zero"),
        ("soon", "not a duration"),
    ],
)
def test_what_is_refused(run, ttl, says):
    class Wrong(hf.DoFn):
        CELL = hf.ValueStateSpec("cell", ttl=ttl)

        def process(self, element, cell=hf.DoFn.StateParam(CELL)):
            pass

    with pytest.raises(hf.InvalidStep, match=says):
        run(Wrong(), TestStream())
