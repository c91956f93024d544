"""Key groups of Arrow columns. The expected ones were computed by Spark 4.3, as `assign` does it."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pytest

np = pytest.importorskip("numpy")
pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")
pytest.importorskip("xxhash")

from holdfast.spark.stages.hashing import can_hash, key_groups_of  # noqa: E402

KEY_GROUPS = 1_000_003
NAN, INFINITY = float("nan"), float("inf")
UTC = datetime.timezone.utc
MOMENTS = [
    datetime.datetime(1970, 1, 1),
    datetime.datetime(2024, 2, 29, 1, 2, 3, 456789),
    datetime.datetime(1950, 1, 1),
    None,
]
LONGEST = Decimal("9" * 28 + "." + "9" * 10)

TEXTS = ["", "a", "abc", "abcd", "abcdefgh", "é", "日本語", "😀", "x" * 31, "x" * 32, "x" * 33, "0123456789" * 10, None]
OF_TEXTS = [276811, 657063, 71848, 227064, 813523, 722541, 933365, 922781, 795310, 77337, 512953, 449470, 42]
OF_BYTES = [276811, 526012, 340514, 654172, 42]

# Type, values, their key groups.
KNOWN = [
    (pa.bool_(), [True, False, None], [242920, 52121, 42]),
    (pa.int8(), [0, 1, -1, 127, -128, None], [52121, 242920, 949515, 779239, 389704, 42]),
    (pa.int16(), [0, 300, -300, None], [52121, 99014, 904450, 42]),
    (pa.int32(), [0, 1, -1, 2**31 - 1, -(2**31), None], [52121, 242920, 949515, 129877, 26599, 42]),
    (pa.int64(), [0, 1, -1, 2**63 - 1, -(2**63), None], [287889, 846665, 479439, 649790, 430074, 42]),
    (
        pa.float32(),
        [0.0, -0.0, 1.5, -1.5, NAN, INFINITY, -INFINITY, None],
        [52121, 52121, 579347, 368942, 632075, 894395, 177601, 42],
    ),
    (
        pa.float64(),
        [0.0, -0.0, 0.1, -1e300, NAN, INFINITY, -INFINITY, None],
        [287889, 287889, 599906, 111105, 81917, 390401, 53130, 42],
    ),
    (pa.string(), TEXTS, OF_TEXTS),
    (pa.large_string(), TEXTS, OF_TEXTS),
    (pa.binary(), [b"", b"\x00", b"\x00\xff", bytes(range(64)), None], OF_BYTES),
    (pa.large_binary(), [b"", b"\x00", b"\x00\xff", bytes(range(64)), None], OF_BYTES),
    (
        pa.date32(),
        [datetime.date(1970, 1, 1), datetime.date(2024, 2, 29), datetime.date(1900, 1, 1), None],
        [52121, 245028, 95816, 42],
    ),
    (pa.timestamp("us"), MOMENTS, [287889, 6509, 746398, 42]),
    (
        pa.timestamp("us", tz="UTC"),
        [moment and moment.replace(tzinfo=UTC) for moment in MOMENTS],
        [287889, 6509, 746398, 42],
    ),
    (
        pa.duration("us"),
        [datetime.timedelta(0), datetime.timedelta(1, 2, 3), datetime.timedelta(-1), None],
        [287889, 480040, 569896, 42],
    ),
    (pa.decimal128(5, 2), [Decimal("0.00"), Decimal("1.25"), Decimal("-999.99"), None], [287889, 140608, 855376, 42]),
    (pa.decimal128(18, 0), [Decimal(10**18 - 1), Decimal(1 - 10**18), None], [706922, 746777, 42]),
    (
        pa.decimal128(19, 0),
        [*map(Decimal, (0, 1, -1, 127, 128, -128, -129, 10**19 - 1)), None],
        [526012, 1691, 78252, 133131, 118640, 741284, 624691, 372632, 42],
    ),
    (
        pa.decimal128(38, 10),
        [Decimal(0), Decimal("1.5"), LONGEST, LONGEST.copy_negate(), None],
        [526012, 568577, 769636, 559798, 42],
    ),
]
each_type = pytest.mark.parametrize(("kind", "values", "groups"), KNOWN, ids=[str(kind) for kind, *_ in KNOWN])

# Rows of four columns, and their key groups by the columns in this order and in the opposite one.
COLUMNS = [
    pa.array(["a", "a", None, None, "b"]),
    pa.array([1, None, 1, None, 7], pa.int64()),
    pa.array([0.5, -0.0, NAN, None, 0.0], pa.float64()),
    pa.array([None, Decimal("1.00"), Decimal("2.50"), None, Decimal("-1.00")], pa.decimal128(20, 2)),
]
FORWARDS = [185871, 266263, 641660, 42, 153338]
BACKWARDS = [55932, 168610, 657617, 42, 833566]


def groups_of(*columns, key_groups=KEY_GROUPS):
    found = key_groups_of(columns, key_groups)
    assert found.dtype == np.int32
    return found.tolist()


class TestKnown:
    @each_type
    def test_values(self, kind, values, groups):
        assert groups_of(pa.array(values, kind)) == groups

    @each_type
    def test_without_nulls(self, kind, values, groups):
        assert groups_of(pa.array(values[:-1], kind)) == groups[:-1]

    @each_type
    def test_only_nulls(self, kind, values, groups):
        assert groups_of(pa.array([None, None], kind)) == groups_of(pa.nulls(2, kind)) == [42, 42]

    @each_type
    def test_no_rows(self, kind, values, groups):
        assert groups_of(pa.array([], kind)) == []

    @each_type
    def test_slices(self, kind, values, groups):
        """With nulls and without, and where bits do not begin with a byte."""
        for filler in (None, values[0]):
            column = pa.array([filler] * 11 + values, kind)
            for start in range(len(values)):
                assert groups_of(column.slice(11 + start)) == groups[start:]
                assert groups_of(column.slice(11 + start, 1)) == groups[start : start + 1]

    def test_several_columns(self):
        assert groups_of(*COLUMNS) == FORWARDS
        assert groups_of(*reversed(COLUMNS)) == BACKWARDS

    def test_key_groups(self):
        column = pa.array(range(1000))
        for key_groups in (1, 2, 100, 128):
            found = groups_of(column, key_groups=key_groups)
            assert set(found) == set(range(key_groups))


class TestFloats:
    @pytest.mark.parametrize(
        ("kind", "bits", "unsigned"),
        [
            (pa.float32(), pa.uint32(), [0x7F800001, 0x7FC00000, 0x7FFFFFFF, 0xFF800001, 0xFFC00000]),
            (pa.float64(), pa.uint64(), [0x7FF0000000000001, 0x7FF8000000000000, 0xFFF0000000000001, 0xFFFFFFFFFFFFFFFF]),
        ],
        ids=str,
    )
    def test_every_nan_is_one_key(self, kind, bits, unsigned):
        found = groups_of(pa.array(unsigned, bits).view(kind))
        assert found == groups_of(pa.array([NAN] * len(unsigned), kind))


class TestRepeats:
    """Values that repeat are hashed once each, if all rows have one seed. The result does not depend on it."""

    @pytest.mark.parametrize("texts", [TEXTS, TEXTS[:-1]], ids=["with nulls", "without"])
    def test_many(self, texts):
        assert groups_of(pa.array(texts * 500)) == OF_TEXTS[: len(texts)] * 500

    def test_few(self):
        texts = [f"user-{number}" for number in range(5000)]
        whole = groups_of(pa.array(texts))
        parts = [group for text in texts for group in groups_of(pa.array([text]))]
        assert whole == parts

    def test_many_after_another_column(self):
        first, second = (pa.concat_arrays([column] * 1000) for column in COLUMNS[:2])
        pairs = groups_of(*COLUMNS[:2]) * 1000, groups_of(*COLUMNS[1::-1]) * 1000
        assert (groups_of(first, second), groups_of(second, first)) == pairs


class TestTypes:
    def test_known_ones(self):
        assert can_hash([kind for kind, *_ in KNOWN])
        assert can_hash([pa.timestamp("us", tz="Europe/Berlin")])

    @pytest.mark.parametrize(
        "kind",
        [
            pa.null(),
            pa.uint8(),
            pa.uint64(),
            pa.float16(),
            pa.date64(),
            pa.time64("ns"),
            pa.timestamp("ns"),
            pa.timestamp("ms", tz="UTC"),
            pa.duration("ns"),
            pa.month_day_nano_interval(),
            pa.decimal256(18, 2),
            pa.binary(4),
            pa.string_view(),
            pa.dictionary(pa.int32(), pa.string()),
            pa.list_(pa.int32()),
            pa.struct([("a", pa.int32())]),
            pa.map_(pa.string(), pa.int32()),
        ],
        ids=str,
    )
    def test_others(self, kind):
        assert not can_hash([kind])
        assert not can_hash([pa.int64(), kind])
