"""User-defined metrics: counters, distributions and gauges, identified by a namespace and a name.

They are counted for the running bundle and reach the step's metrics when it commits; outside a bundle they are discarded.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from holdfast.model.present import current_metrics

__all__ = ["Distribution", "Metrics", "UserMetrics"]


@dataclass(frozen=True)
class Distribution:
    """The summary kept of a distribution's values."""

    count: int
    sum: float
    min: float
    max: float

    @property
    def mean(self) -> float:
        return self.sum / self.count

    def merged(self, other: Distribution) -> Distribution:
        return Distribution(
            self.count + other.count, self.sum + other.sum, min(self.min, other.min), max(self.max, other.max)
        )


@dataclass
class UserMetrics:
    """Values by `namespace/name`. Adding sums counters, merges distributions, and keeps the later gauge."""

    counters: Counter[str] = field(default_factory=Counter)
    distributions: dict[str, Distribution] = field(default_factory=dict)
    gauges: dict[str, float] = field(default_factory=dict)

    def add(self, other: UserMetrics) -> None:
        self.counters.update(other.counters)
        for name, distribution in other.distributions.items():
            known = self.distributions.get(name)
            self.distributions[name] = distribution if known is None else known.merged(distribution)
        self.gauges.update(other.gauges)


class _Metric:
    def __init__(self, namespace: str | type, name: str) -> None:
        owner = namespace if isinstance(namespace, str) else f"{namespace.__module__}.{namespace.__qualname__}"
        self.name = f"{owner}/{name}"


class _CounterMetric(_Metric):
    def inc(self, n: int = 1) -> None:
        metrics = current_metrics()
        if metrics is not None:
            metrics.counters[self.name] += n

    def dec(self, n: int = 1) -> None:
        self.inc(-n)


class _DistributionMetric(_Metric):
    def update(self, value: float) -> None:
        metrics = current_metrics()
        if metrics is not None:
            one = Distribution(1, value, value, value)
            known = metrics.distributions.get(self.name)
            metrics.distributions[self.name] = one if known is None else known.merged(one)


class _GaugeMetric(_Metric):
    def set(self, value: float) -> None:
        metrics = current_metrics()
        if metrics is not None:
            metrics.gauges[self.name] = value


class Metrics:
    """Makes metrics: `Metrics.counter(self.__class__, "alerts").inc()`."""

    @staticmethod
    def counter(namespace: str | type, name: str) -> _CounterMetric:
        return _CounterMetric(namespace, name)

    @staticmethod
    def distribution(namespace: str | type, name: str) -> _DistributionMetric:
        return _DistributionMetric(namespace, name)

    @staticmethod
    def gauge(namespace: str | type, name: str) -> _GaugeMetric:
        return _GaugeMetric(namespace, name)
