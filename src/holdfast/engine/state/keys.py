"""Keys and slots: a *key* is what the user sees, a *slot* is the hashable form that tables use.

Two keys are the same if they have the same value and the same type: 1, 1.0 and True are three keys, although a Python
dict would treat them as one. So a slot is the key itself where its type is unambiguous (a string, an int, a tuple of
these), and its encoded bytes otherwise.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from itertools import chain
from typing import Any

from holdfast.engine.tables.base import Slot
from holdfast.errors import CoderError, InputError
from holdfast.model.coders import Encoded, default_coder
from holdfast.model.coders.base import shortened

__all__ = [
    "decode_slots",
    "encode_slots",
    "key_of",
    "keys_of",
    "slot_from_bytes",
    "slot_of",
    "slot_to_bytes",
    "slots_of",
    "sort_slots",
]

_PLAIN = default_coder()
_DIRECT = frozenset({str, int})
_SLOT_TYPES = frozenset({str, int, tuple, Encoded})
_DAMAGED = "the bytes are damaged, or another version wrote them"
_INTEGER = struct.Struct(">q")
_INT64 = 1 << 63


def slot_of(key: object) -> Slot:
    """The slot of one key. None has no slot: everything without a key would end up under one key."""
    if type(key) in _DIRECT or (type(key) is tuple and set(map(type, key)) <= _DIRECT):
        return key
    if key is None:
        raise InputError(
            "An element has no key: its key is None.",
            todo="filter such elements out, or give them a key that means 'none' on purpose",
        )
    return Encoded(_PLAIN.encode(key))


def slots_of(keys: Iterable[Any]) -> list[Slot]:
    """The slots of many keys."""
    keys = keys if isinstance(keys, list) else list(keys)
    types = set(map(type, keys))
    if types <= _DIRECT or (types == {tuple} and set(map(type, chain.from_iterable(keys))) <= _DIRECT):
        return keys
    return [slot_of(key) for key in keys]


def key_of(slot: Slot) -> Any:
    """The key of a slot."""
    return _PLAIN.decode(slot) if type(slot) is Encoded else slot


def keys_of(slots: list[Slot]) -> list[Any]:
    """The keys of many slots."""
    return [key_of(slot) for slot in slots] if Encoded in set(map(type, slots)) else slots


def encode_slots(slots: list[Slot]) -> bytes:
    """A block with these slots."""
    return _PLAIN.encode_block(slots)


def decode_slots(block: bytes) -> list[Slot]:
    """The slots of a block. Raises a CoderError if it has anything else."""
    slots = _PLAIN.decode_block(block)
    types = set(map(type, slots))
    if types - _SLOT_TYPES or (tuple in types and not all(map(_is_slot, slots))):
        raise CoderError("A block of keys has values that cannot be keys.", todo=_DAMAGED)
    return slots


def slot_to_bytes(slot: Slot) -> bytes:
    """One slot as bytes: unique to the slot, and the same in every process."""
    kind = type(slot)
    # Text and small integers, the most common keys, bypass the coder.
    if kind is str:
        return b"S" + str.encode(slot, "utf-8", "surrogatepass")  # type: ignore[arg-type]
    if kind is int and -_INT64 <= slot < _INT64:  # type: ignore[operator]
        return b"I" + _INTEGER.pack(slot)
    if kind is Encoded:
        return b"E" + slot  # type: ignore[operator]
    return b"P" + _PLAIN.encode(slot)


def slot_from_bytes(data: bytes) -> Slot:
    """The inverse of `slot_to_bytes`. Raises a CoderError for any other bytes."""
    kind, content = data[:1], data[1:]
    slot: Slot = None
    try:
        if kind == b"S":
            slot = content.decode("utf-8", "surrogatepass")
        elif kind == b"I":
            slot = _INTEGER.unpack(content)[0]
        elif kind == b"E":
            slot = Encoded(content)
        elif kind == b"P":
            slot = _PLAIN.decode(content)
    except (struct.error, UnicodeDecodeError) as error:
        raise _no_slot(data, str(error)) from None
    if not _is_slot(slot):
        raise _no_slot(data, "they do not hold a key")
    return slot


def _is_slot(value: Any) -> bool:
    return type(value) in _SLOT_TYPES and (type(value) is not tuple or _DIRECT.issuperset(map(type, value)))


def _no_slot(data: bytes, why: str) -> CoderError:
    return CoderError(f"A key cannot be read from {shortened(data[:64])}: {why}.", todo=_DAMAGED)


def sort_slots(slots: Iterable[Slot]) -> list[Slot]:
    """In an order that depends only on the slots: not on the history of the process, nor on what else is sorted."""
    slots = list(slots)
    types = set(map(type, slots))
    if len(types) == 1 and types <= {str, int, Encoded}:
        return sorted(slots)  # type: ignore[type-var]
    return sorted(slots, key=_order)


def _order(slot: Any) -> tuple[str, Any]:
    """By type first: values of different types cannot be compared."""
    return type(slot).__name__, tuple(map(_order, slot)) if type(slot) is tuple else slot
