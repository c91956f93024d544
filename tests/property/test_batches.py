"""A BatchDoFn beside a DoFn that does the same element by element: same outputs, same state, however the stream is cut."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import (
    BatchDoFn,
    BooleanCoder,
    DoFn,
    FixedWindows,
    FloatCoder,
    GlobalWindows,
    SlidingWindows,
    StrUtf8Coder,
    TaggedOutput,
    TimestampedValue,
    Ttl,
    ValueStateSpec,
    VarIntCoder,
)
from holdfast.engine.run.batch_columns import BatchElements
from holdfast.model.functions.batches import Batch
from holdfast.testing import Results, TestStream, run
from tiers import examples

SETTINGS = settings(max_examples=examples(100), deadline=None)
KEYS: list[Any] = ["a", "b", "c", 1, True, 1.5, ("a", 2)]


class Plain(DoFn):
    """A running total, the last value as text, and whether a key was ever seen: it goes after a time without elements."""

    TOTAL = ValueStateSpec("total", VarIntCoder())
    LAST = ValueStateSpec("last", StrUtf8Coder())
    SEEN = ValueStateSpec("seen", BooleanCoder(), ttl=Ttl(10, time="processing"))

    def process(
        self,
        element,
        total=DoFn.StateParam(TOTAL),
        last=DoFn.StateParam(LAST),
        seen=DoFn.StateParam(SEEN),
    ):
        key, value = element
        total.write((total.read() or 0) + value)
        if value == 7:
            last.clear()
        else:
            last.write(f"<{value}>")
        if not seen.read():
            yield TaggedOutput("first", {"key": key, "value": value})
        seen.write(True)
        yield {"key": key, "total": total.read()}


class Columns(BatchDoFn):
    """The same on columns."""

    def process_batch(
        self,
        batch,
        total=BatchDoFn.StateParam(Plain.TOTAL),
        last=BatchDoFn.StateParam(Plain.LAST),
        seen=BatchDoFn.StateParam(Plain.SEEN),
    ):
        values = batch.column()
        before = total.read(0)
        total.write(before + batch.reduce(np.add, values))
        newest = values[batch.last]
        last.write([f"<{value}>" for value in newest], where=newest != 7)
        last.clear(where=newest == 7)
        new = ~seen.known()
        firsts = batch.first[new]
        yield TaggedOutput("first", {"key": batch.row_keys[firsts], "value": values[firsts]})
        seen.write(True)
        yield {"key": batch.row_keys, "total": batch.spread(before) + running(batch, values)}


def running(batch: Batch, values: Any) -> Any:
    """By row: the sum of the rows of its key so far."""
    sums = np.zeros(len(batch), dtype=np.int64)
    for code in range(len(batch.keys)):
        mine = batch.key_of_row == code
        sums[mine] = np.cumsum(values[mine])
    return sums


bundles = st.lists(st.tuples(st.sampled_from(KEYS), st.integers(-9, 9), st.integers(0, 40)), max_size=8)
events = st.lists(
    st.one_of(
        bundles.map(lambda rows: ("elements", rows)),
        st.integers(1, 15).map(lambda by: ("clock", by)),
        st.integers(0, 60).map(lambda to: ("watermark", to)),
        st.just(("crash", 0)),
    ),
    max_size=8,
)


def script(given_events: list[Any]) -> TestStream:
    stream, watermark = TestStream(), 0
    for kind, what in given_events:
        if kind == "elements":
            stream = stream.add_elements([at(*row) for row in what])
        elif kind == "clock":
            stream = stream.advance_processing_time(what)
        elif kind == "watermark" and what > watermark:
            watermark = what
            stream = stream.advance_watermark_to(what)
        elif kind == "crash":
            stream = stream.crash()
    return stream.advance_watermark_to_infinity()


def at(key: Any, value: Any, time: int) -> Any:
    return TimestampedValue((key, value), time)


def states(results: Results) -> dict[str, Any]:
    keys = results.keys()
    return {repr(key): results.state(key) for key in keys}


def outputs(results: Results) -> Counter[Any]:
    return Counter((repr(out.value), out.tag, repr(out.window)) for out in results)


@SETTINGS
@given(
    events,
    st.sampled_from([GlobalWindows(), FixedWindows(10), SlidingWindows(20, 10)]),
    st.integers(0, 15),
    st.sampled_from(["heap", "disk"]),
    st.integers(1, 3),
)
def test_the_same_as_element_by_element(stream_events, windowing, lateness, backend, key_groups):
    options: Any = {
        "windowing": windowing,
        "allowed_lateness": lateness,
        "outputs": ["first", "late"],
        "backend": backend,
        "key_groups": key_groups,
    }
    stream = script(stream_events)
    plain, columns = run(Plain(), stream, **options), run(Columns(), stream, **options)
    assert outputs(columns) == outputs(plain)
    assert states(columns) == states(plain)
    for counter in ("elements", "late", "windows_expired", "cells_expired"):
        assert columns.metrics[counter] == plain.metrics[counter]


@SETTINGS
@given(events, events)
def test_a_job_can_change_from_one_to_the_other(before, after):
    options: Any = {"outputs": ["first"], "name": "totals"}
    first, then = script(before), script(after)
    whole = run(Plain(), then, start_from=run(Plain(), first, **options), **options)
    changed = run(Columns(), then, start_from=run(Plain(), first, **options), **options)
    back = run(Plain(), then, start_from=run(Columns(), first, **options), **options)
    assert outputs(changed) == outputs(whole) == outputs(back)
    assert states(changed) == states(whole) == states(back)


class Sum(BatchDoFn):
    SUM = ValueStateSpec("sum", FloatCoder(), ttl=Ttl(10, time="event", refresh="read"))

    def process_batch(self, batch, total=BatchDoFn.StateParam(SUM)):
        total.write(total.read(0.0) + batch.reduce(np.add, batch.column("value").astype(float)))
        yield {"key": batch.keys, "sum": total.read(0.0)}


class PlainSum(DoFn):
    def process(self, element, total=DoFn.StateParam(Sum.SUM)):
        key, value = element
        total.write((total.read() or 0.0) + float(value["value"]))
        yield {"key": key, "sum": total.read()}


@SETTINGS
@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(-5, 5), st.integers(0, 60), st.integers(0, 60)), max_size=10))
def test_time_to_live_in_event_time(rows):
    """With one element in each bundle there is no difference at all."""
    stream, watermark = TestStream(), 0
    for key, value, time, to in rows:
        stream = stream.add_elements([at(key, {"value": value}, time)])
        if to > watermark:
            watermark = to
            stream = stream.advance_watermark_to(to)
    plain, columns = run(PlainSum(), stream), run(Sum(), stream)
    assert outputs(columns) == outputs(plain)
    assert states(columns) == states(plain)
    assert columns.metrics["cells_expired"] == plain.metrics["cells_expired"]


class Look(BatchDoFn):
    """Writes what is given, and looks at the others."""

    LAST = ValueStateSpec("last", FloatCoder(), ttl=Ttl(10, refresh="read", expired="until_cleaned"))

    def process_batch(self, batch, last=BatchDoFn.StateParam(LAST)):
        values = batch.column("value").astype(float)
        if np.isnan(values).all():
            yield {"key": batch.keys, "last": last.read(-1.0)}
        else:
            last.write(batch.reduce(np.maximum, values))


def test_a_read_does_not_revive_what_has_expired():
    written = [(n, {"value": 1.0}) for n in range(2_500)]
    look = [(2_499, {"value": float("nan")})]
    # The first look comes when the value has expired, but before its turn to be removed.
    stream = TestStream().add_elements(written).advance_processing_time(10).add_elements(look).crash()
    out = run(Look(), stream.advance_processing_time(1).add_elements(look))
    assert [value["last"] for value in out.values] == [1.0, -1.0]
    assert out.metrics.cells_expired == 2_500


@SETTINGS
@given(st.lists(st.tuples(st.sampled_from(KEYS), st.integers(-9, 9)), min_size=1, max_size=30))
def test_rows_and_keys(pairs):
    elements = BatchElements.of(pairs, range(len(pairs)))
    batch = Batch(elements.keys(), elements.key_of_row, elements.times, None, elements.values)
    of_key: dict[Any, list[int]] = {}
    for row, (key, _) in enumerate(pairs):
        of_key.setdefault(repr(key), []).append(row)
    values = batch.column()
    assert [repr(key) for key in batch.keys.tolist()] == list(of_key)
    assert [repr(key) for key in batch.row_keys.tolist()] == [repr(key) for key, _ in pairs]
    assert batch.counts.tolist() == [len(rows) for rows in of_key.values()]
    assert batch.rank.tolist() == [of_key[repr(key)].index(row) for row, (key, _) in enumerate(pairs)]
    assert batch.first.tolist() == [rows[0] for rows in of_key.values()]
    assert batch.last.tolist() == [rows[-1] for rows in of_key.values()]
    assert batch.reduce(np.add, values).tolist() == [sum(pairs[row][1] for row in rows) for rows in of_key.values()]
    assert batch.spread(batch.counts).tolist() == [len(of_key[repr(key)]) for key, _ in pairs]
    assert batch.values() == [value for _, value in pairs]


@pytest.mark.parametrize("items", [[1, 2], [1.5], [True], ["x"], [None, 3], [2**70], [b"x", "y"], [1, 2.5]])
def test_a_column_gives_back_what_it_was_given(items):
    elements = BatchElements.of([("k", item) for item in items], [0] * len(items))
    batch = Batch(elements.keys(), elements.key_of_row, elements.times, None, elements.values)
    present = [item for item in batch.values() if item is not None]
    found = (
        batch.column()[~batch.is_null()].tolist() if None not in items else batch.column(null=0)[~batch.is_null()].tolist()
    )
    assert [(type(item), item) for item in found] == [(type(item), item) for item in present]


class Until(BatchDoFn):
    SEEN = ValueStateSpec("seen", VarIntCoder(), ttl=Ttl(10, expired="until_cleaned"))

    def process_batch(self, batch, seen=BatchDoFn.StateParam(SEEN)):
        seen.write(2, where=batch.column() == "write")
        yield {"key": batch.keys, "seen": seen.read(0)}


def test_a_write_to_some_cells_leaves_others_that_have_expired_until_they_are_cleaned():
    # More than a bundle sweeps: the last two are there, though they have expired.
    stream = TestStream().add_elements([(number, "write") for number in range(2_500)]).advance_processing_time(10)
    results = run(Until(), stream.add_elements([(2_498, "write"), (2_499, "read")]))
    assert results.values[-2:] == [{"key": 2_498, "seen": 2}, {"key": 2_499, "seen": 2}]
    assert results.metrics.cells_expired > 2_000
