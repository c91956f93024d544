"""What a job says while it runs, and what it does not say."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import holdfast as hf
from holdfast.spark.job.life import Stop
from holdfast.spark.job.progress import ProgressLine


def report(**other: Any) -> Any:
    given = {"batchId": 0, "batchDuration": 2000, "numInputRows": 500, "eventTime": {}, "sources": [], "stateOperators": []}
    return SimpleNamespace(**given | {"durationMs": {"addBatch": 1}} | other)


@pytest.mark.parametrize(
    ("watermark", "said"),
    [
        (None, "bikes: batch 0  250 rows/s  500 rows  state 0 B"),
        ("1970-01-01T00:00:00.000Z", "bikes: batch 0  250 rows/s  500 rows  state 0 B"),
        ("2026-05-01T05:56:57.000Z", "bikes: batch 0  250 rows/s  500 rows  watermark 2026-05-01T05:56:57.000Z  state 0 B"),
    ],
)
def test_a_watermark_that_there_is_not_yet_is_left_out(watermark: str | None, said: str) -> None:
    """Spark's is at 1970 until the second micro-batch, which a reader takes for a mistake of theirs."""
    event_time = {} if watermark is None else {"watermark": watermark}
    assert ProgressLine("bikes").text(report(eventTime=event_time)) == said


@pytest.mark.parametrize("has_ended", [False, True])
def test_a_job_that_has_ended_does_not_say_that_it_stops(has_ended: bool, tmp_path: Any, monkeypatch: Any) -> None:
    """The end of a `with` block stops a job that has long ended, with `trigger="available now"`."""
    job = hf.Job("bikes", checkpoint=str(tmp_path))
    said: list[Stop] = []
    monkeypatch.setattr(job, "_announce", said.append)
    job._life.begin()
    job._life.started()
    if has_ended:
        job._life.ended()
    job._ask(Stop.AFTER_BATCH)
    assert said == ([] if has_ended else [Stop.AFTER_BATCH])
