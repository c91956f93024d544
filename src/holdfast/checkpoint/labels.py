"""Labels: the grouping keys by which Spark distributes key groups evenly over partitions.

Spark puts a row into the partition `pmod(hash(label), partitions)`. The label of group g is the smallest number whose
hash is g modulo the number of groups; so with any number of partitions that divides the number of groups, each
partition gets equally many groups, and nearly so with any other.
"""

from __future__ import annotations

from functools import lru_cache

__all__ = ["labels", "spark_hash"]

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
def labels(key_groups: int) -> tuple[int, ...]:
    """The label of each key group."""
    found: dict[int, int] = {}
    label = 0
    while len(found) < key_groups:
        found.setdefault(spark_hash(label) % key_groups, label)
        label += 1
    return tuple(found[group] for group in range(key_groups))
