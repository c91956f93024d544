"""The format of plain values: MessagePack where it keeps a value exactly, extension types everywhere else.

By itself, the MessagePack library would turn a bytearray into bytes, a date used as a key into text, and the
member of an enumeration into its value. So nothing reaches it unchecked: every container is inspected first
(by the set of types in it, which is quick), and whatever MessagePack would change is lowered to an extension
type.

Invariant: `unpack(pack(value))` equals `value`, with the same types throughout.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from datetime import date, datetime, time, timedelta
from typing import Any

import numpy as np
import ormsgpack

from holdfast.model.coders import blocks, extensions
from holdfast.model.coders.base import Encoded, shortened

__all__ = ["ATOMS", "MISSING", "PLAIN", "Misfit", "PlainFormat", "as_python_scalar", "pack_lowered"]

ATOMS: frozenset[type] = frozenset({int, float, str, bytes, bool, type(None)})
"""Kept exactly by MessagePack, except for integers beyond 64 bits and lone surrogates, for which it raises."""

MISSING: Any = object()
DEPTH_MAX = 128

# The library hides why an extension could not be read: the reason is kept here until it has returned.
_FAILED = threading.local()
_HIDDEN = "ext_hook failed"

_OPTIONS = (
    ormsgpack.OPT_PASSTHROUGH_TUPLE
    | ormsgpack.OPT_PASSTHROUGH_SUBCLASS
    | ormsgpack.OPT_PASSTHROUGH_DATETIME
    | ormsgpack.OPT_PASSTHROUGH_BIG_INT
    | ormsgpack.OPT_PASSTHROUGH_UUID
    | ormsgpack.OPT_PASSTHROUGH_DATACLASS
    | ormsgpack.OPT_PASSTHROUGH_ENUM
)


class Misfit(Exception):
    """A value that is not plain. `steps` is the path to it, innermost first."""

    def __init__(self, why: str, value: Any = MISSING) -> None:
        super().__init__(why)
        self.why = why
        self.value = value
        self.steps: list[str] = []

    def where(self) -> str:
        """The reason, with the path: "… at ['a'][2]"."""
        return f"{self.why}, at {''.join(reversed(self.steps))}" if self.steps else self.why


class PlainFormat:
    """Packs and unpacks plain values. Record formats build on it: they know some more classes."""

    def pack(self, value: Any) -> bytes:
        """Raises a Misfit, and nothing else, if the value is not plain."""
        try:
            return pack_lowered(self.lower(value, 0, False))
        except Misfit:
            raise
        except Exception:  # The slow path finds out how to pack it, or why that is impossible.
            return self._packed(lambda careful: self.lower(value, 0, careful))

    def pack_stored(self, stored: list[Any]) -> bytes:
        """An array of stored values; Encoded ones go in as they are."""

        def lowered(careful: bool) -> list[Any]:
            return [
                ormsgpack.Ext(extensions.ENCODED, bytes(item)) if type(item) is Encoded else self.lower(item, 0, careful)
                for item in stored
            ]

        return self._packed(lowered)

    def _packed(self, lowered: Any) -> bytes:
        try:
            try:
                return pack_lowered(lowered(False))
            except TypeError:
                # Only lone surrogates lead here. Looking for them in every text would slow down all other values.
                return pack_lowered(lowered(True))
        except Misfit:
            raise
        except RecursionError as error:
            raise Misfit("It is nested too deeply") from error
        except Exception as error:
            raise Misfit(f"{type(error).__name__}: {error}") from error

    def unpack(self, data: bytes) -> Any:
        return self._unpacked(data, self.lift)

    def unpack_stored(self, data: bytes) -> list[Any]:
        """Inverse of pack_stored."""

        def lift(number: int, content: bytes) -> Any:
            return Encoded(content) if number == extensions.ENCODED else self.lift(number, content)

        values = self._unpacked(data, lift)
        if type(values) is not list:
            raise blocks.Damaged("no array of values")
        return values

    def _unpacked(self, data: bytes, lift: Any) -> Any:
        try:
            return blocks.unpack(data, lift)
        except ValueError as error:
            cause = _FAILED.__dict__.pop("error", None)
            raise cause if cause is not None and str(error) == _HIDDEN else error from None

    def lower(self, value: Any, depth: int, careful: bool) -> Any:
        """The value in terms of MessagePack: itself if nothing in it needs another form."""
        kind = type(value)
        if kind in ATOMS:
            if careful and kind is str and not _is_unicode(value):
                return _leaf(extensions.TEXT, value)
            return value
        if depth >= DEPTH_MAX:
            raise Misfit(f"It is nested more than {DEPTH_MAX} levels deep")
        if kind is list:
            return self._lower_all(value, depth, careful)
        if kind is dict:
            return self._lower_dict(value, depth, careful)
        if kind is tuple:
            return ormsgpack.Ext(extensions.TUPLE, pack_lowered(self._lower_all(value, depth, careful)))
        if kind is set or kind is frozenset:
            number = extensions.SET if kind is set else extensions.FROZENSET
            return ormsgpack.Ext(number, self._pack_set(value, depth, careful))
        if kind in extensions.LEAF_NUMBERS:
            return _leaf(extensions.LEAF_NUMBERS[kind], value)
        if extensions.is_time_type(kind):
            return _leaf(extensions.time_number(kind), value)
        if isinstance(value, np.generic):
            return self.lower(as_python_scalar(value), depth, careful)
        return self.lower_other(value, depth, careful)

    def lower_other(self, value: Any, depth: int, careful: bool) -> Any:
        """For a value of a class that is not plain."""
        raise Misfit(f"{shortened(value)} of type {_qualified(type(value))} is not a plain value", value)

    def _lower_all(self, values: Any, depth: int, careful: bool) -> list[Any]:
        if not careful and ATOMS.issuperset(map(type, values)):
            return values if type(values) is list else list(values)
        lowered: list[Any] = []
        try:
            for item in values:
                lowered.append(self.lower(item, depth + 1, careful))
        except Misfit as misfit:
            misfit.steps.append(f"[{len(lowered)}]")
            raise
        return lowered

    def _lower_dict(self, value: dict[Any, Any], depth: int, careful: bool) -> Any:
        if {str}.issuperset(map(type, value)) and not (careful and not all(map(_is_unicode, value))):
            return self.lower_fields(value, depth, careful, "[{!r}]")
        pairs: list[Any] = []
        for key, item in value.items():
            try:
                pairs.append(self.lower(key, depth + 1, careful))
                pairs.append(self.lower(item, depth + 1, careful))
            except Misfit as misfit:
                misfit.steps.append(f"[{shortened(key)}]" if len(pairs) % 2 else f" (key {shortened(key)})")
                raise
        return ormsgpack.Ext(extensions.DICT, pack_lowered(pairs))

    def lower_fields(self, value: dict[str, Any], depth: int, careful: bool, step: str) -> dict[str, Any]:
        """Lowers a dict whose keys are text that MessagePack takes."""
        if not careful and ATOMS.issuperset(map(type, value.values())):
            return value
        lowered: dict[str, Any] = {}
        for key, item in value.items():
            try:
                lowered[key] = self.lower(item, depth + 1, careful)
            except Misfit as misfit:
                misfit.steps.append(step.format(key))
                raise
        return lowered

    def _pack_set(self, value: Iterable[Any], depth: int, careful: bool) -> bytes:
        try:
            items = sorted((self.lower(item, depth + 1, careful) for item in value), key=pack_lowered)
        except Misfit as misfit:
            misfit.steps.append(" (element)")
            raise
        return pack_lowered(items)

    def lift(self, number: int, content: bytes) -> Any:
        """The value of an extension type."""
        try:
            return self._lift(number, content)
        except Exception as error:
            if str(error) != _HIDDEN:
                _FAILED.error = error
            raise

    def _lift(self, number: int, content: bytes) -> Any:
        reader = extensions.LEAF_READERS.get(number)
        if reader is not None:
            return reader(content)
        values = blocks.unpack(content, self.lift)
        if type(values) is not list:
            raise blocks.Damaged("a container without an array")
        if number == extensions.TUPLE:
            return tuple(values)
        if number == extensions.DICT:
            return dict(zip(values[::2], values[1::2], strict=True))
        if number == extensions.SET:
            return set(values)
        if number == extensions.FROZENSET:
            return frozenset(values)
        return self.lift_other(number, values)

    def lift_other(self, number: int, values: list[Any]) -> Any:
        raise blocks.Damaged(f"unknown extension type {number}")


def as_python_scalar(value: Any) -> Any:
    """The Python value that a numpy scalar holds. Raises a Misfit if there is none, as for nanoseconds."""
    plain = value.item() if isinstance(value, np.generic) else value
    wanted: tuple[type, ...] = (*(ATOMS - {type(None)}), complex)
    if isinstance(value, np.datetime64 | np.timedelta64):
        wanted = (date, datetime, time, timedelta)
    if type(plain) not in wanted:
        raise Misfit(f"{value!r} of type {_qualified(type(value))} has no equivalent in Python", value)
    return plain


def pack_lowered(lowered: Any) -> bytes:
    """Raises a TypeError for lone surrogates: the caller then lowers the whole value again, carefully."""
    return ormsgpack.packb(lowered, default=_big_integer, option=_OPTIONS)


def _big_integer(value: Any) -> Any:
    # Everything else was lowered before: for any other type the library must not guess.
    if type(value) is not int:
        raise TypeError(f"unexpected {type(value)}")
    return _leaf(extensions.BIG_INTEGER, value)


def _leaf(number: int, value: Any) -> Any:
    return ormsgpack.Ext(number, extensions.LEAF_WRITERS[number](value))


def _is_unicode(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _qualified(kind: type) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


PLAIN = PlainFormat()
