"""The health of a job of the dashboard, judged by its history."""

from __future__ import annotations

from holdfast.ui.reading.jobs import WatchedJob
from holdfast.watch.health.judging import judge as judge_history
from holdfast.watch.health.report import Health

__all__ = ["judge"]


def judge(job: WatchedJob) -> Health:
    """What a job's history says about it now."""
    return judge_history(job.tail.history, running=job.is_running, job=job.name)
