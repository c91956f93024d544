"""What a job tells about itself: its history, its health, and the ways out to other systems.

None of it needs Spark. What an extra installs is imported on first use.
"""

import typing as _typing

if _typing.TYPE_CHECKING:
    from holdfast.watch.health.judging import judge
    from holdfast.watch.health.report import Health, Level, Measure, Symptom
    from holdfast.watch.health.thresholds import Limit, Thresholds
    from holdfast.watch.history import History, read_history
    from holdfast.watch.outlets.callback import HealthCallback
    from holdfast.watch.outlets.otel import OpenTelemetry
    from holdfast.watch.outlets.prometheus import Prometheus, prometheus_text
    from holdfast.watch.outlets.protocol import Outlet
    from holdfast.watch.outlets.webhook import Webhook
    from holdfast.watch.records import BatchRecord, EventRecord

__all__ = [
    "BatchRecord",
    "EventRecord",
    "Health",
    "HealthCallback",
    "History",
    "Level",
    "Limit",
    "Measure",
    "OpenTelemetry",
    "Outlet",
    "Prometheus",
    "Symptom",
    "Thresholds",
    "Webhook",
    "judge",
    "prometheus_text",
    "read_history",
]

_HOMES = {
    "BatchRecord": "holdfast.watch.records",
    "EventRecord": "holdfast.watch.records",
    "Health": "holdfast.watch.health.report",
    "HealthCallback": "holdfast.watch.outlets.callback",
    "History": "holdfast.watch.history",
    "Level": "holdfast.watch.health.report",
    "Limit": "holdfast.watch.health.thresholds",
    "Measure": "holdfast.watch.health.report",
    "OpenTelemetry": "holdfast.watch.outlets.otel",
    "Outlet": "holdfast.watch.outlets.protocol",
    "Prometheus": "holdfast.watch.outlets.prometheus",
    "Symptom": "holdfast.watch.health.report",
    "Thresholds": "holdfast.watch.health.thresholds",
    "Webhook": "holdfast.watch.outlets.webhook",
    "judge": "holdfast.watch.health.judging",
    "prometheus_text": "holdfast.watch.outlets.prometheus",
    "read_history": "holdfast.watch.history",
}


def __getattr__(name: str) -> _typing.Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'holdfast.watch' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
