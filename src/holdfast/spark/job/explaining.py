"""Explains a job: how its query runs, from what was bound to it. No checkpoint is touched."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame

from holdfast.spark.graph.describing import described
from holdfast.spark.graph.picture.explanation import Explanation
from holdfast.spark.graph.placing import Placement, placed
from holdfast.spark.job.root import Outline
from holdfast.spark.sinks.base import Sink
from holdfast.spark.steps.lineage import analyzed

__all__ = ["explained"]


def explained(job: str, writes: Sequence[tuple[DataFrame, Sink]], placement: Placement | None) -> Explanation:
    """How a job with these outputs runs: with the placement that it has, or else as on a new checkpoint. Raises InvalidStep
    if one query cannot give all of it."""
    outline = Outline(job, writes)
    built = outline.as_built
    if placement is None and built is None:
        placement = placed(outline.graph)
        # Raises if something between two steps cannot be part of it.
        outline.line(placement, None)
    root = None if built is None else analyzed(built.frame)
    return Explanation(described(job, outline.graph, [sink for _, sink in writes], placement, root))
