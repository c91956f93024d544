"""Beam's door to triggers."""

from holdfast.model.aggregate.composite_triggers import AfterAll, AfterAny, AfterEach, OrFinally
from holdfast.model.aggregate.triggers import (
    AccumulationMode,
    AfterCount,
    AfterProcessingTime,
    AfterWatermark,
    Always,
    DefaultTrigger,
    Repeatedly,
)
from holdfast.model.aggregate.triggers import Trigger as TriggerFn

__all__ = [
    "AccumulationMode",
    "AfterAll",
    "AfterAny",
    "AfterCount",
    "AfterEach",
    "AfterProcessingTime",
    "AfterWatermark",
    "Always",
    "DefaultTrigger",
    "OrFinally",
    "Repeatedly",
    "TriggerFn",
]
