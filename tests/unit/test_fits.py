"""Every type of column and every Python value that may come: it fits exactly, converts without loss, or is refused."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import math
from collections import OrderedDict, deque
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")
pd = pytest.importorskip("pandas")

from pyspark.sql import Row  # noqa: E402

import holdfast as hf  # noqa: E402
from holdfast.spark.types.nested_fits import FieldFit  # noqa: E402
from holdfast.spark.types.rows import OutputWriter  # noqa: E402

D = decimal.Decimal
UTC = datetime.timezone.utc
BERLIN = ZoneInfo("Europe/Berlin")
NAIVE = datetime.datetime(2024, 2, 29, 5, 6, 7, 891)
AWARE = NAIVE.replace(tzinfo=UTC)
DAY = datetime.date(2024, 2, 29)
SPAN = datetime.timedelta(days=1, seconds=2, microseconds=3)


class Colour(str, enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 7


class Plain(enum.Enum):
    ONE = 1


class Point(NamedTuple):
    x: int
    y: str


class Swapped(NamedTuple):
    y: str
    x: int


class Foreign(NamedTuple):
    a: int
    b: str


@dataclasses.dataclass
class Spot:
    x: int
    y: str


@dataclasses.dataclass
class Wide(Spot):
    z: int = 0


# Everything that a function may yield, by name.
VALUES = {
    "None": None,
    "True": True,
    "5": 5,
    "300": 300,
    "2**40": 2**40,
    "2**53+1": 2**53 + 1,
    "2**70": 2**70,
    "-1": -1,
    "IntEnum": Level.HIGH,
    "5.0": 5.0,
    "5.5": 5.5,
    "0.1": 0.1,
    "1e300": 1e300,
    "nan": math.nan,
    "inf": math.inf,
    "Decimal 5": D("5"),
    "Decimal 1.50": D("1.50"),
    "Decimal 1.555": D("1.555"),
    "Decimal 123456": D("123456"),
    "Decimal nan": D("NaN"),
    "complex": 1j,
    "text": "text",
    "'5'": "5",
    "surrogate": "\ud800",
    "str Enum": Colour.RED,
    "Enum": Plain.ONE,
    "bytes": b"ab",
    "bytearray": bytearray(b"ab"),
    "memoryview": memoryview(b"ab"),
    "date": DAY,
    "naive": NAIVE,
    "midnight": datetime.datetime(2024, 2, 29),
    "aware": AWARE,
    "Berlin": AWARE.astimezone(BERLIN),
    "time": datetime.time(5),
    "timedelta": SPAN,
    "Timestamp": hf.Timestamp(5, 5),
    "Duration": hf.Duration(5, 5),
    "list": [1, 2],
    "tuple": (1, 2),
    "set": {1, 2},
    "deque": deque([1, 2]),
    "range": range(2),
    "list of floats": [1, 2.5],
    "list with None": [1, None],
    "empty list": [],
    "dict": {"x": 1, "y": "a"},
    "counts": {"a": 1, "b": 2},
    "OrderedDict": OrderedDict(a=1),
    "part of a dict": {"x": 1},
    "too large a dict": {"x": 1, "y": "a", "z": 2},
    "pairs": [("a", 1)],
    "(1, 'a')": (1, "a"),
    "(1.5, 'a')": (1.5, "a"),
    "named tuple": Point(1, "a"),
    "swapped": Swapped("a", 1),
    "foreign": Foreign(1, "a"),
    "Row": Row(y="a", x=1),
    "dataclass": Spot(1, "a"),
    "wide dataclass": Wide(1, "a", 2),
    "object": object(),
    "np.int8": np.int8(5),
    "np.uint64": np.uint64(2**63),
    "np.float32": np.float32(0.5),
    "np.float64": np.float64(5.5),
    "np.bool": np.bool_(True),
    "np.str": np.str_("text"),
    "np.bytes": np.bytes_(b"ab"),
    "np.array": np.array([1, 2]),
    "np.array 2d": np.array([[1, 2]]),
    "np day": np.datetime64("2024-02-29"),
    "np micros": np.datetime64("2024-02-29T05:06:07.000891"),
    "np nanos": np.datetime64("2024-02-29T05:06:07.000000001"),
    "np month": np.datetime64("2024-02"),
    "np NaT": np.datetime64("NaT"),
    "np span": np.timedelta64(5, "s"),
    "np span of months": np.timedelta64(5, "M"),
    "np span of nothing": np.timedelta64(5),
    "pd naive": pd.Timestamp(NAIVE),
    "pd aware": pd.Timestamp(AWARE),
    "pd nanos": pd.Timestamp("2024-02-29T05:06:07.000000001Z"),
    "pd NaT": pd.NaT,
    "pd NA": pd.NA,
    "pd span": pd.Timedelta(SPAN),
    "pd span nanos": pd.Timedelta(1, "ns"),
}

EPOCH = datetime.datetime(1970, 1, 1)


def seconds(number, zone=None):
    return EPOCH.replace(tzinfo=zone) + datetime.timedelta(seconds=number)


WHOLE = {"5": 5, "-1": -1, "IntEnum": 7, "np.int8": 5}
REAL = {
    **{name: float(VALUES[name]) for name in ("5", "300", "-1", "5.0", "5.5", "inf", "np.int8", "np.float32")},
    "IntEnum": 7.0,
    "nan": math.nan,
    "np.float64": 5.5,
}
NUMBERS_AS_TIMES = {
    "5": 5, "300": 300, "-1": -1, "IntEnum": 7, "5.0": 5, "5.5": 5.5, "0.1": 0.1, "Decimal 5": 5, "Decimal 1.50": 1.5,
    "Decimal 1.555": 1.555, "Decimal 123456": 123456, "np.int8": 5, "np.float32": 0.5, "np.float64": 5.5,
    "Timestamp": 5.000005,
}  # fmt: skip
SPANS = {name: datetime.timedelta(seconds=number) for name, number in NUMBERS_AS_TIMES.items() if name != "Timestamp"}
LISTS = {name: [1, 2] for name in ("list", "tuple", "set", "deque", "np.array")} | {"empty list": []}
STRUCT = {"x": 1, "y": "a"}
STRUCTS = dict.fromkeys(("dict", "(1, 'a')", "named tuple", "swapped", "Row", "dataclass"), STRUCT)

# The type of a column, and what each value becomes in it; all values that are not named here are refused.
FITS: dict[str, Any] = {
    "tinyint": (pa.int8(), WHOLE),
    "smallint": (pa.int16(), WHOLE | {"300": 300}),
    "int": (pa.int32(), WHOLE | {"300": 300}),
    "bigint": (pa.int64(), WHOLE | {"300": 300, "2**40": 2**40, "2**53+1": 2**53 + 1}),
    "float": (pa.float32(), REAL | {"0.1": float(np.float32(0.1))}),
    "double": (pa.float64(), REAL | {"0.1": 0.1, "1e300": 1e300, "2**40": 2.0**40}),
    "boolean": (pa.bool_(), {"True": True, "np.bool": True}),
    "string": (pa.string(), {"text": "text", "'5'": "5", "str Enum": "red", "np.str": "text"}),
    "binary": (pa.binary(), dict.fromkeys(("bytes", "bytearray", "memoryview", "np.bytes"), b"ab")),
    "date": (pa.date32(), {"date": DAY, "np day": DAY}),
    "timestamp": (
        pa.timestamp("us", tz="UTC"),
        {name: seconds(number, UTC) for name, number in NUMBERS_AS_TIMES.items()}
        | dict.fromkeys(("aware", "Berlin", "pd aware"), AWARE),
    ),
    "timestamp_ntz": (
        pa.timestamp("us"),
        {name: seconds(number) for name, number in NUMBERS_AS_TIMES.items()}
        | dict.fromkeys(("naive", "pd naive", "np micros"), NAIVE)
        | {name: datetime.datetime(2024, 2, 29) for name in ("midnight", "np day")},
    ),
    "interval day to second": (
        pa.duration("us"),
        SPANS
        | {"timedelta": SPAN, "pd span": SPAN, "np span": datetime.timedelta(seconds=5)}
        | {"Duration": datetime.timedelta(seconds=5, microseconds=5), "2**40": datetime.timedelta(seconds=2**40)},
    ),
    "decimal(5,2)": (
        pa.decimal128(5, 2),
        {"5": D("5.00"), "300": D("300.00"), "-1": D("-1.00"), "IntEnum": D("7.00"), "np.int8": D("5.00")}
        | {"Decimal 5": D("5.00"), "Decimal 1.50": D("1.50")},
    ),
    "void": (pa.null(), {}),
    "array<bigint>": (pa.list_(pa.int64()), LISTS | {"list with None": [1, None]}),
    "array<bigint not null>": (pa.list_(pa.field("item", pa.int64(), nullable=False)), LISTS),
    "array<double>": (pa.list_(pa.float64()), LISTS | {"list with None": [1, None], "list of floats": [1, 2.5]}),
    "map<string,bigint>": (
        pa.map_(pa.string(), pa.int64()),
        {"counts": [("a", 1), ("b", 2)], "OrderedDict": [("a", 1)], "part of a dict": [("x", 1)]},
    ),
    "struct<x:bigint,y:string>": (
        pa.struct([("x", pa.int64()), ("y", pa.string())]),
        STRUCTS | {name: {"x": 1, "y": None} for name in ("part of a dict", "list with None")},
    ),
    "struct<x:bigint,y:string not null>": (
        pa.struct([("x", pa.int64()), pa.field("y", pa.string(), nullable=False)]),
        STRUCTS,
    ),
    "struct<x:double,y:string>": (
        pa.struct([("x", pa.float64()), ("y", pa.string())]),
        STRUCTS
        | {name: {"x": 1, "y": None} for name in ("part of a dict", "list with None")}
        | {"(1.5, 'a')": {"x": 1.5, "y": "a"}},
    ),
}


def writer(kind, *, nullable=True):
    return OutputWriter(pa.schema([pa.field("c", kind, nullable=nullable)]), "step", "main")


def written(kind, *values):
    return writer(kind).write([(value,) for value in values]).column(0).to_pylist()


def same(one, other):
    if isinstance(one, float) and math.isnan(one):
        return isinstance(other, float) and math.isnan(other)
    return one == other


PAIRS = [(column, value) for column in FITS for value in VALUES]


@pytest.mark.parametrize(("column", "name"), PAIRS, ids=[f"{column} - {value}" for column, value in PAIRS])
def test_every_value_in_every_column(column, name):
    kind, fits = FITS[column]
    value = VALUES[name]
    if value is None:
        assert written(kind, value) == [None]
        if column == "void":
            return
        with pytest.raises(hf.OutputError, match="the column 'c' is None, but it must not be null"):
            writer(kind, nullable=False).write([(value,)])
    elif name in fits:
        assert same(written(kind, value)[0], fits[name])
        # Among others of other classes, and with nulls between them, it is the same.
        usual = VALUES[next(iter(fits))]
        assert same(written(kind, usual, None, value)[2], fits[name])
        writer(kind).check((value,))
    else:
        # What a quick look calls sure must fit.
        assert not FieldFit(pa.field("c", kind)).surely(value)
        check_refused(kind, column, value, None if not fits else VALUES[next(iter(fits))])


def check_refused(kind, column, value, usual):
    with pytest.raises(hf.OutputError) as refused:
        writer(kind).write([(usual,), (None,), (value,)])
    with pytest.raises(hf.OutputError) as checked:
        writer(kind).check((value,))
    assert str(checked.value) == str(refused.value)
    assert refused.value.context == {"step": "step", "output": "main"}
    assert refused.value.what.startswith("An output of the step 'step' does not fit its schema: ")
    assert "'c'" in refused.value.what or "c[" in refused.value.what or "c." in refused.value.what
    assert refused.value.todo
    if "[" not in column and "<" not in column:
        assert f"the column 'c' is {column}, but" in refused.value.what
        assert f"(a {type(value).__name__})" in refused.value.what


@given(
    st.lists(st.one_of(st.none(), st.integers(-(2**70), 2**70), st.floats(), st.booleans(), st.text(max_size=3)), max_size=8)
)
@pytest.mark.parametrize("column", ["tinyint", "bigint", "float", "double", "string", "boolean", "decimal(5,2)"])
def test_a_column_is_its_values_one_by_one(column, values):
    """Whatever is together in a column: it is refused if one of its values is, else each is what it is alone."""
    kind, _ = FITS[column]
    try:
        alone = [written(kind, value)[0] for value in values]
    except hf.OutputError:
        with pytest.raises(hf.OutputError):
            written(kind, *values)
        return
    together = written(kind, *values)
    assert all(same(one, other) for one, other in zip(alone, together, strict=True))
    for value, found in zip(values, together, strict=True):
        if column != "float" and value is not None:
            assert same(found, value)


class TestTimes:
    """What is a time means one thing, in a column as anywhere else."""

    KIND = pa.timestamp("us", tz="UTC")

    @pytest.mark.parametrize("number", [5, 5.5, -0.25, 1_700_000_000.123456, D("1.000001"), np.float64(5.5)])
    def test_a_number_is_the_timestamp_of_that_number(self, number):
        [found] = written(self.KIND, number)
        assert found == hf.Timestamp.of(number).to_utc_datetime(has_tz=True)

    def test_milliseconds_are_noticed(self):
        with pytest.raises(hf.OutputError, match="not between the years 1 and 9999") as refused:
            written(self.KIND, 1_700_000_000_000)
        assert "divide milliseconds by 1000" in refused.value.todo

    def test_a_datetime_without_a_zone_is_no_point_in_time(self):
        with pytest.raises(hf.OutputError) as refused:
            written(self.KIND, AWARE, NAIVE)
        assert "replace(tzinfo=datetime.timezone.utc)" in refused.value.todo

    def test_hours_that_come_twice(self):
        first = datetime.datetime(2023, 10, 29, 2, 30, tzinfo=BERLIN)
        assert [at.hour for at in written(self.KIND, first, first.replace(fold=1))] == [0, 1]

    def test_zones_that_are_no_zones(self):
        class Nowhere(datetime.tzinfo):
            def utcoffset(self, when):
                return None

            tzname = dst = utcoffset

        with pytest.raises(hf.OutputError):
            written(self.KIND, NAIVE.replace(tzinfo=Nowhere()))

    def test_our_own_times_to_the_microsecond_whatever_the_year(self):
        column = writer(self.KIND).write([(hf.Timestamp(micros=2**60 + 1),), (None,)]).column(0)
        assert column.cast(pa.int64()).to_pylist() == [2**60 + 1, None]


class TestMessages:
    SCHEMA = pa.schema([("n", pa.int64()), ("tags", pa.list_(pa.struct([("at", pa.date32())])))])

    def test_all_columns_that_do_not_fit_are_named(self):
        with pytest.raises(hf.OutputError) as refused:
            OutputWriter(self.SCHEMA, "count", "main").write([(1, []), (5.7, [{"at": DAY}, {"at": 19_000}])])
        text = str(refused.value)
        assert "the column 'n' is bigint, but 5.7 (a float) does not fit: it takes whole numbers from -92" in text
        assert "tags[1].at is 19000 (a int), which does not fit: it takes dates" in text
        assert "round it" in text
        assert "could be days, seconds or a year" in text
        assert "The schema is n bigint, tags array<struct<at:date>>" in text

    def test_the_first_output_that_does_not_fit_is_shown(self):
        with pytest.raises(hf.OutputError) as refused:
            OutputWriter(self.SCHEMA, "count", "main").write([(n, None) for n in range(100)] + [("x", None), ("y", None)])
        assert "The output is ('x', None)" in str(refused.value)

    def test_nulls_inside(self):
        kind = pa.map_(pa.string(), pa.field("value", pa.int64(), nullable=False))
        with pytest.raises(hf.OutputError, match=r"c\['a'\] is None, but it must not be null"):
            written(kind, {"a": None})
        with pytest.raises(hf.OutputError, match="key None is None, but it must not be null"):
            written(kind, {None: 1})

    def test_keys_of_a_map_that_would_be_one(self):
        close = {0.1: 1, 0.1 + 1e-12: 2}
        assert written(pa.map_(pa.float64(), pa.int64()), close) == [list(close.items())]
        with pytest.raises(hf.OutputError, match="two of its keys are the same"):
            written(pa.map_(pa.float32(), pa.int64()), close)


class TestRecords:
    """Whole outputs: what has names goes by them, and nothing is dropped."""

    SCHEMA = pa.schema([("x", pa.int64()), ("y", pa.string())])

    def rows(self, *items):
        return [tuple(row.values()) for row in OutputWriter(self.SCHEMA, "step", "main").write(items).to_pylist()]

    @pytest.mark.parametrize("name", ["dict", "(1, 'a')", "named tuple", "swapped", "Row", "dataclass"])
    def test_what_an_output_can_be(self, name):
        assert self.rows(VALUES[name]) == [(1, "a")]
        assert self.rows((2, "b"), VALUES[name], [3, None]) == [(2, "b"), (1, "a"), (3, None)]

    @pytest.mark.parametrize(
        ("name", "says"),
        [
            ("too large a dict", "it has z, which the schema does not"),
            ("wide dataclass", "it has z, which the schema does not"),
            ("foreign", "it has a, b, which the schema does not, and it has no x, y"),
            ("5", "it is a int; give a tuple"),
            ("text", "it is a str; give a tuple"),
            ("pairs", "it has 1 values, but the schema has 2 columns"),
        ],
    )
    def test_what_it_cannot_be(self, name, says):
        with pytest.raises(hf.OutputError, match=says):
            self.rows((1, "a"), VALUES[name])

    def test_what_a_dict_leaves_out_is_null(self):
        assert self.rows({"y": "a"}) == [(None, "a")]

    def test_a_row_of_the_input_whose_column_has_no_python_name(self):
        from holdfast.spark.types.arrow import row_class

        schema = pa.schema([("x", pa.int64()), ("per cent", pa.float64())])
        row = row_class(("x", "per cent"))(1, 0.5)
        assert OutputWriter(schema, "step", "main").write([row]).to_pylist() == [{"x": 1, "per cent": 0.5}]

    def test_properties_of_a_dataclass(self):
        @dataclasses.dataclass
        class Named:
            y: str

            @property
            def x(self):
                return len(self.y)

        assert self.rows(Named("abc")) == [(3, "abc")]

    def test_structs_of_msgspec(self):
        import msgspec

        made = msgspec.defstruct("Made", [("y", str), ("x", int)])
        assert self.rows(made("a", 1)) == [(1, "a")]

    def test_the_bare_value_of_a_single_column(self):
        assert writer(pa.int64()).write([5, 6, None]).column(0).to_pylist() == [5, 6, None]
        assert writer(FITS["struct<x:bigint,y:string>"][0]).write([Spot(1, "a")]).column(0).to_pylist() == [STRUCT]

    def test_an_empty_dict_of_a_single_column_is_not_guessed(self):
        kind = pa.map_(pa.string(), pa.int64())
        assert writer(kind).write([({},), (None,)]).column(0).to_pylist() == [[], None]
        with pytest.raises(hf.OutputError, match=r"(?s)an empty dict.*yield \(\{\},\) for an empty map"):
            writer(kind).write([{}])

    def test_nulls_of_a_struct_with_fields_that_must_not_be(self):
        kind = FITS["struct<x:bigint,y:string not null>"][0]
        assert written(kind, None, (1, "a"), None) == [None, STRUCT, None]
        with pytest.raises(hf.OutputError, match=r"c\.y is None, but it must not be null"):
            written(kind, None, (1, None))
