"""Coders one by one: what they take, what they refuse and how they say it, and the bytes they write."""

from __future__ import annotations

import copy
import enum
import importlib.util
import math
import pickle
import sys
import types
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import InitVar, dataclass, field
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from typing import Any, NamedTuple, Optional
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
import numpy as np
import ormsgpack
import pytest

from holdfast.errors import CoderError
from holdfast.model import coders
from holdfast.model.coders import (
    BigIntegerCoder,
    BooleanCoder,
    BytesCoder,
    CloudpickleCoder,
    Coder,
    DecimalCoder,
    Encoded,
    FastPrimitivesCoder,
    FloatCoder,
    IterableCoder,
    JsonCoder,
    ListCoder,
    MapCoder,
    NullableCoder,
    PickleCoder,
    PlainCoder,
    RecordCoder,
    StrUtf8Coder,
    TimestampCoder,
    TupleCoder,
    VarIntCoder,
    coder_from_description,
    default_coder,
)
from holdfast.model.time.timestamps import Duration, Timestamp


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


@dataclass
class Line:
    article: str
    price: Decimal
    tags: list[str] = field(default_factory=list)


@dataclass
class Order:
    number: int
    lines: list[Line]
    placed: datetime
    note: Optional[str] = None  # noqa: UP045
    place: tuple[float, float] = (0.0, 0.0)
    colour: Colour = Colour.RED
    extra: Any = None


@dataclass(frozen=True)
class Point:
    x: int
    y: float | None = None


@dataclass(frozen=True)
class FrozenWithList:
    items: list[int]


class Reading(msgspec.Struct):
    sensor: str
    values: tuple[float, ...]
    inner: Point | None = None


class FrozenReading(msgspec.Struct, frozen=True):
    sensor: str
    value: float = 0.0


class Pair(NamedTuple):
    left: int
    right: str = "none"


class SubPoint(Point):
    pass


class HalvesCoder(Coder):
    """A user's own: takes even numbers."""

    def encode(self, value: Any) -> bytes:
        if value % 2:
            raise KeyError("odd")
        return str(value // 2).encode()

    def decode(self, data: bytes) -> Any:
        return int(data) * 2


class ImmutableHalvesCoder(HalvesCoder):
    def is_immutable(self) -> bool:
        return True


class ForeignZone(tzinfo):
    def utcoffset(self, when: datetime | None) -> timedelta:
        return timedelta(hours=2)

    def dst(self, when: datetime | None) -> None:
        return None

    def tzname(self, when: datetime | None) -> str:
        return "foreign"


BUILT_IN: list[tuple[Coder[Any], str, int]] = [
    (VarIntCoder(), "varint", 1),
    (BigIntegerCoder(), "bigint", 1),
    (FloatCoder(), "float", 1),
    (BooleanCoder(), "bool", 1),
    (StrUtf8Coder(), "str", 1),
    (BytesCoder(), "bytes", 1),
    (TimestampCoder(), "timestamp", 1),
    (DecimalCoder(), "decimal", 1),
    (PlainCoder(), "plain", 1),
    (JsonCoder(), "json", 1),
    (TupleCoder([VarIntCoder(), StrUtf8Coder()]), "tuple", 1),
    (ListCoder(VarIntCoder()), "list", 1),
    (IterableCoder(VarIntCoder()), "iterable", 1),
    (MapCoder(StrUtf8Coder(), PlainCoder()), "map", 1),
    (NullableCoder(FloatCoder()), "nullable", 1),
    (RecordCoder(Point), "record", 1),
    (PickleCoder(), "pickle", 1),
]


@pytest.mark.parametrize(("coder", "identifier", "version"), BUILT_IN)
def test_identifiers_and_versions_are_a_stored_format(coder: Coder, identifier: str, version: int) -> None:
    assert coder.identifier == identifier
    assert coder.describe()["id"] == identifier
    assert coder.describe()["version"] == version


GOLDEN = [
    (VarIntCoder(), 0, "00"),
    (VarIntCoder(), -1, "01"),
    (VarIntCoder(), 300, "d804"),
    (VarIntCoder(), 2**70, "80" * 10 + "02"),
    (BigIntegerCoder(), 128, "0080"),
    (BigIntegerCoder(), -128, "80"),
    (FloatCoder(), 1.5, "3ff8000000000000"),
    (BooleanCoder(), True, "01"),
    (StrUtf8Coder(), "ä", "c3a4"),
    (BytesCoder(), b"\x00x", "0078"),
    (TimestampCoder(), Timestamp(micros=-2), "fffffffffffffffe"),
    (DecimalCoder(), Decimal("1.10"), "312e3130"),
    (TupleCoder([VarIntCoder(), StrUtf8Coder()]), (1, "ab"), "0102026162"),
    (ListCoder(VarIntCoder()), [1, -1], "0201020101"),
    (MapCoder(StrUtf8Coder(), VarIntCoder()), {"a": 1}, "0101610102"),
    (NullableCoder(VarIntCoder()), None, "00"),
    (NullableCoder(VarIntCoder()), 1, "0102"),
    (JsonCoder(), {"a": [1, None, "ä"]}, "7b2261223a5b312c6e756c6c2c22c3a4225d7d"),
    (RecordCoder(Point), Point(1, 0.5), "82a17801a179cb3fe0000000000000"),
    (PlainCoder(), {"a": [1, True, None]}, "81a1619301c3c0"),
    (PlainCoder(), (1, "a"), "d60192" + "01a161"),
    (PlainCoder(), {1: 2}, "c7030292" + "0102"),
    (PlainCoder(), {3, 1, 2}, "d60393010203"),
    (PlainCoder(), frozenset({1}), "d504" + "9101"),
    (PlainCoder(), bytearray(b"a"), "d40561"),
    (PlainCoder(), 2**64, "c70906" + "010000000000000000"),
    (PlainCoder(), "\ud800", "c70307eda080"),
    (PlainCoder(), date(2024, 2, 29), "c70509ce000b4681"),
    (PlainCoder(), timedelta(days=1, seconds=2, microseconds=3), "d60b93010203"),
    (PlainCoder(), Decimal("1.5"), "c7030c312e35"),
    (PlainCoder(), UUID(int=7), "d80d" + "00" * 15 + "07"),
    (PlainCoder(), Timestamp(micros=5), "d40f05"),
    (PlainCoder(), Duration(micros=-1), "d410ff"),
]


@pytest.mark.parametrize(("coder", "value", "expected"), GOLDEN)
def test_encodings_do_not_drift(coder: Coder, value: Any, expected: str) -> None:
    assert coder.encode(value).hex() == expected
    assert coder.decode(bytes.fromhex(expected)) == value


GOLDEN_BLOCKS = [
    (VarIntCoder(), [1, -1], "0201" + "01ff"),
    (VarIntCoder(), [1, 300], "0202" + "01002c01"),
    (VarIntCoder(), [2**64], "0804" + "0100000000000000" + "09000000" + "010000000000000000"),
    (
        VarIntCoder(),
        [2**40 + 1000 * number for number in (0, 1, 2, 3, 300, 301, 302, 303)],
        "0a02" + "0800000000000000" + "0000000000010000" + "e803000000000000" + "01010129010101" + "00000001000000",
    ),
    (VarIntCoder(), [2**40, 0], "0208" + "0000000000010000" + "00" * 8),
    (FloatCoder(), [0.5], "03" + "000000000000e03f"),
    (BooleanCoder(), [True, False], "040100"),
    (StrUtf8Coder(), ["a"], "0591a161"),
    (PlainCoder(), ["a", 1, None], "0593a16101c0"),
    (PlainCoder(), [Encoded(b"\x90")], "0104" + "0100000000000000" + "01000000" + "90"),
    (PlainCoder(), [1, Encoded(b"\x90")], "059201d41190"),
    (
        PlainCoder(),
        [(1, "a")],
        "06" + "0100000000000000" + "02000000" + "0300000000000000" + "0400000000000000" + "020101" + "0591a161",
    ),
    (NullableCoder(VarIntCoder()), [None, 5], "07" + "0200000000000000" + "40" + "020105"),
]


@pytest.mark.parametrize(("coder", "stored", "expected"), GOLDEN_BLOCKS)
def test_block_layouts_do_not_drift(coder: Coder, stored: list[Any], expected: str) -> None:
    assert coder.encode_block(stored).hex() == expected
    again = coder.decode_block(bytes.fromhex(expected))
    assert again == stored
    assert list(map(type, again)) == list(map(type, stored))


REFUSED = [
    (VarIntCoder(), True),
    (VarIntCoder(), 1.0),
    (VarIntCoder(), np.timedelta64(1, "s")),
    (BigIntegerCoder(), "1"),
    (FloatCoder(), True),
    (FloatCoder(), "1"),
    (FloatCoder(), 10**400),
    (BooleanCoder(), 1),
    (StrUtf8Coder(), b"a"),
    (BytesCoder(), "a"),
    (BytesCoder(), Encoded(b"a")),
    (TimestampCoder(), "now"),
    (TimestampCoder(), math.nan),
    (DecimalCoder(), 1.5),
    (TupleCoder([VarIntCoder()]), (1, 2)),
    (TupleCoder([VarIntCoder()]), [1]),
    (TupleCoder([VarIntCoder()]), ("a",)),
    (ListCoder(VarIntCoder()), {1}),
    (ListCoder(VarIntCoder()), ["a"]),
    (IterableCoder(VarIntCoder()), "ab"),
    (MapCoder(StrUtf8Coder(), VarIntCoder()), [("a", 1)]),
    (MapCoder(StrUtf8Coder(), VarIntCoder()), {1: 1}),
    (NullableCoder(VarIntCoder()), "a"),
    (JsonCoder(), (1, 2)),
    (JsonCoder(), {1: 2}),
    (JsonCoder(), [math.nan]),
    (JsonCoder(), "\ud800"),
    (JsonCoder(), Colour.RED),
    (RecordCoder(Point), SubPoint(1)),
    (RecordCoder(Point), (1, 2)),
    (RecordCoder(Order), Order(1, [object()], datetime.min)),  # type: ignore[list-item]
    (PickleCoder(), lambda: None),
    (PlainCoder(), object()),
    (PlainCoder(), Colour.RED),
    (PlainCoder(), Pair(1)),
    (PlainCoder(), Point(1)),
    (PlainCoder(), OrderedDict(a=1)),
    (PlainCoder(), [OrderedDict(a=1)]),
    (PlainCoder(), np.array([1])),
    (PlainCoder(), np.datetime64(1, "ns")),
    (PlainCoder(), np.datetime64("NaT")),
    (PlainCoder(), memoryview(b"a")),
    (PlainCoder(), [memoryview(b"a")]),
    (PlainCoder(), [ormsgpack.Ext(1, b"\x90")]),
    (PlainCoder(), {"a": ormsgpack.Ext(1, b"\x90")}),
    (PlainCoder(), Encoded(b"a")),
    (PlainCoder(), (Encoded(b"a"),)),
]


@pytest.mark.parametrize(("coder", "value"), REFUSED)
def test_what_does_not_fit_is_refused_by_name(coder: Coder, value: Any) -> None:
    for refusing in (coder.encode, coder.freeze):
        with pytest.raises(CoderError) as caught:
            refusing(value)
        if not isinstance(coder, TupleCoder | ListCoder | MapCoder | NullableCoder):
            assert repr(coder.identifier) in str(caught.value)
            assert type(value).__qualname__ in str(caught.value)


def test_the_error_leads_to_the_place() -> None:
    with pytest.raises(CoderError) as caught:
        PlainCoder().encode({"a": [1, 2, {"b": (Point(1),)}]})
    text = str(caught.value)
    assert "at ['a'][2]['b'][0]" in text
    assert "Point" in text
    assert "RecordCoder" in text
    assert "PickleCoder" in text
    with pytest.raises(CoderError, match=r"\(key "):
        PlainCoder().encode({Point(1): 2})
    with pytest.raises(CoderError, match=r"at \[\(1, 2\)\]"):
        PlainCoder().encode({(1, 2): Point(1)})
    with pytest.raises(CoderError, match=r"\(element\)"):
        PlainCoder().encode({Point(1)})
    with pytest.raises(CoderError, match="in element 1"):
        ListCoder(VarIntCoder()).encode([1, "a"])  # type: ignore[list-item]
    with pytest.raises(CoderError, match=r"at \.extra\[0\]"):
        RecordCoder(Order).encode(Order(1, [], datetime.min, extra=[object()]))


CONVERTED = [
    (VarIntCoder(), np.int16(3), 3),
    (FloatCoder(), 3, 3.0),
    (FloatCoder(), np.float32(0.5), 0.5),
    (FloatCoder(), np.float64(0.5), 0.5),
    (BooleanCoder(), np.True_, True),
    (StrUtf8Coder(), np.str_("a"), "a"),
    (BytesCoder(), bytearray(b"a"), b"a"),
    (BytesCoder(), memoryview(b"a"), b"a"),
    (TimestampCoder(), 5, Timestamp(micros=5_000_000)),
    (TimestampCoder(), 0.5, Timestamp(micros=500_000)),
    (DecimalCoder(), 5, Decimal(5)),
    (PlainCoder(), np.int64(3), 3),
    (PlainCoder(), np.float64(0.5), 0.5),
    (PlainCoder(), np.bool_(True), True),
    (PlainCoder(), np.str_("a"), "a"),
    (PlainCoder(), np.complex128(1j), 1j),
    (PlainCoder(), (np.int64(3),), (3,)),
    (PlainCoder(), np.datetime64(1, "us"), datetime(1970, 1, 1, 0, 0, 0, 1)),
    (TupleCoder([FloatCoder()]), (1,), (1.0,)),
    (NullableCoder(FloatCoder()), 1, 1.0),
    (ListCoder(VarIntCoder()), (1, 2), [1, 2]),
    (IterableCoder(VarIntCoder()), range(2), [0, 1]),
]


@pytest.mark.parametrize(("coder", "value", "expected"), CONVERTED)
def test_what_holds_the_same_value_is_converted(coder: Coder, value: Any, expected: Any) -> None:
    for result in (coder.thaw(coder.freeze(value)), coder.decode(coder.encode(value))):
        assert result == expected
        assert type(result) is type(expected)
        if type(expected) is tuple:
            assert list(map(type, result)) == list(map(type, expected))


def test_plain_times_keep_zone_and_fold() -> None:
    coder = PlainCoder()
    berlin = ZoneInfo("Europe/Berlin")
    for value in (
        datetime(2024, 10, 27, 2, 30, fold=1, tzinfo=berlin),
        datetime(2024, 1, 1, tzinfo=timezone.utc),
        datetime(2024, 1, 1, tzinfo=timezone(timedelta(hours=-5, microseconds=1), "odd")),
        datetime.max,
        time(1, 2, 3, 4, fold=1),
        time(1, tzinfo=timezone.utc),
    ):
        assert coder.freeze(value) is value
        again = coder.decode(coder.encode(value))
        assert repr(again) == repr(value)
    foreign = datetime(2024, 1, 1, tzinfo=ForeignZone())
    for again in (coder.decode(coder.encode(foreign)), coder.freeze(foreign)):
        assert isinstance(again, datetime)
        assert again == foreign
        assert again.tzinfo == timezone(timedelta(hours=2))


def test_plain_dicts_keep_order_and_sets_are_sorted() -> None:
    coder = PlainCoder()
    assert coder.encode({"a": 1, "b": 2}) != coder.encode({"b": 2, "a": 1})
    assert list(coder.decode(coder.encode({2: "x", 1: "y"}))) == [2, 1]
    # 0 and 8 fall into one place of the table: which is first depends on the order of insertion.
    first, second = {0, 8}, {8, 0}
    assert list(first) != list(second)
    assert coder.encode(first) == coder.encode(second)


def test_too_deep_is_refused_and_cycles_too() -> None:
    cycle: list[Any] = []
    cycle.append(cycle)
    deep_list: Any = 1
    deep_tuple: Any = 1
    for _ in range(sys.getrecursionlimit() * 3):
        deep_list, deep_tuple = [deep_list], (deep_tuple,)
    for value in (cycle, deep_list, deep_tuple):
        with pytest.raises(CoderError, match="nested"):
            PlainCoder().freeze(value)
        with pytest.raises(CoderError):
            JsonCoder().freeze(value)
    value = 1
    for level in range(128):
        value = (value,) if level % 2 else [value]  # type: ignore[assignment]
    assert PlainCoder().decode(PlainCoder().encode(value)) == value


@pytest.mark.parametrize("opening", ["c7{:02x}01", "91"])
def test_bytes_nested_too_deep_do_not_crash(opening: str) -> None:
    data = b"\x01"
    for _ in range(5000):
        data = b"\x91" + data if opening == "91" else b"\xc9" + len(data).to_bytes(4, "big") + b"\x01\x91" + data
        if len(data) > 60_000:
            break
    with pytest.raises(CoderError):
        PlainCoder().decode(data)


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (1, True),
        ((1, "a", (2.0, None)), True),
        (frozenset({(1, 2)}), True),
        ((date(2024, 1, 1), Decimal(1), UUID(int=1), Timestamp(1), Duration(1)), True),
        ([1], False),
        ((1, [2]), False),
        (bytearray(b"a"), False),
        ((bytearray(b"a"),), False),
        ({"a": 1}, False),
        ({1}, False),
    ],
)
def test_plain_keeps_what_is_immutable(value: Any, kept: bool) -> None:
    stored = PlainCoder().freeze(value)
    assert (type(stored) is not Encoded) is kept
    assert PlainCoder().thaw(stored) == value


def test_a_users_coder_is_served_by_the_base_class() -> None:
    coder = HalvesCoder()
    assert coder.identifier == f"{__name__}.HalvesCoder"
    assert coder.freeze(4) == Encoded(b"2")
    assert type(coder.freeze(4)) is Encoded
    assert ImmutableHalvesCoder().freeze(4) == 4
    assert coder.decode_block(coder.encode_block([4, Encoded(b"1")])) == [Encoded(b"2"), Encoded(b"1")]
    assert [coder.thaw(item) for item in coder.decode_block(coder.encode_block([4]))] == [4]
    with pytest.raises(CoderError, match=r"HalvesCoder.*5") as caught:
        coder.freeze(5)
    assert isinstance(caught.value.__cause__, KeyError)
    with pytest.raises(CoderError, match="HalvesCoder") as caught:
        coder.thaw(Encoded(b"x"))
    assert isinstance(caught.value.__cause__, ValueError)
    both = TupleCoder([ImmutableHalvesCoder(), VarIntCoder()])
    assert both.decode_block(both.encode_block([(4, 1), both.freeze((6, 2))])) == [(4, 1), (6, 2)]
    with pytest.raises(CoderError):
        NullableCoder(coder).freeze(5)


def test_a_users_coder_must_give_bytes() -> None:
    class Careless(HalvesCoder):
        def encode(self, value: Any) -> bytes:
            return "text"  # type: ignore[return-value]

    with pytest.raises(CoderError, match="instead of bytes"):
        Careless().freeze(2)


def test_built_in_coders_are_closed() -> None:
    with pytest.raises(TypeError, match="derive it from Coder"):
        type("Secret", (PlainCoder,), {})


def test_coders_are_equal_by_description_and_picklable() -> None:
    assert VarIntCoder() == VarIntCoder()
    assert VarIntCoder() != BigIntegerCoder()
    assert ListCoder(VarIntCoder()) != ListCoder(FloatCoder())
    assert len({default_coder(), PlainCoder(), FastPrimitivesCoder()}) == 1
    assert default_coder() is default_coder()
    assert repr(MapCoder(StrUtf8Coder(), VarIntCoder())) == "MapCoder(StrUtf8Coder(), VarIntCoder())"
    for coder, _, _ in BUILT_IN:
        again = pickle.loads(pickle.dumps(coder))
        assert again == coder
        assert hash(again) == hash(coder)
    assert type(pickle.loads(pickle.dumps(Encoded(b"a")))) is Encoded


def test_components_must_be_coders() -> None:
    with pytest.raises(CoderError, match="not a coder"):
        ListCoder(VarIntCoder)  # type: ignore[arg-type]


ORDER = Order(
    7,
    [Line("nail", Decimal("0.10"), ["iron"]), Line("ham\ud800mer", Decimal(9))],
    datetime(2024, 5, 1, 12, tzinfo=ZoneInfo("Europe/Berlin")),
    place=(1.0, 2.0),
    colour=Colour.BLUE,
    extra={(1, 2): Line("x", Decimal(1))},
)


@pytest.mark.parametrize(
    "value",
    [
        ORDER,
        Point(1),
        Point(2**80, 0.5),
        Reading("s", (1.0, 2.0), Point(1)),
        FrozenReading("s", 1.5),
        Pair(1, "b"),
        FrozenWithList([1]),
    ],
)
def test_records_come_back_as_they_were(value: Any) -> None:
    coder = RecordCoder(type(value))
    assert coder.decode(coder.encode(value)) == value
    assert type(coder.decode(coder.encode(value))) is type(value)
    assert coder.thaw(coder.freeze(value)) == value
    [stored] = coder.decode_block(coder.encode_block([coder.freeze(value)]))
    assert coder.thaw(stored) == value


def test_records_are_isolated() -> None:
    coder = RecordCoder(Order)
    order = copy.deepcopy(ORDER)
    stored = coder.freeze(order)
    order.lines.clear()
    coder.thaw(stored).lines.clear()
    assert coder.thaw(stored) == ORDER
    assert repr(coder.thaw(stored)) == repr(ORDER)


def test_which_records_are_immutable() -> None:
    immutable = {
        Point: True,
        FrozenReading: True,
        Pair: True,
        FrozenWithList: False,
        Order: False,
        Reading: False,
    }
    assert {kind: RecordCoder(kind).is_immutable() for kind in immutable} == immutable
    assert type(RecordCoder(Point).freeze(Point(1))) is Point
    lying = Point([1])  # type: ignore[arg-type]
    assert type(RecordCoder(Point).freeze(lying)) is Encoded


def test_records_take_defaults_and_ignore_unknown_fields() -> None:
    old = ormsgpack.packb({"x": 1, "gone": 2})
    assert RecordCoder(Point).decode(old) == Point(1, None)
    assert RecordCoder(Pair).decode(ormsgpack.packb({"left": 1})) == Pair(1, "none")
    assert RecordCoder(FrozenReading).decode(ormsgpack.packb({"sensor": "s"})) == FrozenReading("s", 0.0)
    first, second = (RecordCoder(Line).decode(ormsgpack.packb({"article": "a", "price": 1})) for _ in range(2))
    assert first.tags is not second.tags
    with pytest.raises(CoderError, match="'x' is missing"):
        RecordCoder(Point).decode(ormsgpack.packb({"y": 1.0}))


def test_a_record_describes_its_fields_and_those_within() -> None:
    description: Any = RecordCoder(Order).describe()
    assert description["class"] == f"{__name__}.Order"
    assert description["fields"]["note"] == "str | None"
    assert description["fields"]["lines"] == f"list[{__name__}.Line]"
    assert description["fields"]["place"] == "tuple[float, float]"
    assert description["nested"][f"{__name__}.Line"]["price"] == "decimal.Decimal"
    assert description["nested"][f"{__name__}.Colour"] == ["RED", "BLUE"]


def test_records_may_hold_classes_that_are_named() -> None:
    value = Order(1, [], datetime.min, extra=Point(1))
    with pytest.raises(CoderError, match=r"RecordCoder\("):
        RecordCoder(Order).freeze(value)
    coder = RecordCoder(Order, Point)
    assert coder.thaw(coder.freeze(value)) == value
    assert pickle.loads(pickle.dumps(coder)) == coder


def test_only_records_are_records() -> None:
    @dataclass
    class WithInitVar:
        x: int
        seed: InitVar[int]

    for kind in (int, object, dict, WithInitVar, Point(1)):
        with pytest.raises(CoderError, match="not a class of records"):
            RecordCoder(kind)  # type: ignore[arg-type]


def test_pickles_say_that_they_are_opaque() -> None:
    assert PickleCoder().describe() == {"id": "pickle", "version": 1, "opaque": True}
    assert PickleCoder.is_pickle
    assert PickleCoder().thaw(PickleCoder().freeze({Colour.RED: Point(1)})) == {Colour.RED: Point(1)}


def test_cloudpickle_is_optional(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    monkeypatch.setitem(sys.modules, "pyspark.cloudpickle", None)
    with pytest.raises(CoderError, match="neither the package cloudpickle nor PySpark"):
        CloudpickleCoder()


def test_pysparks_copy_of_cloudpickle_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    coder = CloudpickleCoder()
    assert coder.decode(coder.encode(lambda x: x + 1))(1) == 2


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package cloudpickle, as if it were installed."""
    file = importlib.import_module("pyspark.cloudpickle.cloudpickle").__file__
    spec = importlib.util.spec_from_file_location("cloudpickle.cloudpickle", file)
    assert spec is not None
    inner = importlib.util.module_from_spec(spec)
    outer = types.ModuleType("cloudpickle")
    monkeypatch.setitem(sys.modules, "cloudpickle.cloudpickle", inner)
    monkeypatch.setitem(sys.modules, "cloudpickle", outer)
    spec.loader.exec_module(inner)  # type: ignore[union-attr]
    vars(outer).update(dumps=inner.dumps, cloudpickle=inner)


def test_a_copy_of_cloudpickle_reads_what_another_has_written(package: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes of the package are read where only PySpark is, and the other way round."""
    written = {name: sys.modules[name].dumps(lambda x: x + 1, protocol=5) for name in ("cloudpickle", "pyspark.cloudpickle")}
    assert b"pyspark" not in written["cloudpickle"]
    for missing in written:
        with monkeypatch.context() as only:
            only.setitem(sys.modules, missing, None)
            only.setitem(sys.modules, f"{missing}.cloudpickle", None)
            assert [CloudpickleCoder().decode(data)(1) for data in written.values()] == [2, 2]


class TestPicklesOfTheScriptItself:
    """A class of `__main__` has no name by which a worker could find it: refused in memory as on Spark."""

    @pytest.fixture
    def model(self, monkeypatch: pytest.MonkeyPatch) -> type:
        """A class as a script has it, which pickle finds."""
        made = type("Model", (), {"__module__": "__main__"})
        monkeypatch.setattr(sys.modules["__main__"], "Model", made, raising=False)
        assert type(pickle.loads(pickle.dumps(made()))) is made
        return made

    @pytest.mark.parametrize(
        "hidden", [lambda m: m(), lambda m: m, lambda m: [{"x": (m(),)}], lambda m: ["__main__", m(), m()]]
    )
    def test_are_refused(self, model: type, hidden: Callable[[Any], Any]) -> None:
        with pytest.raises(
            CoderError, match="the class Model is defined in the script itself, which no worker can import"
        ) as raised:
            PickleCoder().encode(hidden(model))
        assert "CloudpickleCoder()" in str(raised.value)
        assert "a module of its own" in str(raised.value)

    def test_are_refused_in_a_worker_with_the_same_words(self, model: type, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delattr(sys.modules["__main__"], "Model")
        with pytest.raises(CoderError, match="the class Model is defined in the script itself, which no worker can import"):
            PickleCoder().encode(model())

    def test_cloudpickle_takes_them(self, model: type) -> None:
        coder = CloudpickleCoder()
        assert type(coder.decode(coder.encode(model()))).__name__ == "Model"

    def test_a_text_is_only_a_text(self) -> None:
        assert PickleCoder().decode(PickleCoder().encode(["__main__", Point(1)])) == ["__main__", Point(1)]

    def test_another_class_that_cannot_be_found_gets_the_same_advice(self) -> None:
        class Local:
            pass

        with pytest.raises(CoderError, match=r"CloudpickleCoder\(\)"):
            PickleCoder().encode(Local())


def test_coders_come_back_from_their_descriptions() -> None:
    for coder, identifier, _ in BUILT_IN:
        again = coder_from_description(coder.describe())
        assert again == (None if identifier in ("record", "pickle") else coder)
    assert coder_from_description(PickleCoder().describe(), trust_pickle=True) == PickleCoder()
    assert coder_from_description(ListCoder(PickleCoder()).describe()) is None
    assert coder_from_description(HalvesCoder().describe()) is None
    assert coder_from_description({"id": "varint", "version": 99}) is None
    assert coder_from_description({"id": "list", "version": 1}) is None
    assert coder_from_description({}) is None


def test_records_can_be_viewed_without_their_class() -> None:
    coder = ListCoder(RecordCoder(Order))
    view = coder_from_description(coder.describe(), view_records=True)
    assert view is not None
    [seen] = view.decode(coder.encode([ORDER]))
    assert seen["lines"][0] == {"article": "nail", "price": Decimal("0.10"), "tags": ["iron"]}
    assert seen["colour"] == "BLUE"
    with pytest.raises(CoderError, match="only reads"):
        view.encode([{}])


def test_exports_are_complete_and_sorted() -> None:
    assert coders.__all__ == sorted(coders.__all__)
    assert all(hasattr(coders, name) for name in coders.__all__)


STEPS = VarIntCoder().encode_block([10**15 + number for number in range(8)])
DAMAGED_STEPS = [
    STEPS[:20],
    STEPS[:-1],
    STEPS + b"\x01",
    STEPS[:1] + b"\x03" + STEPS[2:],
    STEPS[:2] + bytes(8) + STEPS[10:],
    STEPS[:18] + bytes(8) + STEPS[26:],
]


@pytest.mark.parametrize("coder", [coder for coder, _, _ in BUILT_IN])
@pytest.mark.parametrize(
    "block", [b"", b"\x00", b"\xff", b"\x01", b"\x01\x04", b"\x02\x03\x00", b"\x06" + b"\xff" * 30, *DAMAGED_STEPS]
)
def test_damaged_blocks_are_refused(coder: Coder, block: bytes) -> None:
    with pytest.raises(CoderError, match=coder.identifier):
        coder.decode_block(block)


def test_left_over_bytes_are_refused() -> None:
    for coder, value in (
        (PlainCoder(), 1),
        (PlainCoder(), (1,)),
        (VarIntCoder(), 1),
        (RecordCoder(Point), Point(1)),
    ):
        with pytest.raises(CoderError):
            coder.decode(coder.encode(value) + b"\x01")
    for coder, stored in ((PlainCoder(), ["a"]), (StrUtf8Coder(), ["a"]), (HalvesCoder(), [2])):
        with pytest.raises(CoderError):
            coder.decode_block(coder.encode_block(stored) + b"\x01")
