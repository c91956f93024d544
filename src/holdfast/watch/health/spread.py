"""How a step's elements are spread over its key groups and keys."""

from __future__ import annotations

import dataclasses
import operator
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.watch.history import History
from holdfast.watch.records import StepRecord

__all__ = ["BusiestGroup", "HottestKey", "busiest_group", "hottest_key", "hottest_keys"]

GROUPS_MIN = 4
KEYS_MIN = 20
"""With fewer keys than this, some key groups have none and others several; that is no skew."""
SHARE_MIN = 0.25
"""A key group with less of all elements than this delays nobody much."""


@dataclass(frozen=True)
class BusiestGroup:
    """The key group of a step that got the most elements."""

    step: str
    label: int = -1
    elements: int = 0
    of_all: int = 0
    groups: int = 0
    is_judged: bool = False

    @property
    def share(self) -> float:
        return self.elements / self.of_all if self.of_all > 0 else 0.0

    @property
    def ratio(self) -> float:
        """Its elements over the mean of all key groups."""
        return self.share * self.groups


@dataclass(frozen=True)
class HottestKey:
    """The key of a step that got the most elements."""

    step: str
    key: str = ""
    elements: int = 0
    of_all: int = 0
    is_judged: bool = False

    @property
    def share(self) -> float:
        return min(self.elements / self.of_all, 1.0) if self.of_all > 0 else 0.0


def busiest_group(step: str, records: Sequence[StepRecord], elements_min: int) -> BusiestGroup:
    """Over some micro-batches; not judged by fewer elements than `elements_min`."""
    counts = _by_group(records)
    of_all = sum(counts.values())
    if of_all <= 0:
        return BusiestGroup(step)
    label, elements = max(counts.items(), key=lambda item: (item[1], -item[0]))
    found = BusiestGroup(step, label, elements, of_all, len(counts))
    is_judged = len(counts) >= GROUPS_MIN and of_all >= elements_min and found.share >= SHARE_MIN and _has_many_keys(records)
    return dataclasses.replace(found, is_judged=is_judged)


def _by_group(records: Sequence[StepRecord]) -> dict[int, int]:
    """Elements by key group. There may be thousands, nearly always the same ones: so whole columns are added."""
    counts: Counter[int] = Counter()
    labels: list[int] = []
    totals: list[int] = []
    for record in records:
        if record.groups.labels == labels and len(record.groups.elements) == len(totals):
            totals = list(map(operator.add, totals, record.groups.elements))
            continue
        # The columns of a damaged record may differ in length.
        counts.update(dict(zip(labels, totals, strict=False)))
        labels, totals = record.groups.labels, record.groups.elements
    counts.update(dict(zip(labels, totals, strict=False)))
    return {label: max(count, 0) for label, count in counts.items()}


def hottest_key(step: str, records: Sequence[StepRecord], elements_min: int) -> HottestKey:
    """Over some micro-batches; not judged by fewer elements than `elements_min`."""
    counts, of_all = _counted(records)
    if not counts or of_all <= 0:
        return HottestKey(step)
    key, elements = max(counts.items(), key=lambda item: (item[1], item[0]))
    return HottestKey(step, key, elements, of_all, of_all >= elements_min and _has_many_keys(records))


def hottest_keys(history: History, step: str, number: int, batches: int = 60) -> list[tuple[str, float]]:
    """The keys with the most elements in the newest micro-batches, each with its share."""
    counts, of_all = _counted([batch.steps[step] for batch in history.batches[-batches:] if step in batch.steps])
    return [(key, min(count / of_all, 1.0)) for key, count in counts.most_common(number)] if of_all > 0 else []


def _counted(records: Sequence[StepRecord]) -> tuple[Counter[str], int]:
    """Elements by key, as far as keys are told, and of all."""
    counts: Counter[str] = Counter()
    for record in records:
        for hot in record.hot:
            counts[hot.key] += max(hot.count, 0)
    return counts, sum(max(record.counters.get("elements", 0), 0) for record in records)


def _has_many_keys(records: Sequence[StepRecord]) -> bool:
    """By its state; or, if it keeps none, by the keys that were seen."""
    seen = {hot.key for record in records for hot in record.hot}
    return max(max((record.keys for record in records), default=0), len(seen)) >= KEYS_MIN
