"""Metrics of a step, sent from the workers to the driver by a Spark accumulator.

Spark adds a task's counts once, when it succeeds. A micro-batch that is repeated after a failure is counted again.
"""

from __future__ import annotations

import copy

from pyspark.accumulators import AccumulatorParam

from holdfast.engine.metrics.step import StepMetrics

__all__ = ["MetricsParam"]


class MetricsParam(AccumulatorParam[StepMetrics]):
    """Adds metrics up."""

    def zero(self, value: StepMetrics) -> StepMetrics:
        return StepMetrics()

    def addInPlace(self, value1: StepMetrics, value2: StepMetrics) -> StepMetrics:
        total = copy.deepcopy(value1)
        total.add(value2)
        return total
