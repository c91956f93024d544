"""Metrics of a job for OpenTelemetry: they go where its meter provider sends them."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from holdfast.model.extras import require_extra
from holdfast.watch.health.report import Health
from holdfast.watch.outlets.names import METRICS
from holdfast.watch.outlets.readings import Readings
from holdfast.watch.records import BatchRecord, EventRecord

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation

__all__ = ["OpenTelemetry"]


class OpenTelemetry:
    """Gives the metrics of a job to OpenTelemetry, as observable gauges and counters.

    `meter_provider`: by default the global one, which your program sets up together with its exporter; without one, nothing
    goes anywhere. Needs the extra `otel`.
    """

    def __init__(self, meter_provider: MeterProvider | None = None) -> None:
        require_extra("otel", "opentelemetry.metrics", (1, 28), "hf.watch.OpenTelemetry", distribution="opentelemetry-api")
        from opentelemetry.metrics import get_meter_provider

        self._readings = Readings()
        self._is_open = False
        meter = (meter_provider or get_meter_provider()).get_meter("holdfast", importlib.metadata.version("holdfast"))
        for metric in METRICS.values():
            make = meter.create_observable_gauge if metric.kind == "gauge" else meter.create_observable_counter
            make(metric.otel_name, callbacks=[self._observer(metric.name)], unit=metric.otel_unit, description=metric.help)

    def batch(self, record: BatchRecord, health: Health) -> None:
        self._is_open = True
        self._readings.batch(record, health)

    def event(self, record: EventRecord) -> None:
        self._is_open = True
        self._readings.event(record)

    def close(self) -> None:
        """From now on nothing is observed: OpenTelemetry keeps its instruments for as long as the process lives."""
        self._is_open = False

    def _observer(self, name: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
        from opentelemetry.metrics import Observation

        labels = METRICS[name].labels

        def observe(_: CallbackOptions) -> Iterable[Observation]:
            if not self._is_open:
                return []
            return [
                Observation(reading.value, dict(zip(labels, reading.labels, strict=True)))
                for reading in self._readings.latest
                if reading.metric == name
            ]

        return observe
