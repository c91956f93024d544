"""Arrow columns in and out of a BatchDoFn: the same keys, values and refusals as element by element."""

from __future__ import annotations

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from holdfast import HoldfastError, InputError, InvalidStep, OutputError
from holdfast.engine.run.batch_runner import BatchRunner
from holdfast.engine.state.key_group import Layout
from holdfast.engine.state.keys import slots_of
from holdfast.model.functions.batches import Batch, BatchDoFn
from holdfast.model.functions.options import StepOptions
from holdfast.model.functions.step import build_step
from holdfast.model.state.limits import Limits
from holdfast.model.state.specs import BagStateSpec, ValueStateSpec
from holdfast.model.time.timers import TimeDomain, TimerSpec, on_timer
from holdfast.spark.types.arrow import column_type
from holdfast.spark.types.batch_rows import BatchReader, write_arrays
from holdfast.spark.types.rows import ElementReader, OutputWriter
from holdfast.testing import TestStream, run

UTC = datetime.timezone.utc
NAN = float("nan")


class Nothing(BatchDoFn):
    def process_batch(self, batch):
        return None


def read(keys, values=None):
    """The elements of rows with these key columns, in two payloads. Several columns of values make named rows."""
    values = values or {"v": pa.array(range(len(keys[0])))}
    kinds = tuple(column.type for column in values.values())
    reader = ElementReader(timed=False, keys=len(keys), value_names=tuple(values), value_types=kinds, named=len(values) > 1)
    names = [f"c{place}" for place in range(len(keys) + len(values))]
    table = pa.table([*keys, *values.values()], names=names)
    batches = [batch for part in (table.slice(0, 2), table.slice(2)) for batch in part.to_batches()]
    step = build_step(Nothing())
    elements = BatchReader(reader).intake(BatchRunner(step, Layout(step), {}, ()), batches, (), 7)
    pairs = [pair for batch in batches for pair in reader.read(batch, 7)[0]]
    return elements, pairs


KEYS = [
    [pa.array(["a", "b", "a", "", "b"])],
    [pa.array([5, -1, 5, 2**62, -1])],
    [pa.array([1, 2, 1, 2, 3], pa.int8()), pa.array(["a", "a", "b", "a", "a"])],
    [pa.array([True, False, True, True, False])],
    [pa.array([0.0, -0.0, NAN, NAN, 1.5])],
    [pa.array([Decimal("1.0"), Decimal("1.5"), Decimal("1.0"), Decimal("2.0"), Decimal("1.5")])],
    [pa.array([datetime.date(2024, 1, 1), datetime.date(2024, 1, 2), *[datetime.date(2024, 1, 1)] * 3])],
    [pa.array([b"a", b"b", b"a", b"", b"a"])],
    [pa.array(["a", "b", "a", "a", "b"]), pa.array([None, 1, None, 2, 1]), pa.array([1, 1, 1, 1, 2], pa.int32())],
]


@pytest.mark.parametrize("keys", KEYS, ids=lambda keys: ",".join(column_type(column.type) for column in keys))
def test_rows_have_the_keys_that_elements_have(keys):
    elements, pairs = read(keys)
    assert [elements.slots[code] for code in elements.key_of_row.tolist()] == slots_of([key for key, _ in pairs])
    assert len(set(elements.slots)) == len(elements.slots)
    assert elements.times.tolist() == [7] * 5
    rows = np.array([4, 0])
    assert [repr(pair) for pair in elements.pairs(rows)] == [repr(pairs[4]), repr(pairs[0])]


def test_parts_of_a_bundle_keep_rows_and_keys_together():
    elements, pairs = read(KEYS[2])
    part = elements.take([1, 2])
    assert part.pairs(np.arange(len(part.key_of_row))) == [pairs[1], pairs[2], pairs[3]]


def test_a_null_key_is_refused():
    with pytest.raises(InputError, match="has no key"):
        read([pa.array(["a", None, "b"])])


def test_columns_with_nulls():
    values = {"n": pa.array([1, None, 3], pa.int32()), "s": pa.array(["x", None, "z"]), "d": pa.array([0.5, 1.5, 2.5])}
    elements, _ = read([pa.array(["a", "a", "b"])], values)
    batch = Batch(elements.keys(), elements.key_of_row, elements.times, None, elements.values)
    assert batch.names == ("n", "s", "d")
    assert batch.column("n", null=-1).tolist() == [1, -1, 3]
    assert batch.column("n", null=-1).dtype == np.int64
    assert batch.column("s", null="").tolist() == ["x", "", "z"]
    assert batch.is_null("n").tolist() == [False, True, False]
    assert not batch.is_null("d").any()
    assert batch.reduce(np.add, batch.column("d")).tolist() == [2.0, 2.5]
    assert [tuple(value) for value in batch.values()] == [(1, "x", 0.5), (None, None, 1.5), (3, "z", 2.5)]
    with pytest.raises(InputError, match="has 1 nulls in a batch of 3 rows"):
        batch.column("n")
    with pytest.raises(InputError, match=r"0\.5 cannot stand for the nulls of the column 'n', which is int64"):
        batch.column("n", null=0.5)
    for name in ("nothing", None):
        with pytest.raises(InputError, match="have no column"):
            batch.column(name)


SCHEMA = pa.schema(
    [
        pa.field("i", pa.int32(), nullable=False),
        ("d", pa.float64()),
        ("b", pa.bool_()),
        ("s", pa.string()),
        ("t", pa.timestamp("us", tz="UTC")),
        ("l", pa.list_(pa.int64())),
    ]
)
NOON = datetime.datetime(2024, 2, 29, 12, tzinfo=UTC)
FITS = {
    "i": np.array([1, 2]),
    "d": np.array([0.5, NAN]),
    "b": np.array([True, False]),
    "s": np.array(["x", None], dtype=object),
    "t": np.array(["2024-02-29T12:00", "NaT"], dtype="datetime64[us]"),
    "l": [[1], None],
}


def test_arrays_become_columns():
    writer = OutputWriter(SCHEMA, "step", "main")
    rows = write_arrays(writer, FITS).to_pylist()
    assert rows[0] == {"i": 1, "d": 0.5, "b": True, "s": "x", "t": NOON, "l": [1]}
    assert (rows[1]["i"], rows[1]["d"] != rows[1]["d"], rows[1]["s"], rows[1]["t"]) == (2, True, None, None)
    arrow = {**FITS, "i": pa.array([1, 2], pa.int32()), "d": pa.chunked_array([[0.5], [1.5]]), "s": ["x", "y"]}
    assert write_arrays(writer, arrow).num_rows == 2


MISFITS = [
    ("i", np.array([1, 2**31]), "2147483648"),
    ("i", np.array([1.0, 2.0]), "it takes whole numbers"),
    ("i", np.array([True, False]), "it takes whole numbers"),
    ("i", np.array([1, None], dtype=object), "the column 'i' is None"),
    ("i", pa.array([1, None], pa.int32()), "the column 'i' is None"),
    ("d", np.array([2**53 + 1, 0]), "9007199254740993"),
    ("b", np.array([0, 1]), "it takes True and False"),
    ("s", [b"x", b"y"], "it takes strings"),
    ("t", np.array([1, 2], dtype="datetime64[ns]"), "column 't'"),
    ("i", np.array([1, 2], dtype="timedelta64[ns]"), "finer than microseconds"),
]


@pytest.mark.parametrize(("name", "column", "why"), MISFITS)
def test_what_does_not_fit_is_refused(name, column, why):
    with pytest.raises(OutputError) as refused:
        write_arrays(OutputWriter(SCHEMA, "step", "main"), {**FITS, name: column})
    assert why in str(refused.value)


def test_lacking_and_unknown_columns_are_refused():
    columns = {name: column for name, column in FITS.items() if name != "i"} | {"extra": [1, 2]}
    with pytest.raises(OutputError, match="it lacks 'i'; it has no column 'extra' in its schema"):
        write_arrays(OutputWriter(SCHEMA, "step", "main"), columns)


class TestRefused:
    """What a BatchDoFn cannot have is said before it runs."""

    def test_all_at_once(self):
        class Wrong(BatchDoFn):
            BAG = BagStateSpec("bag", None)
            END = TimerSpec("end", TimeDomain.WATERMARK)

            def process(self, element):
                return None

            def process_batch(self, batch, bag=BatchDoFn.StateParam(BAG), time=BatchDoFn.TimestampParam):
                return None

            @on_timer(END)
            def end(self):
                return None

            def on_window_expiration(self):
                return None

        options = StepOptions(
            on_error="dead_letter", requires_time_sorted_input=True, limits=Limits(max_keys=3), outputs=("dead_letter",)
        )
        with pytest.raises(InvalidStep) as refused:
            build_step(Wrong(), options)
        said = str(refused.value)
        for part in (
            "bag cell 'bag'",
            "and no process.",
            "and no on_window_expiration.",
            "end is the callback of a timer",
            "dead_letter",
            "limits are kept",
            "requires_time_sorted_input is for",
            "TimestampParam",
        ):
            assert part in said

    def test_without_the_method(self):
        with pytest.raises(InvalidStep, match="Empty has no process_batch method"):
            build_step(type("Empty", (BatchDoFn,), {})())

    def test_a_method_that_columns_do_not_have(self):
        class Adds(BatchDoFn):
            COUNT = ValueStateSpec("count", None)

            def process_batch(self, batch, count=BatchDoFn.StateParam(COUNT)):
                count.add(1)

        with pytest.raises(InvalidStep, match=r"count is a ColumnState, which has clear, known, read, write"):
            build_step(Adds())


class TestYielded:
    """What process_batch yields is checked."""

    @pytest.mark.parametrize(
        ("yielded", "why"),
        [
            ([1, 2], "it yields columns, as a dict"),
            ({}, "it yields columns, as a dict"),
            ({"a": [1], "b": [1, 2]}, "different lengths: a has 1, b has 2"),
            ({"a": 5}, "a column is an array or a list"),
            ({"a": "text"}, "a column is an array or a list"),
            ({"a": np.zeros((1, 2))}, "a column is an array or a list"),
        ],
    )
    def test_anything_but_columns_is_refused(self, yielded, why):
        class Yields(BatchDoFn):
            def process_batch(self, batch):
                yield yielded

        with pytest.raises(OutputError, match=why) as refused:
            run(Yields(), TestStream().add_elements([("k", 1)]))
        assert refused.value.context["step"] == "Yields"

    def test_arrays_may_be_used_again(self):
        class Reuses(BatchDoFn):
            def process_batch(self, batch):
                array = batch.column().copy()
                yield {"v": array}
                array += 1
                yield {"v": array}

        assert run(Reuses(), TestStream().add_elements([("k", 1)])).values == [{"v": 1}, {"v": 2}]

    def test_other_sequences_may_be_used_again_too(self):
        class Reuses(BatchDoFn):
            def process_batch(self, batch):
                series = pd.Series(batch.column())
                yield {"v": series}
                series += 1
                yield {"v": series}

        assert run(Reuses(), TestStream().add_elements([("k", 1)])).values == [{"v": 1}, {"v": 2}]

    def test_a_wrong_number_of_values_for_the_cells(self):
        class Wrong(BatchDoFn):
            CELL = ValueStateSpec("cell", None)

            def process_batch(self, batch, cell=BatchDoFn.StateParam(CELL)):
                cell.write(batch.column())

        with pytest.raises(OutputError, match="was given 2 values for 1 keys"):
            run(Wrong(), TestStream().add_elements([("k", 1), ("k", 2)]))


class Times(BatchDoFn):
    """Writes and yields an array with the times of all keys."""

    CELL = ValueStateSpec("cell", None)

    def __init__(self, times, *, writes):
        self.times = times
        self.writes = writes

    def process_batch(self, batch, cell=BatchDoFn.StateParam(CELL)):
        if self.writes:
            cell.write(self.times)
        else:
            yield {"v": self.times}


class Lists(BatchDoFn):
    """Lists in cells and in values."""

    CELL = ValueStateSpec("cell", None)

    def process_batch(self, batch, cell=BatchDoFn.StateParam(CELL)):
        held = cell.read([])
        for key, items in zip(batch.keys, held, strict=True):
            items.append(key)
        cell.write(held)
        yield {"key": batch.row_keys, "tags": batch.column("tags", null=["none", "at all"])}


def test_what_stands_for_nothing_is_not_shared_by_keys_and_not_dealt_out():
    values = {"a": [5], "b": None, "c": None, "d": None}
    results = run(Lists(), TestStream().add_elements([(key, {"tags": tags}) for key, tags in values.items()]))
    assert [row["tags"] for row in results.values] == [[5], *[["none", "at all"]] * 3]
    assert [results.state(key) for key in values] == [{"cell": [key]} for key in values]


class TestTimes:
    """NumPy makes bare numbers of times that Python does not have."""

    @pytest.mark.parametrize("writes", [True, False], ids=["written", "yielded"])
    @pytest.mark.parametrize(
        ("times", "why"),
        [
            (np.array([1], dtype="datetime64[ns]"), "finer than microseconds"),
            (np.array([1], dtype="timedelta64[ns]"), "finer than microseconds"),
            ([np.datetime64(1, "ns")], "finer than microseconds|no equivalent in Python"),
            (np.array([10**7], dtype="datetime64[D]"), "too large"),
            (np.array([1], dtype="timedelta64"), "has no unit"),
        ],
    )
    def test_what_python_has_no_equivalent_for_is_refused(self, times, why, writes):
        with pytest.raises(HoldfastError, match=why):
            print(run(Times(times, writes=writes), TestStream().add_elements([("k", 1)])).values)

    @pytest.mark.parametrize("unit", ["ns", "us", "ms", "s"])
    def test_others_are_what_they_are(self, unit):
        times = np.array(["2024-02-29T12:00"], dtype=f"datetime64[{unit}]")
        stream = TestStream().add_elements([("k", 1)])
        assert run(Times(times, writes=False), stream).values == [{"v": NOON.replace(tzinfo=None)}]
        assert run(Times(times, writes=True), stream).state("k") == {"cell": NOON.replace(tzinfo=None)}

    def test_the_error_names_the_cell(self):
        with pytest.raises(OutputError) as refused:
            run(Times(np.array([1], dtype="datetime64[ns]"), writes=True), TestStream().add_elements([("k", 1)]))
        assert refused.value.context["cell"] == "cell"
