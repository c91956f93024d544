"""What the record of a micro-batch says of key groups that told nothing in it, also after a restart."""

from __future__ import annotations

import io
from types import SimpleNamespace

import pytest

from holdfast.engine.metrics.holding import Holding
from holdfast.engine.metrics.step import StepMetrics
from holdfast.spark.job.batch_records import StepHolding, batch_record
from holdfast.spark.job.executed import was_executed
from holdfast.spark.job.progress import Progress, ProgressLine
from holdfast.spark.stages.metrics import distinct_reports, report_of


def report(number, phases, rows=0):
    return SimpleNamespace(
        batchId=number,
        timestamp="2026-01-01T00:00:00.000Z",
        runId="run",
        batchDuration=5,
        durationMs=phases,
        numInputRows=rows,
        eventTime={},
        sources=[],
        stateOperators=[],
    )


def recorded(holding):
    """What is recorded of a step that holds this, after a micro-batch in which nothing came to it."""
    record, _ = batch_record(report(0, {"addBatch": 1}), [], {"step": holding}, None)
    return record.steps["step"]


def resumed(before):
    after = StepHolding(before.key_groups, began_empty=False)
    after.resume(before)
    return recorded(after)


@pytest.mark.parametrize("known", [0, 3, 8])
def test_a_step_goes_on_from_what_was_recorded(known):
    before = recorded(StepHolding(8, {label: Holding(2, 10, 1, 0) for label in range(known)}))
    assert (before.keys, before.partial) == (2 * known, False)
    assert resumed(before) == before


def test_of_very_many_key_groups_a_restart_knows_a_part():
    before = recorded(StepHolding(5_000, {label: Holding(1, 10, 0, 0) for label in range(5_000)}))
    assert (before.keys, before.partial, before.groups.labels) == (5_000, False, [])
    assert resumed(before).partial


def test_what_did_not_say_is_not_known_after_a_restart():
    before = recorded(StepHolding(2, {0: None, 1: Holding(3, 30, 0, 0)}))
    assert (before.keys, before.partial) == (3, True)
    assert resumed(before) == before


def test_what_was_known_in_part_stays_so():
    before = recorded(StepHolding(8, {0: Holding(3, 30, 0, 0)}, began_empty=False))
    assert resumed(before) == before
    assert before.partial


def test_a_report_that_there_was_nothing_to_do():
    idle = report(1, {"latestOffset": 1, "triggerExecution": 2})
    line = ProgressLine("job")
    line.text(report(0, {"addBatch": 1}, rows=5))
    line.text(idle)
    line.text(report(1, {"addBatch": 1}, rows=7))
    assert line.rows == 12
    assert not was_executed(idle)


def test_names_of_metrics_that_are_no_text():
    metrics = StepMetrics()
    metrics.user.counters["own/\ud800"] = 3
    told = report_of("step", 0, metrics, None, 0).encode()
    [found] = distinct_reports([told]).values()
    assert found.counted == {"own/\\ud800": 3}


def test_rows_of_micro_batches_between_two_looks_are_counted():
    shown = io.StringIO()
    progress = Progress("job", shown)
    reports = [report(number, {"addBatch": 1}, rows=10**number) for number in range(5)]
    progress.begin("checkpoint")
    progress.show(reports[1], lambda: reports[:2])
    progress.show(reports[4], lambda: reports, final=True)
    assert "  11,111 rows  " in shown.getvalue()
    progress.begin("checkpoint")
    progress.show(report(0, {"addBatch": 1}, rows=2), list, final=True)
    assert "  11,113 rows  " in shown.getvalue()
