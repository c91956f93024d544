"""Labels: the grouping keys by which Spark distributes key groups evenly over partitions.

Spark puts a row into the partition `pmod(hash(label), partitions)`. The label of group g is the smallest number whose
hash is g modulo the number of groups; so with any number of partitions that divides the number of groups, each
partition gets equally many groups, and nearly so with any other.

Several steps can share one stateful operator. Each has a slot, a number of its own in the job, and each slot has a span of
2**20 labels: so a label also says which step it belongs to, however many key groups the steps have. A step that is built by
itself has slot 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

__all__ = ["SLOTS_MAX", "labels", "labels_of_manifest", "labels_of_slot", "slot_of_label", "slot_of_manifest", "spark_hash"]

SLOTS_MAX = 2**11
"""As many spans of labels as there are in a 32-bit number that is not negative."""
_SPAN = 2**20

_MASK = 0xFFFFFFFF
_SEED = 42


def spark_hash(value: int) -> int:
    """What Spark's `hash` gives for an INT: Murmur3 x86, 32 bits, as a signed number."""
    k = _rotate((value & _MASK) * 0xCC9E2D51 & _MASK, 15) * 0x1B873593 & _MASK
    h = (_rotate(_SEED ^ k, 13) * 5 + 0xE6546B64) & _MASK
    h ^= 4
    h = (h ^ h >> 16) * 0x85EBCA6B & _MASK
    h = (h ^ h >> 13) * 0xC2B2AE35 & _MASK
    h ^= h >> 16
    return h - (1 << 32) if h & 0x80000000 else h


def _rotate(value: int, by: int) -> int:
    return (value << by | value >> (32 - by)) & _MASK


@lru_cache(maxsize=64)
def labels(key_groups: int, slot: int = 0) -> tuple[int, ...]:
    """The label of each key group of the step with this slot."""
    found: dict[int, int] = {}
    label = slot * _SPAN
    while len(found) < key_groups:
        found.setdefault(spark_hash(label) % key_groups, label)
        label += 1
    assert label <= (slot + 1) * _SPAN, "more key groups than a span has labels for"
    return tuple(found[group] for group in range(key_groups))


def slot_of_label(label: int) -> int:
    """The slot of the step that a label belongs to."""
    return label // _SPAN


def labels_of_slot(slot: int) -> range:
    """All labels that a step with this slot can have, however many key groups it has."""
    return range(slot * _SPAN, (slot + 1) * _SPAN)


def slot_of_manifest(manifest: Mapping[str, Any]) -> int:
    """The slot of a step, which its manifest names unless it is 0."""
    return int(manifest.get("slot", 0))


def labels_of_manifest(manifest: Mapping[str, Any]) -> tuple[int, ...]:
    """The label of each key group of the step with this manifest."""
    return labels(int(manifest["key_groups"]), slot_of_manifest(manifest))
