"""Explains a job: how its query runs, from what was bound to it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from pyspark.sql import DataFrame

from holdfast.checkpoint.files.choice import Files, join
from holdfast.spark.graph.describing import described
from holdfast.spark.graph.description import GraphView
from holdfast.spark.graph.picture.explanation import Explanation
from holdfast.spark.graph.placing import Placement, placed
from holdfast.spark.job.root import Outline
from holdfast.spark.sinks.base import Sink
from holdfast.spark.steps.lineage import analyzed

__all__ = ["GRAPH_FILE", "explained", "keep_graph"]

GRAPH_FILE = "holdfast/graph.json"


def explained(
    job: str, writes: Sequence[tuple[DataFrame, Sink]], placement: Placement | None, backend: str | None
) -> Explanation:
    """How a job with these outputs runs: with the placement that it has, or else as on a new checkpoint. Raises InvalidStep
    if one query cannot give all of it."""
    return Explanation(_graph(Outline(job, writes, backend), job, [sink for _, sink in writes], placement))


def keep_graph(
    files: Files, checkpoint: str, outline: Outline, job: str, sinks: Sequence[Sink], placement: Placement | None
) -> None:
    """Writes the graph of a job that is about to start beside its checkpoint, for those who look at it without its code."""
    content = msgspec.json.encode(_graph(outline, job, sinks, placement))
    path = join(checkpoint, GRAPH_FILE)
    if files.read(path) != content:
        files.write(path, content)


def _graph(outline: Outline, job: str, sinks: Sequence[Sink], placement: Placement | None) -> GraphView:
    built = outline.as_built
    if placement is None and built is None:
        placement = placed(outline.graph)
        # Raises if something between two steps cannot be part of it.
        outline.line(placement, None)
    root = None if built is None else analyzed(built.frame)
    return described(job, outline.graph, list(sinks), placement, root, outline.backend)
