"""Health: what is wrong is seen in any history that has it, and nothing is seen in one that is healthy."""

from __future__ import annotations

import dataclasses
import json
import math

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from histories import MB, T0, Story, failed, started
from holdfast.watch.health.judging import judge
from holdfast.watch.health.recent import rises
from holdfast.watch.health.report import Health, Level
from holdfast.watch.health.thresholds import Thresholds
from holdfast.watch.history import History, history_of
from holdfast.watch.records import BatchRecord, EventRecord, Record
from tiers import examples

seeds = st.integers(0, 2**32)


def names(health: Health) -> list[str]:
    return [symptom.name for symptom in health.symptoms]


def bad_measures(health: Health) -> list[str]:
    return [measure.name for measure in health.measures if measure.level >= Level.WARNING]


@st.composite
def healthy(draw: st.DrawFn) -> Story:
    """Jobs of all sizes, none with anything wrong."""
    interval = draw(st.sampled_from([500, 1_000, 2_000, 10_000, 60_000]))
    return Story(
        seed=draw(seeds),
        batches=draw(st.integers(1, 400)),
        interval_ms=interval,
        rows=draw(st.integers(1, 20_000)),
        keys=draw(st.integers(1, 200_000 if interval < 2_000 else 100_000)),
        levels_off_at=draw(st.floats(0.01, 0.7)),
        key_bytes=draw(st.integers(8, 40)),
        groups=draw(st.integers(1, 64)),
        duration_ms=draw(st.floats(0.05, 0.6)) * interval,
        checkpoint_ms=draw(st.floats(0.01, 0.2)) * min(interval, 10_000),
        open_ms=draw(st.floats(0, 2)),
        commit_ms=draw(st.floats(0, 4)),
        late_share=draw(st.floats(0, 0.03)),
        memory_bytes=draw(st.integers(100 * MB, 1_500 * MB)),
    )


@given(healthy(), st.booleans())
def test_a_healthy_job_has_no_symptoms(story, running):
    found = judge(story.history(), running=running or None)
    assert names(found) == []
    assert bad_measures(found) == []
    assert found.level == Level.OK


@given(healthy(), st.integers(1, 400), st.integers(1, 100_000_000), st.sampled_from([0.0, 0.05]))
def test_nor_if_the_clock_was_set_back(story, seen, back_ms, growth):
    """Also if it has keys that come and stay, but so few that it takes days."""
    story = dataclasses.replace(story, growth=growth if story.interval_ms >= 2_000 and story.rows < 2_000 else 0.0)
    whole = story.history()
    batches = [msgspec.structs.replace(b, at_ms=b.at_ms - back_ms) if b.batch >= seen else b for b in whole.batches]
    found = judge(History(batches, whole.events), running=True)
    assert names(found) == []
    assert found.measure("failures").value == 0


@given(healthy(), st.integers(1, 400))
def test_nor_has_it_any_on_the_way(story, seen):
    whole = story.history()
    assert names(judge(History(whole.batches[:seen], whole.events), running=True)) == []


SYMPTOMS = {
    "state_explosion": [
        lambda draw: {"growth": draw(st.floats(0.8, 3)), "rows": draw(st.integers(3_000, 20_000))},
        lambda draw: {"bytes_factor": draw(st.floats(1.012, 1.03)), "key_bytes": 600, "levels_off_at": 0.01},
    ],
    "slow_checkpoint": [lambda draw: {"checkpoint_ms": draw(st.floats(2_900, 90_000))}],
    "slow_micro_batch": [lambda draw: {"duration_ms": draw(st.floats(4_500, 100_000))}],
    "slow_state_access": [
        lambda draw: {"open_ms": draw(st.floats(16, 5_000))},
        lambda draw: {"commit_ms": draw(st.floats(16, 100))},
    ],
    "skew": [
        lambda draw: {"hot_share": draw(st.floats(0.45, 1))},
        lambda draw: {"hot_group_share": draw(st.floats(0.4, 1)), "groups": draw(st.integers(16, 64))},
    ],
    "idle_watermark": [
        lambda draw: {"watermark_stands": True},
        lambda draw: {"watermark_stands": True, "idle_source": True},
    ],
    "falling_behind": [lambda draw: {"lag_grows": draw(st.floats(0.2, 3))}],
    "reprocessing": [
        lambda draw: {"events": [failed(T0 + n * 10_000 + 1) for n in range(draw(st.integers(1, 8)))]},
        lambda draw: {"events": [started(T0 + draw(st.integers(1, 500_000)))]},
    ],
}


@pytest.mark.parametrize(("name", "way"), [(name, n) for name, ways in SYMPTOMS.items() for n in range(len(ways))])
@settings(max_examples=examples(20))
@given(data=st.data())
def test_a_symptom_is_recognised_alone(name, way, data):
    changes = SYMPTOMS[name][way](data.draw)
    story = dataclasses.replace(Story(seed=data.draw(seeds)), **changes)
    found = judge(story.history(), running=True)
    assert set(names(found)) == {name}
    assert found.level >= Level.WARNING
    symptom = found.symptom(name)
    assert symptom is not None
    assert symptom.evidence.endswith(".")
    assert symptom.todo
    assert "docs/" in symptom.todo or "holdfast" in symptom.todo
    assert all(math.isfinite(number) for number in symptom.figures.values())
    if name in ("state_explosion", "slow_state_access", "skew"):
        assert symptom.step == "totals"


numbers = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-5, 5), st.just(0), st.just(T0))


names_of_fields = st.sampled_from(
    ["kind", "batch", "event", "at_ms", "rows", "steps", "counters", "groups", "labels", "failed"]
)
leaves = st.none() | st.booleans() | numbers | st.floats() | st.text(max_size=5)
"""Any documents: most are no records."""
anything = st.recursive(
    leaves, lambda below: st.lists(below, max_size=4) | st.dictionaries(names_of_fields, below, max_size=6), max_leaves=6
)


def some(**fields: st.SearchStrategy) -> st.SearchStrategy:
    """Objects with some of these fields."""
    return st.fixed_dictionaries({}, optional=fields)


def few(of: st.SearchStrategy) -> st.SearchStrategy:
    return st.lists(of, max_size=4)


counter_names = st.sampled_from(["elements", "bundles", "late", "open_micros", "commit_micros", "sweep_micros", "loads"])
pairs = few(st.tuples(st.text(max_size=4), numbers))
column = few(st.integers(0, 9))
groups = some(labels=column, elements=few(numbers), keys=few(numbers), bytes=few(numbers))
step = some(
    counters=st.dictionaries(counter_names, numbers, max_size=4),
    keys=numbers,
    state_bytes=numbers,
    groups=groups,
    hot=pairs,
    heavy=pairs,
    partial=st.booleans(),
)
maybe = st.none() | numbers
hostile = st.sampled_from(["totals", "\x1b[2J", ""])
times = st.one_of(numbers, st.integers(T0, T0 + 600_000))
batch = st.fixed_dictionaries(
    {"kind": st.just("batch"), "batch": st.integers(0, 50), "at_ms": times},
    optional={
        "run": st.sampled_from(["", "a"]),
        "duration_ms": numbers,
        "phases_ms": st.dictionaries(st.sampled_from(["walCommit", "addBatch", "\x1b[2J"]), numbers),
        "interval_ms": maybe,
        "rows": numbers,
        "watermark_ms": maybe,
        "event_ms_max": maybe,
        "sources": few(st.fixed_dictionaries({"name": hostile, "rows": numbers, "lag": maybe})),
        "operators": few(some(commit_ms=numbers, remove_ms=numbers, partitions=numbers, disk_bytes=numbers)),
        "workers": few(st.fixed_dictionaries({"host": hostile, "pid": numbers, "memory_bytes": numbers})),
        "steps": st.dictionaries(hostile, step, max_size=2),
    },
)
event = st.fixed_dictionaries(
    {"kind": st.just("event"), "event": st.sampled_from(["started", "failed", "stopped"]), "at_ms": times},
    optional={"batch": maybe, "text": st.text(max_size=200), "job": hostile},
)
eager = Thresholds(batches_min=1, elements_min=1, growth_ms=1, growth_keys_min=1, growth_bytes_min=1, idle_ms=1)


@given(st.lists(batch | batch | batch | event | anything, max_size=40), st.sampled_from([Thresholds(), eager]))
def test_an_odd_history_never_raises(documents, thresholds):
    lines = [json.dumps(document).encode() for document in documents]
    history = history_of(lines)
    for running in (None, True, False):
        found = judge(history, thresholds, running=running)
        assert found.level in Level
        json.dumps(found.as_dict())
        assert found._repr_html_().startswith("<div")
        shown = "".join(
            [
                found.job,
                *found.notes,
                *(s.evidence + s.todo + str(s.key) for s in found.symptoms),
                *(m.of for m in found.measures),
            ]
        )
        assert "\x1b" not in shown


@given(st.lists(st.binary(max_size=30), max_size=5), st.integers(0, 400))
def test_a_history_that_is_cut_or_damaged(garbage, cut_at):
    lines = [msgspec.json.encode(record) for record in Story(batches=20).history().batches]
    lines[5] = lines[5][:cut_at]
    history = history_of([*lines, *garbage])
    assert len(history.batches) >= 19
    assert judge(history).batch == 19


@given(st.lists(st.integers(0, 1_000), min_size=12, max_size=60), st.integers(1, 50))
def test_what_has_levelled_off_does_not_rise(values, level):
    """Whatever came before, a last half that stays as it is is no growth."""
    assert rises([*sorted(values), *[max(values) + level] * len(values)]) is None
    assert rises([level] * len(values)) is None


@given(st.integers(12, 200), st.floats(0.1, 100))
def test_a_line_rises(count, slope):
    assert rises([n * slope for n in range(count)]) is not None


def test_records_are_what_the_strategies_say():
    """So that the test of odd histories is not one of unreadable lines alone."""
    decoder = msgspec.json.Decoder(Record)
    line = json.dumps({"kind": "batch", "batch": 3, "at_ms": 5, "steps": {"totals": {"hot": [["a", 1]]}}}).encode()
    assert isinstance(decoder.decode(line), BatchRecord)
    assert isinstance(decoder.decode(b'{"kind": "event", "event": "failed", "at_ms": 1}'), EventRecord)
