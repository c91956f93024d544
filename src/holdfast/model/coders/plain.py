"""PlainCoder: the default coder, for any plain Python value."""

from __future__ import annotations

from datetime import datetime, time
from functools import cache
from operator import itemgetter
from typing import Any

import numpy as np
import ormsgpack

from holdfast.model.coders import blocks, extensions
from holdfast.model.coders.base import BuiltinCoder, Encoded
from holdfast.model.coders.plain_format import ATOMS, DEPTH_MAX, MISSING, PLAIN, Misfit, as_python_scalar

__all__ = ["FastPrimitivesCoder", "PlainCoder", "default_coder"]

_TODO = "Use RecordCoder for dataclasses, NamedTuples and msgspec structs, or your own Coder; PickleCoder as a last resort."
_COLUMN_LAYOUTS = {bytes((tag,)) for tag in (*blocks.INTEGER_LAYOUTS, blocks.FLOATS, blocks.BOOLEANS, blocks.VALUES)}
_IMMUTABLE_LEAVES = frozenset(extensions.LEAF_NUMBERS) - {bytearray}


class PlainCoder(BuiltinCoder[Any]):
    """Any plain Python value; every value comes back with the type it had.

    Plain values are None, bool, int of any size, float, complex, str, bytes, bytearray, list, tuple, dict with
    any plain keys, set, frozenset, datetime, date, time, timedelta, Decimal, UUID, Timestamp and Duration,
    nested up to 128 levels deep. A numpy scalar becomes the Python value it holds. Subclasses of these types
    (including NamedTuples and enumerations) and all other classes are refused.

    A dict keeps its order, so equal dicts in different order have different bytes. Otherwise the same value
    always has the same bytes; sets are sorted. UTC offsets and ZoneInfo keys of datetimes are kept; any other
    zone becomes its offset.

    Immutable values, including tuples and frozensets of them, are stored as they are; all others are Encoded.
    """

    short_name = "plain"
    direct_types = ATOMS

    def is_deterministic(self) -> bool:
        return True

    def encode(self, value: object) -> bytes:
        try:
            return PLAIN.pack(value)
        except Misfit as misfit:
            raise self.misfit(value, misfit.where() + ".", _TODO) from misfit.__cause__

    def decode(self, data: bytes) -> Any:
        try:
            return PLAIN.unpack(data)
        except Exception as error:
            raise self.damaged(data, error) from error

    def freeze(self, value: Any) -> object:
        kind = type(value)
        if kind in ATOMS or (kind is tuple and ATOMS.issuperset(map(type, value))):
            return value
        if kind is list or kind is dict:
            return Encoded(self.encode(value))
        try:
            frozen = _immutable(value, 0)
        except Exception:  # encode() knows how to say what is wrong.
            frozen = MISSING
        return Encoded(self.encode(value)) if frozen is MISSING else frozen

    def _write_block(self, stored: list[Any]) -> bytes:
        kinds = set(map(type, stored))
        if kinds == {Encoded}:
            return blocks.write_slices(stored)
        block = self._write_atoms(stored, kinds) or (self._write_tuples(stored) if kinds == {tuple} else None)
        if block is not None:
            return block
        try:
            return bytes((blocks.VALUES,)) + PLAIN.pack_stored(stored)
        except Misfit as misfit:
            raise self.misfit(stored, misfit.where() + ".", _TODO) from misfit.__cause__

    def _write_atoms(self, values: list[Any], kinds: set[type]) -> bytes | None:
        """None if they are not all atoms, or MessagePack cannot hold some of them exactly."""
        if kinds == {float}:
            return blocks.write_floats(values)
        if kinds == {int}:
            return blocks.write_integers(values)
        if kinds == {bool}:
            return blocks.write_booleans(values)
        if not kinds <= ATOMS:
            return None
        try:
            return bytes((blocks.VALUES,)) + ormsgpack.packb(values)
        except TypeError:
            return None

    def _write_tuples(self, rows: list[Any]) -> bytes | None:
        """None if they differ in length, or hold anything but atoms."""
        lengths = set(map(len, rows))
        if len(lengths) != 1 or 0 in lengths:
            return None
        columns = []
        for index in range(lengths.pop()):
            column = list(map(itemgetter(index), rows))
            block = self._write_atoms(column, set(map(type, column)))
            if block is None:
                return None
            columns.append(block)
        return blocks.write_columns(len(rows), columns)

    def _read_block(self, block: bytes) -> list[Any]:
        layout = block[0]
        if layout in blocks.INTEGER_LAYOUTS:
            return blocks.read_integers(block)
        if layout == blocks.FLOATS:
            return blocks.read_floats(block)
        if layout == blocks.BOOLEANS:
            return blocks.read_booleans(block)
        if layout == blocks.VALUES:
            return PLAIN.unpack_stored(block[1:])
        if layout != blocks.COLUMNS:
            return super()._read_block(block)
        count, parts = blocks.read_columns(block)
        if not parts or any(part[:1] not in _COLUMN_LAYOUTS for part in parts):
            raise blocks.Damaged("columns that do not hold atoms")
        columns = [self._read_block(part) for part in parts]
        if any(len(column) != count or not ATOMS.issuperset(map(type, column)) for column in columns):
            raise blocks.Damaged("columns of different length, or of other values than atoms")
        return list(zip(*columns, strict=True))


FastPrimitivesCoder = PlainCoder
"""Beam's name for this coder."""


@cache
def default_coder() -> PlainCoder:
    """The coder of cells and keys that declare none."""
    return PlainCoder()


def _immutable(value: Any, depth: int) -> Any:
    """The value, normalised, if it is plain and deeply immutable; otherwise MISSING."""
    kind = type(value)
    if kind in ATOMS:
        return value
    if depth >= DEPTH_MAX:
        return MISSING
    if kind is tuple or kind is frozenset:
        if ATOMS.issuperset(map(type, value)):
            return value
        items = [_immutable(item, depth + 1) for item in value]
        return MISSING if any(item is MISSING for item in items) else kind(items)
    if kind is datetime or kind is time:
        return extensions.own_zone(value)
    if kind in _IMMUTABLE_LEAVES or extensions.is_time_type(kind):
        return value
    return as_python_scalar(value) if isinstance(value, np.generic) else MISSING
