"""Metrics of a job for Prometheus: an HTTP server on this machine that is asked for them, or their text once."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from holdfast.errors import HoldfastError, InputError
from holdfast.model.extras import require_extra
from holdfast.watch.health.report import Health
from holdfast.watch.history import History
from holdfast.watch.outlets.names import METRICS, Metric, Reading
from holdfast.watch.outlets.readings import Readings
from holdfast.watch.records import BatchRecord, EventRecord

if TYPE_CHECKING:
    from wsgiref.simple_server import WSGIServer

    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

__all__ = ["Prometheus", "prometheus_text"]

_VERSION = (0, 21)


class Prometheus:
    """Serves the metrics of a job at `http://<host>:<port>/metrics`, from a registry of its own.

    It listens on loopback unless another host is given. With port 0 the system chooses one; `port` says which. Needs the
    extra `prometheus`. Closed, it can be used again: the next record opens the same port.
    """

    def __init__(self, port: int = 9464, host: str = "127.0.0.1") -> None:
        require_extra("prometheus", "prometheus_client", _VERSION, "hf.watch.Prometheus")
        if not isinstance(port, int) or isinstance(port, bool) or not 0 <= port < 1 << 16:
            raise InputError(f"Prometheus(port={port!r}): a port is a whole number from 0 to 65535.")
        if not isinstance(host, str) or not host:
            raise InputError(f"Prometheus(host={host!r}): a host is a name or an address, such as '127.0.0.1'.")
        self.host = host
        self.port = port
        self._readings = Readings()
        self._server: WSGIServer | None = None
        self._thread: threading.Thread | None = None
        self._open()

    @property
    def url(self) -> str:
        """Where the metrics are."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}/metrics"

    def batch(self, record: BatchRecord, health: Health) -> None:
        self._open()
        self._readings.batch(record, health)

    def event(self, record: EventRecord) -> None:
        self._open()
        self._readings.event(record)

    def close(self) -> None:
        """Ends the server; does nothing the second time."""
        if self._server is not None and self._thread is not None:
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()
        self._server = self._thread = None

    def __repr__(self) -> str:
        return f"Prometheus({self.port}, host={self.host!r})"

    def _open(self) -> None:
        if self._server is not None:
            return
        from prometheus_client import CollectorRegistry, start_http_server

        registry = CollectorRegistry()
        registry.register(_Collector(self._readings))
        try:
            self._server, self._thread = start_http_server(self.port, addr=self.host, registry=registry)
        except (OSError, OverflowError) as error:
            raise HoldfastError(
                f"Prometheus({self.port}): could not listen on {self.host}: {getattr(error, 'strerror', None) or error}.",
                todo="give another port, or 0 for one that is free",
            ) from None
        self.port = self._server.server_port


class _Collector:
    """Gives prometheus_client what it asks for."""

    def __init__(self, readings: Readings) -> None:
        self._readings = readings

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        return _families(self._readings.latest)


def prometheus_text(history: History, health: Health) -> str:
    """The gauges of the last micro-batch of a history, in Prometheus' text format; for a collector of text files, say.

    Counters are left out: a history forgets, and a counter must not."""
    require_extra("prometheus", "prometheus_client", _VERSION, "Prometheus' text format")
    from prometheus_client import CollectorRegistry, generate_latest

    readings = Readings(health.job)
    for record in history.batches:
        readings.batch(record, health)

    class _Gauges:
        def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
            return _families(reading for reading in readings.latest if METRICS[reading.metric].kind == "gauge")

    registry = CollectorRegistry()
    registry.register(_Gauges())
    return generate_latest(registry).decode()


def _families(readings: Iterable[Reading]) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
    families: dict[str, CounterMetricFamily | GaugeMetricFamily] = {}
    for reading in readings:
        family = families.get(reading.metric)
        if family is None:
            family = families[reading.metric] = _family(METRICS[reading.metric])
        family.add_metric(reading.labels, reading.value)
    yield from families.values()


def _family(metric: Metric) -> CounterMetricFamily | GaugeMetricFamily:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    return kind(metric.name, metric.help, labels=metric.labels)
