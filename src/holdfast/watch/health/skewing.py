"""Work that is not spread: one key, or one key group, has most of it."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.watch.health.recent import Recent
from holdfast.watch.health.report import Level, Symptom
from holdfast.watch.health.spread import BusiestGroup, HottestKey
from holdfast.watch.health.texts import count_text, cut, share_text
from holdfast.watch.health.values import level_of

__all__ = ["skew"]


def skew(recent: Recent) -> Iterator[Symptom]:
    """For each step, its hot key; or its busiest key group, if that is not due to one key."""
    if not recent.is_enough:
        return
    for step in recent.steps:
        key, group = recent.hottest_keys[step], recent.busiest_groups[step]
        key_level = level_of(key.share, recent.thresholds.hot_key_share) if key.is_judged else Level.OK
        group_level = level_of(group.ratio, recent.thresholds.skew) if group.is_judged else Level.OK
        if key_level >= Level.WARNING:
            yield _hot_key(key, group, max(key_level, group_level))
        elif group_level >= Level.WARNING:
            yield _hot_group(key, group, group_level)


def _hot_key(key: HottestKey, group: BusiestGroup, level: Level) -> Symptom:
    evidence = f"{cut(key.key, 40)} has {share_text(key.share)} of the {count_text(key.of_all)} elements of {cut(key.step)}"
    if group.groups > 1:
        evidence += f"; its key group cannot be divided, and has {group.ratio:.1f} times the mean of {group.groups}"
    return Symptom(
        name="skew",
        title="Skew: a hot key",
        level=level,
        evidence=evidence + ".",
        todo=(
            "divide the key (add a number to it, and combine afterwards), or aggregate it before the shuffle: "
            "combine_per_key does (docs/aggregations.md#before-the-shuffle); parallel_over='key+window' if it has "
            "many windows"
        ),
        step=cut(key.step),
        key=cut(key.key, 40),
        figures={"share": key.share, "ratio": group.ratio},
    )


def _hot_group(key: HottestKey, group: BusiestGroup, level: Level) -> Symptom:
    evidence = (
        f"Key group {group.label} of {cut(group.step)} has {share_text(group.share)} of all elements, {group.ratio:.1f} "
        f"times the mean of {group.groups} key groups"
    )
    if key.key:
        evidence += f"; the hottest key, {cut(key.key, 40)}, has {share_text(key.share)}"
    return Symptom(
        name="skew",
        title="Skew of key groups",
        level=level,
        evidence=evidence + ".",
        todo="more key groups: key_groups=, holdfast rescale --key-groups (docs/operations.md#rescaling), or another key",
        step=cut(group.step),
        key=cut(key.key, 40) if key.key else None,
        figures={"share": group.share, "ratio": group.ratio, "label": group.label},
    )
