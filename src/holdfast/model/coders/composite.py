"""Coders made of other coders.

A *part* is the length of its bytes as a varint, and the bytes.

    id        encoded form
    --------  -----------------------------------------------------------
    tuple     one part for each component
    list      number of elements as a varint, one part each
    iterable  the same
    map       number of entries as a varint, then a part for each key and each value
    nullable  00 for None; 01 and the bytes of the value
    json      UTF-8 JSON text without spaces
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, TypeVar, overload

from holdfast.errors import CoderError
from holdfast.model.coders import blocks
from holdfast.model.coders.base import BuiltinCoder, Coder, Encoded, shortened
from holdfast.model.coders.integers import read_varint, write_varint

__all__ = ["IterableCoder", "JsonCoder", "ListCoder", "MapCoder", "NullableCoder", "TupleCoder"]

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
TupleT = TypeVar("TupleT", bound="tuple[Any, ...]")


class TupleCoder(BuiltinCoder[TupleT]):
    """Tuples with one coder for each component."""

    short_name = "tuple"

    @overload
    def __init__(self: TupleCoder[tuple[A]], components: tuple[Coder[A]]) -> None: ...

    @overload
    def __init__(self: TupleCoder[tuple[A, B]], components: tuple[Coder[A], Coder[B]]) -> None: ...

    @overload
    def __init__(self: TupleCoder[tuple[A, B, C]], components: tuple[Coder[A], Coder[B], Coder[C]]) -> None: ...

    @overload
    def __init__(self: TupleCoder[tuple[A, B, C, D]], components: tuple[Coder[A], Coder[B], Coder[C], Coder[D]]) -> None: ...

    @overload
    def __init__(self: TupleCoder[tuple[Any, ...]], components: Sequence[Coder[Any]]) -> None: ...

    def __init__(self, components: Sequence[Coder[Any]]) -> None:
        self.components = tuple(_checked(component) for component in components)

    def encode(self, value: TupleT) -> bytes:
        self._check(value)
        out: list[bytes] = []
        for index, (component, item) in enumerate(zip(self.components, value, strict=True)):
            _write_part(out, component, item, f"component {index}")
        return b"".join(out)

    def decode(self, data: bytes) -> TupleT:
        reader = _Reader(self, data)
        value = tuple([reader.part(component) for component in self.components])
        reader.finish()
        return value  # type: ignore[return-value]

    def is_deterministic(self) -> bool:
        return all(component.is_deterministic() for component in self.components)

    def is_immutable(self) -> bool:
        return all(component.is_immutable() for component in self.components)

    def describe(self) -> dict[str, object]:
        return {**super().describe(), "components": [component.describe() for component in self.components]}

    def freeze(self, value: TupleT) -> object:
        if not self.is_immutable():
            return Encoded(self.encode(value))
        self._check(value)
        return tuple([component.freeze(item) for component, item in zip(self.components, value, strict=True)])

    def _check(self, value: Any) -> None:
        if type(value) is not tuple or len(value) != len(self.components):
            raise self.misfit(value, f"It takes tuples of length {len(self.components)}.")

    def _write_block(self, stored: list[Any]) -> bytes:
        if not self.is_immutable() or not self.components:
            return super()._write_block(stored)
        rows = [self.thaw(item) for item in stored]
        columns = [
            component.encode_block(list(map(itemgetter(index), rows))) for index, component in enumerate(self.components)
        ]
        return blocks.write_columns(len(rows), columns)

    def _read_block(self, block: bytes) -> list[Any]:
        if block[0] != blocks.COLUMNS:
            return super()._read_block(block)
        count, parts = blocks.read_columns(block)
        if len(parts) != len(self.components) or not parts:  # Without columns nothing would bound the count.
            raise blocks.Damaged(f"{len(parts)} columns for {len(self.components)} components")
        columns = [_thawed(c, c.decode_block(part)) for c, part in zip(self.components, parts, strict=True)]
        if any(len(column) != count for column in columns):
            raise blocks.Damaged("columns of different length")
        return list(zip(*columns, strict=True))

    def _arguments(self) -> tuple[Any, ...]:
        return (list(self.components),)


class ListCoder(BuiltinCoder[list[T]]):
    """Lists with one coder for all elements. A tuple is taken too, and comes back as a list."""

    short_name = "list"

    def __init__(self, element: Coder[T]) -> None:
        self.element = _checked(element)

    def encode(self, value: Iterable[T]) -> bytes:
        items = self._items(value)
        out = [write_varint(len(items))]
        for index, item in enumerate(items):
            _write_part(out, self.element, item, f"element {index}")
        return b"".join(out)

    def decode(self, data: bytes) -> list[T]:
        reader = _Reader(self, data)
        value = [reader.part(self.element) for _ in range(reader.count())]
        reader.finish()
        return value

    def is_deterministic(self) -> bool:
        return self.element.is_deterministic()

    def describe(self) -> dict[str, object]:
        return {**super().describe(), "element": self.element.describe()}

    def _items(self, value: Any) -> Sequence[Any]:
        if type(value) is list or type(value) is tuple:
            return value
        raise self.misfit(value, "It takes lists.")

    def _arguments(self) -> tuple[Any, ...]:
        return (self.element,)


class IterableCoder(ListCoder[T]):
    """Any iterable except text, bytes and mappings; it comes back as a list."""

    short_name = "iterable"

    def _items(self, value: Any) -> Sequence[Any]:
        if isinstance(value, str | bytes | bytearray | Mapping) or not isinstance(value, Iterable):
            raise self.misfit(value, "It takes iterables other than text, bytes and mappings.")
        return list(value)


class MapCoder(BuiltinCoder[dict[K, V]]):
    """Dicts with one coder for all keys and one for all values. Keeps the order, so it is not deterministic."""

    short_name = "map"

    def __init__(self, key: Coder[K], value: Coder[V]) -> None:
        self.key = _checked(key)
        self.value = _checked(value)

    def encode(self, value: dict[K, V]) -> bytes:
        if type(value) is not dict:
            raise self.misfit(value, "It takes dicts.")
        out = [write_varint(len(value))]
        for key, item in value.items():
            _write_part(out, self.key, key, f"key {shortened(key)}")
            _write_part(out, self.value, item, f"value of key {shortened(key)}")
        return b"".join(out)

    def decode(self, data: bytes) -> dict[K, V]:
        reader = _Reader(self, data)
        value: dict[K, V] = {}
        for _ in range(reader.count()):
            key = reader.part(self.key)
            item = reader.part(self.value)
            try:
                value[key] = item
            except TypeError as error:
                raise self.damaged(data, error) from error
        reader.finish()
        return value

    def describe(self) -> dict[str, object]:
        return {**super().describe(), "key": self.key.describe(), "value": self.value.describe()}

    def _arguments(self) -> tuple[Any, ...]:
        return (self.key, self.value)


class NullableCoder(BuiltinCoder[T | None]):
    """None, or a value of another coder."""

    short_name = "nullable"

    def __init__(self, inner: Coder[T]) -> None:
        self.inner = _checked(inner)
        self.direct_types = self.inner.direct_types | {type(None)}

    def encode(self, value: T | None) -> bytes:
        return b"\x00" if value is None else b"\x01" + self.inner.encode_checked(value)

    def decode(self, data: bytes) -> T | None:
        if data == b"\x00":
            return None
        if data[:1] != b"\x01":
            raise self.damaged(data, blocks.Damaged("neither None nor a value"))
        return self.inner.decode_checked(data[1:])

    def is_deterministic(self) -> bool:
        return self.inner.is_deterministic()

    def is_immutable(self) -> bool:
        return self.inner.is_immutable()

    def describe(self) -> dict[str, object]:
        return {**super().describe(), "inner": self.inner.describe()}

    def freeze(self, value: T | None) -> object:
        return None if value is None else _as_nullable(self.inner.freeze(value))

    def _write_block(self, stored: list[Any]) -> bytes:
        values = [_as_inner(item) if type(item) is Encoded else item for item in stored]
        present = [item is not None for item in values]
        inner = self.inner.encode_block([item for item in values if item is not None])
        return blocks.write_nullable(present, inner)

    def _read_block(self, block: bytes) -> list[Any]:
        if block[0] != blocks.NULLABLE:
            return super()._read_block(block)
        present, part = blocks.read_nullable(block)
        values = self.inner.decode_block(part)
        if sum(present) != len(values):
            raise blocks.Damaged("the mask does not fit the values")
        remaining = iter(values)
        return [_as_nullable(next(remaining)) if there else None for there in present]

    def _arguments(self) -> tuple[Any, ...]:
        return (self.inner,)


class JsonCoder(BuiltinCoder[Any]):
    """JSON values, stored as text that people and other programs can read.

    Refuses what JSON would silently change: tuples, keys other than text, nan, infinities, subclasses.
    """

    short_name = "json"

    def encode(self, value: object) -> bytes:
        try:
            self._check(value, "")
            text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
            return text.encode("utf-8")
        except (ValueError, RecursionError) as error:
            if isinstance(error, CoderError):
                raise
            raise self.misfit(value, f"{type(error).__name__}: {error}") from error

    def decode(self, data: bytes) -> Any:
        try:
            return json.loads(data.decode("utf-8"), parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            raise self.damaged(data, error) from error

    def _check(self, value: Any, where: str) -> None:
        kind = type(value)
        if kind is list:
            for index, item in enumerate(value):
                self._check(item, f"{where}[{index}]")
        elif kind is dict:
            for key, item in value.items():
                if type(key) is not str:
                    raise self.misfit(value, f"The key {shortened(key)} is not text, at {where or 'top'}.")
                self._check(item, f"{where}[{shortened(key)}]")
        elif kind not in (str, int, float, bool, type(None)):
            why = f"{shortened(value)} of type {kind.__qualname__} has no equivalent in JSON, at {where or 'top'}."
            raise self.misfit(value, why)


def _refuse_constant(name: str) -> Any:
    raise blocks.Damaged(f"{name} is not JSON")


def _checked(coder: Coder[T]) -> Coder[T]:
    if not isinstance(coder, Coder):
        raise CoderError(f"{shortened(coder)} is not a coder.", todo="Give an instance, as in VarIntCoder().")
    return coder


def _thawed(coder: Coder[Any], stored: list[Any]) -> list[Any]:
    return [coder.thaw(item) for item in stored] if Encoded in set(map(type, stored)) else stored


def _as_nullable(stored: Any) -> Any:
    return Encoded(b"\x01" + stored) if type(stored) is Encoded else stored


def _as_inner(stored: Encoded) -> Any:
    return None if stored == b"\x00" else Encoded(stored[1:])


def _write_part(out: list[bytes], coder: Coder[T], value: T, where: str) -> None:
    try:
        data = coder.encode_checked(value)
    except CoderError as error:
        error.detail = f"{error.detail}\nin {where}".strip()
        raise
    out.append(write_varint(len(data)))
    out.append(data)


class _Reader:
    """Reads parts one after another; raises a CoderError of the reading coder if they do not add up."""

    def __init__(self, coder: Coder[Any], data: bytes) -> None:
        self._coder = coder
        self._data = data
        self._at = 0

    def count(self) -> int:
        try:
            number, self._at = read_varint(self._data, self._at)
            if number > len(self._data) - self._at:  # Every part takes at least one byte.
                raise blocks.Damaged("fewer parts than announced")
        except blocks.Damaged as error:
            raise self._coder.damaged(self._data, error) from error
        return number

    def part(self, coder: Coder[T]) -> T:
        length = self.count()
        first, self._at = self._at, self._at + length
        return coder.decode_checked(self._data[first : self._at])

    def finish(self) -> None:
        if self._at != len(self._data):
            raise self._coder.damaged(self._data, blocks.Damaged("there are bytes after the value"))
