"""The metrics of a bundle, on their way from a worker to the driver.

A step tells what a bundle did in a row of its own, beside its outputs. `observe` takes these rows out of the stream: Spark
hands them to the driver with its report of the micro-batch, which it makes after the commit. A task that is run again tells
again, so the driver keeps one report for each key group. Unlike accumulators, this also works where the driver has no
SparkContext.
"""

from __future__ import annotations

import base64
import math
import os
import socket
import time
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

import msgspec
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from holdfast.engine.metrics.holding import Holding
from holdfast.engine.metrics.hot_keys import KeySketch, LargestKeys
from holdfast.engine.metrics.step import StepMetrics
from holdfast.engine.state.keys import decode_slots, encode_slots
from holdfast.engine.stored.readable import visible
from holdfast.errors import OutputError
from holdfast.model.metrics import Distribution, UserMetrics
from holdfast.spark.stages.resident import resident_bytes

__all__ = ["OBSERVED", "BundleReport", "distinct_reports", "observed", "report_of", "reported_metrics", "reports_of"]

OBSERVED = "holdfast_metrics_"
"""What the names of our observations begin with."""

_COUNTERS = tuple(StepMetrics().names())
_ELEMENTS = _COUNTERS.index("elements")
_INT64 = 1 << 63
_HOT, _HEAVY = 24, 8
"""How many keys a report names. Spark keeps the reports of a hundred micro-batches."""


class BundleReport(msgspec.Struct, frozen=True, array_like=True):
    """What one key group did in a micro-batch, and what it holds after it."""

    step: str
    label: int
    counters: list[int]
    """In the order of `StepMetrics.names()`."""
    counted: dict[str, int | float]
    distributions: dict[str, tuple[int, int | float, int | float, int | float]]
    gauges: dict[str, int | float]
    hot_total: int
    hot_keys: bytes
    hot_counts: list[int]
    heavy_keys: bytes
    heavy_sizes: list[int]
    holding: Holding | None
    """None if the backend does not say."""
    host: str
    pid: int
    memory_bytes: int
    kept_bytes: int

    def encode(self) -> bytes:
        try:
            return _encoder.encode(self)
        except UnicodeEncodeError:
            # A name of a function's own metrics that is no text fails no micro-batch.
            own = {field: _visible_names(getattr(self, field)) for field in ("counted", "distributions", "gauges")}
            return _encoder.encode(msgspec.structs.replace(self, **own))

    @property
    def elements(self) -> int:
        return self.counters[_ELEMENTS]

    @property
    def metrics(self) -> StepMetrics:
        """The counts, as metrics of one bundle."""
        metrics = StepMetrics()
        for name, count in zip(_COUNTERS, self.counters, strict=True):
            setattr(metrics, name, count)
        hot = KeySketch(_HOT)
        hot.total = self.hot_total
        hot.counts = dict(zip(decode_slots(self.hot_keys), self.hot_counts, strict=True))
        heavy = LargestKeys()
        heavy.sizes = dict(zip(decode_slots(self.heavy_keys), self.heavy_sizes, strict=True))
        metrics.hot, metrics.heavy = hot, heavy
        distributions = {name: Distribution(*values) for name, values in self.distributions.items()}
        metrics.user = UserMetrics(distributions=distributions, gauges=dict(self.gauges))
        metrics.user.counters.update(self.counted)
        return metrics


_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[BundleReport] = msgspec.msgpack.Decoder(BundleReport)


def report_of(step: str, label: int, metrics: StepMetrics, holding: Holding | None, kept_bytes: int) -> BundleReport:
    """The report of a bundle that was committed in this process."""
    user, hot, heavy = metrics.user, metrics.hot.cut(_HOT), dict(metrics.heavy.largest(_HEAVY))
    return BundleReport(
        step=step,
        label=label,
        counters=[getattr(metrics, name) for name in _COUNTERS],
        counted={name: _number(name, count) for name, count in user.counters.items()},
        distributions={
            name: (d.count, _number(name, d.sum), _number(name, d.min), _number(name, d.max))
            for name, d in user.distributions.items()
        },
        gauges={name: _number(name, value) for name, value in user.gauges.items()},
        hot_total=hot.total,
        hot_keys=encode_slots(list(hot.counts)),
        hot_counts=list(hot.counts.values()),
        heavy_keys=encode_slots(list(heavy)),
        heavy_sizes=list(heavy.values()),
        holding=holding,
        host=_host(),
        pid=os.getpid(),
        memory_bytes=_resident_bytes(),
        kept_bytes=kept_bytes,
    )


def observed(rows: DataFrame, name: str, is_report: Column) -> DataFrame:
    """The rows of an operator without the reports among them, which Spark gives the driver with the micro-batch."""
    reports = F.collect_list(F.when(is_report, F.base64("payload"))).alias("reports")
    return rows.observe(f"{OBSERVED}{name}", reports).where(~is_report)


def reports_of(observed: Mapping[str, Any]) -> Iterator[BundleReport]:
    """The reports in Spark's report of a micro-batch."""
    texts = [text for name, row in observed.items() if name.startswith(OBSERVED) for text in row["reports"] or ()]
    yield from distinct_reports(map(base64.b64decode, texts)).values()


def reported_metrics(progress: Iterable[Any]) -> dict[str, StepMetrics]:
    """What Spark's reports of some micro-batches say of each step, by its name."""
    metrics: dict[str, StepMetrics] = {}
    for told in progress:
        for report in reports_of(told.observedMetrics):
            metrics.setdefault(report.step, StepMetrics()).add(report.metrics)
    return metrics


def distinct_reports(told: Iterable[bytes]) -> dict[tuple[str, int], BundleReport]:
    """The reports of a micro-batch, one for each key group of a step: the last of those that were made."""
    reports = map(_decoder.decode, told)
    return {(report.step, report.label): report for report in reports}


def _visible_names(metrics: Mapping[str, Any]) -> dict[str, Any]:
    return {visible(name): value for name, value in metrics.items()}


def _number(name: str, value: object) -> int | float:
    """A user's number as one that can travel. Whole numbers beyond 64 bits become floating-point numbers."""
    if type(value) is int and -_INT64 <= value < _INT64:
        return value
    try:
        return float(value)  # type: ignore[arg-type]
    except OverflowError:
        return math.inf if value > 0 else -math.inf  # type: ignore[operator]
    except (TypeError, ValueError):
        raise OutputError(
            f"The metric {name!r} was given {value!r}, which is not a number.", todo="count and measure numbers"
        ) from None


@lru_cache(maxsize=1)
def _host() -> str:
    return socket.gethostname()


def _resident_bytes() -> int:
    """How much memory this process has, or had less than a second ago; 0 where the system does not say."""
    return _resident_bytes_at(int(time.monotonic()))


@lru_cache(maxsize=1)
def _resident_bytes_at(second: int) -> int:
    return resident_bytes()
