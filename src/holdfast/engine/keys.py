"""Keys and slots: a *key* is what the user sees, a *slot* the hashable form under which tables keep it.

Two keys are one key when they are the same value of the same type: 1, 1.0 and True are three keys, although a
Python dict would make them one. So a slot is the key itself where its type leaves no doubt (a string, an int, a tuple
of such), else its encoded bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any

from holdfast.engine.tables.base import Slot
from holdfast.errors import InputError
from holdfast.model.coders import Encoded, default_coder

__all__ = [
    "decode_slots",
    "encode_slots",
    "key_of",
    "slot_bytes",
    "slot_from_bytes",
    "slot_of",
    "slots_of",
    "sort_slots",
]

_PLAIN = default_coder()
_DIRECT = frozenset({str, int})


def slot_of(key: Any) -> Slot:
    """The slot of one key. A null key has none: it would gather all that has no key in one place."""
    if type(key) in _DIRECT or (type(key) is tuple and set(map(type, key)) <= _DIRECT):
        return key  # type: ignore[no-any-return]
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


def slot_bytes(slot: Slot) -> bytes:
    """A slot as bytes, which differ for different slots."""
    return b"E" + slot if type(slot) is Encoded else b"P" + _PLAIN.encode(slot)


def slot_from_bytes(data: bytes) -> Slot:
    """The slot that `slot_bytes` gave these for."""
    slot: Slot = Encoded(data[1:]) if data[:1] == b"E" else _PLAIN.decode(data[1:])
    return slot


def encode_slots(slots: list[Slot]) -> bytes:
    """A block with these slots."""
    return _PLAIN.encode_block(slots)


def decode_slots(block: bytes) -> list[Slot]:
    """The slots of a block."""
    return _PLAIN.decode_block(block)


def sort_slots(slots: Iterable[Slot]) -> list[Slot]:
    """In an order that depends on the slots alone: not on the history of the process, nor on what else is sorted."""
    slots = list(slots)
    types = set(map(type, slots))
    if len(types) == 1 and types <= {str, int, Encoded}:
        return sorted(slots)  # type: ignore[type-var]
    return sorted(slots, key=_order)


def _order(slot: Any) -> tuple[str, Any]:
    """By type first: values of different types cannot be compared."""
    return type(slot).__name__, tuple(map(_order, slot)) if type(slot) is tuple else slot
