"""Spark's reports of micro-batches, and its other ones."""

from __future__ import annotations

from typing import Any

__all__ = ["was_executed"]


def was_executed(report: Any) -> bool:
    """Whether a report is of a micro-batch. While there is nothing to do, Spark adds one of its own every ten seconds, which
    has the number of the micro-batch that is to come."""
    return "addBatch" in (report.durationMs or {})
