"""Limits: a cap on a step's keys and bytes, and whether to fail, evict or divert beyond it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

from holdfast.errors import InvalidStep

__all__ = ["Limits"]

LimitPolicy = Literal["fail", "evict_lru", "evict_oldest", "over_limit"]

_POLICIES = get_args(LimitPolicy)
_NAMES = ("max_keys", "max_bytes", "max_bytes_per_key", "max_bag_size")


@dataclass(frozen=True)
class Limits:
    """How much state a step may keep.

    `max_keys` and `max_bytes` apply to the whole step; each key group gets an equal share. `max_bytes_per_key` applies to
    all cells of one key, in all its windows together. `max_bag_size` is the most elements that one bag cell may have.

    `policy`: "fail" stops with an error that names the heaviest keys. "evict_lru" removes the least recently used keys,
    "evict_oldest" the oldest ones. "over_limit" diverts elements to the output of that name.
    """

    max_keys: int | None = None
    max_bytes: int | None = None
    max_bytes_per_key: int | None = None
    max_bag_size: int | None = None
    policy: LimitPolicy = "fail"

    @property
    def evicts(self) -> bool:
        return self.policy in ("evict_lru", "evict_oldest")

    @property
    def fails(self) -> bool:
        return self.policy == "fail"

    @property
    def diverts(self) -> bool:
        return self.policy == "over_limit"

    @staticmethod
    def problems(given: object) -> Iterator[str]:
        """What is wrong with what was given as limits, in sentences."""
        if given is not None and not isinstance(given, Limits):
            what = "the class Limits" if given is Limits else repr(given)
            yield f"limits is {what}; give hf.Limits(max_keys=...)."

    def __post_init__(self) -> None:
        problems = [*self._problems()]
        if problems:
            raise InvalidStep.of("Limits", problems)

    def _problems(self) -> Iterator[str]:
        for name in _NAMES:
            limit = getattr(self, name)
            if limit is not None and (type(limit) is not int or limit < 1):
                yield f"{name} is {limit!r}; it must be a whole number of at least 1."
        if all(getattr(self, name) is None for name in _NAMES):
            yield f"The limits are empty: give one of {', '.join(_NAMES)}."
        if self.policy not in _POLICIES:
            yield f"The policy of the limits is {self.policy!r}; it can be {', '.join(map(repr, _POLICIES))}."
