"""What holds for every coder and every value: round trips, isolation, blocks, and damage that is noticed."""

from __future__ import annotations

import contextlib
import copy
import struct
from dataclasses import dataclass
from datetime import timezone
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.errors import CoderError
from holdfast.model.coders import (
    BigIntegerCoder,
    BooleanCoder,
    BytesCoder,
    Coder,
    DecimalCoder,
    Encoded,
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
)
from holdfast.model.time.timestamps import Duration, Timestamp
from tiers import examples

moderate = settings(max_examples=examples(15), deadline=None, suppress_health_check=[HealthCheck.too_slow])


@dataclass(frozen=True)
class Point:
    x: int
    y: str | None = None


@dataclass
class Path:
    points: list[Point]
    label: Any = None


class Pair(NamedTuple):
    left: int
    right: float


class ReversedCoder(Coder):
    """A user's coder for text."""

    def encode(self, value: Any) -> bytes:
        data: bytes = value[::-1].encode("utf-8")
        return data

    def decode(self, data: bytes) -> Any:
        return data.decode("utf-8")[::-1]


class ImmutableReversedCoder(ReversedCoder):
    def is_immutable(self) -> bool:
        return True


def same(left: Any, right: Any) -> bool:
    """Equal, of the same type, in the same order, down to the bits of floats."""
    if type(left) is not type(right):
        return False
    if isinstance(left, float):
        # All that hypothesis makes of nan comes back bit by bit.
        return struct.pack(">d", left) == struct.pack(">d", right)
    if isinstance(left, complex):
        return same((left.real, left.imag), (right.real, right.imag))
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        return same(list(left.items()), list(right.items()))
    if isinstance(left, set | frozenset):
        remaining = list(right)
        for item in left:
            match = next((index for index, other in enumerate(remaining) if same(item, other)), None)
            if match is None:
                return False
            remaining.pop(match)
        return not remaining
    if isinstance(left, Path):
        return same((left.points, left.label), (right.points, right.label))
    return repr(left) == repr(right)


zones = st.sampled_from([None, timezone.utc, ZoneInfo("Europe/Berlin"), ZoneInfo("America/New_York")])
texts = st.text(st.characters(codec=None, exclude_categories=()), max_size=8)
integers = st.one_of(st.integers(-5, 5), st.integers(), st.sampled_from([2**63, -(2**63), 2**64, -(2**63) - 1]))
timestamps = st.integers(-(10**15), 10**15).map(lambda micros: Timestamp(micros=micros))
atoms = st.one_of(st.none(), st.booleans(), integers, st.floats(), texts, st.binary(max_size=8))
decimals = st.decimals(allow_nan=True, allow_infinity=True)
immutable_leaves = st.one_of(
    atoms,
    st.datetimes(timezones=zones, allow_imaginary=True),
    st.dates(),
    st.times(),
    st.timedeltas(),
    decimals,
    st.uuids(),
    st.complex_numbers(),
    timestamps,
    st.integers().map(lambda micros: Duration(micros=micros)),
)
hashables = st.recursive(
    immutable_leaves.filter(lambda value: "sNaN" not in repr(value)),  # Signalling nans have no hash.
    lambda inner: st.one_of(st.lists(inner, max_size=3).map(tuple), st.frozensets(inner, max_size=3)),
    max_leaves=4,
)
plain = st.recursive(
    st.one_of(immutable_leaves, st.binary(max_size=4).map(bytearray), st.sets(hashables, max_size=3)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(texts, inner, max_size=3),
        st.dictionaries(hashables, inner, max_size=3),
    ),
    max_leaves=10,
)
unicode_texts = st.text(max_size=8)
json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), unicode_texts),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(unicode_texts, inner, max_size=3)),
    max_leaves=6,
)
points = st.builds(Point, integers, st.none() | texts)

CODERS: dict[str, tuple[Coder, st.SearchStrategy[Any]]] = {
    "varint": (VarIntCoder(), integers),
    "varint_small": (VarIntCoder(), st.integers(-(2**31), 2**31)),
    "varint_times": (VarIntCoder(), st.integers(10**15, 10**15 + 10**6) | st.sampled_from([-(2**63), 2**63 - 1])),
    "bigint": (BigIntegerCoder(), integers),
    "float": (FloatCoder(), st.floats()),
    "bool": (BooleanCoder(), st.booleans()),
    "str": (StrUtf8Coder(), texts),
    "bytes": (BytesCoder(), st.binary(max_size=8)),
    "timestamp": (TimestampCoder(), timestamps),
    "decimal": (DecimalCoder(), decimals),
    "plain": (PlainCoder(), plain),
    "plain_atoms": (PlainCoder(), atoms),
    "plain_integers": (PlainCoder(), integers),
    "plain_tuples": (PlainCoder(), st.tuples(st.integers(-(2**40), 2**40), st.floats(), texts)),
    "json": (JsonCoder(), json_values),
    "tuple": (TupleCoder([VarIntCoder(), StrUtf8Coder()]), st.tuples(integers, texts)),
    "tuple_empty": (TupleCoder([]), st.just(())),
    "tuple_mutable": (TupleCoder([VarIntCoder(), PlainCoder()]), st.tuples(integers, plain)),
    "tuple_user": (
        TupleCoder([ImmutableReversedCoder(), NullableCoder(FloatCoder())]),
        st.tuples(unicode_texts, st.none() | st.floats()),
    ),
    "list": (ListCoder(VarIntCoder()), st.lists(integers, max_size=4)),
    "iterable": (IterableCoder(NullableCoder(StrUtf8Coder())), st.lists(st.none() | texts, max_size=4)),
    "map": (MapCoder(StrUtf8Coder(), PlainCoder()), st.dictionaries(texts, plain, max_size=3)),
    "nullable": (NullableCoder(VarIntCoder()), st.none() | integers),
    "nullable_plain": (NullableCoder(PlainCoder()), plain),
    "nullable_user": (NullableCoder(ReversedCoder()), st.none() | unicode_texts),
    "record_frozen": (RecordCoder(Point), points),
    "record": (RecordCoder(Path), st.builds(Path, st.lists(points, max_size=3), plain | points)),
    "record_named_tuple": (RecordCoder(Pair), st.builds(Pair, integers, st.floats())),
    "pickle": (PickleCoder(), st.lists(integers | unicode_texts, max_size=3)),
    "user": (ReversedCoder(), unicode_texts),
    "user_immutable": (ImmutableReversedCoder(), unicode_texts),
}

every_coder = pytest.mark.parametrize("name", list(CODERS))


def stored_values(coder: Coder, values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[tuple[Any, Any]]]:
    """Lists of (value, stored): some frozen, some Encoded."""
    pairs = st.tuples(values, st.booleans()).map(
        lambda pair: (pair[0], Encoded(coder.encode(pair[0])) if pair[1] else coder.freeze(pair[0]))
    )
    return st.lists(pairs, max_size=8)


@every_coder
@moderate
@given(st.data())
def test_values_come_back_as_they_were(name: str, data: st.DataObject) -> None:
    coder, values = CODERS[name]
    value = data.draw(values)
    assert same(coder.decode(coder.encode(value)), value)
    stored = coder.freeze(value)
    assert same(coder.thaw(stored), value)
    assert same(coder.thaw(Encoded(coder.encode(value))), value)
    if type(value) in coder.direct_types:
        assert stored is value
    if coder.is_deterministic():
        assert coder.encode(coder.decode(coder.encode(value))) == coder.encode(value)


def spoil(value: Any) -> None:
    """Changes all that can be changed in a value."""
    if isinstance(value, dict):
        for item in value.values():
            spoil(item)
        value["spoilt"] = 1
    elif isinstance(value, list | bytearray):
        for item in value:
            spoil(item)
        value.append(1)
    elif isinstance(value, set):
        value.add("spoilt")
    elif isinstance(value, tuple):
        for item in value:
            spoil(item)
    elif isinstance(value, Path):
        value.points.append(Point(1))
        spoil(value.label)
        value.label = "spoilt"


@every_coder
@moderate
@given(st.data())
def test_what_is_stored_is_out_of_reach(name: str, data: st.DataObject) -> None:
    coder, values = CODERS[name]
    value = data.draw(values)
    before = copy.deepcopy(value)
    stored = coder.freeze(value)
    spoil(value)
    spoil(coder.thaw(stored))
    assert same(coder.thaw(stored), before)
    [again] = coder.decode_block(coder.encode_block([stored]))
    spoil(coder.thaw(again))
    assert same(coder.thaw(again), before)


@every_coder
@moderate
@given(st.data())
def test_blocks_give_back_what_went_in(name: str, data: st.DataObject) -> None:
    coder, values = CODERS[name]
    pairs = data.draw(stored_values(coder, values))
    block = coder.encode_block([stored for _, stored in pairs])
    assert type(block) is bytes
    decoded = coder.decode_block(block)
    assert same([coder.thaw(stored) for stored in decoded], [value for value, _ in pairs])
    again = coder.decode_block(coder.encode_block(decoded))
    assert same([coder.thaw(stored) for stored in again], [value for value, _ in pairs])


@every_coder
@moderate
@given(st.data())
def test_damage_is_a_coder_error_or_unnoticed_but_never_a_crash(name: str, data: st.DataObject) -> None:
    coder, values = CODERS[name]
    if isinstance(coder, PickleCoder):
        return  # To unpickle damaged bytes is to run whatever they say.
    pairs = data.draw(stored_values(coder, values))
    block = bytearray(coder.encode_block([stored for _, stored in pairs]))
    match data.draw(st.sampled_from(["flip", "cut", "add", "any"])):
        case "flip":
            for _ in range(data.draw(st.integers(1, 3))):
                block[data.draw(st.integers(0, len(block) - 1))] = data.draw(st.integers(0, 255))
        case "cut":
            del block[data.draw(st.integers(0, len(block) - 1)) :]
        case "add":
            block += data.draw(st.binary(min_size=1, max_size=4))
        case "any":
            block = bytearray(block[:1] + data.draw(st.binary(max_size=40)))
    with contextlib.suppress(CoderError):
        for stored in coder.decode_block(bytes(block)):
            coder.thaw(stored)


@every_coder
@moderate
@given(st.binary(max_size=24))
def test_any_bytes_decode_or_are_refused(name: str, data: bytes) -> None:
    coder, _ = CODERS[name]
    if isinstance(coder, PickleCoder):
        return
    with contextlib.suppress(CoderError):
        coder.thaw(Encoded(data))
