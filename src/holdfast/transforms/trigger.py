"""Beam's door to triggers."""

from holdfast.model.composite_triggers import AfterAll, AfterAny, AfterEach, OrFinally
from holdfast.model.triggers import (
    AccumulationMode,
    AfterCount,
    AfterProcessingTime,
    AfterWatermark,
    Always,
    DefaultTrigger,
    Repeatedly,
)
from holdfast.model.triggers import Trigger as TriggerFn

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
