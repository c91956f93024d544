"""Beam's door to state cells and timers, the names of its live objects included."""

from holdfast.model.state import BagState as BagRuntimeState
from holdfast.model.state import (
    BagStateSpec,
    CombiningStateSpec,
    CombiningValueStateSpec,
    MapStateSpec,
    OrderedListStateSpec,
    ReadModifyWriteStateSpec,
    SetStateSpec,
    StateSpec,
    ValueStateSpec,
)
from holdfast.model.state import CombiningState as CombiningValueRuntimeState
from holdfast.model.state import OrderedListState as OrderedListRuntimeState
from holdfast.model.state import SetState as SetRuntimeState
from holdfast.model.state import State as RuntimeState
from holdfast.model.state import ValueState as ReadModifyWriteRuntimeState
from holdfast.model.step import get_dofn_specs, is_stateful_dofn, validate_stateful_dofn
from holdfast.model.timers import TimeDomain, Timer, TimerSpec, on_timer
from holdfast.model.timers import Timer as BaseTimer
from holdfast.model.timers import Timer as RuntimeTimer

AccumulatingRuntimeState = RuntimeState

__all__ = [
    "AccumulatingRuntimeState",
    "BagRuntimeState",
    "BagStateSpec",
    "BaseTimer",
    "CombiningStateSpec",
    "CombiningValueRuntimeState",
    "CombiningValueStateSpec",
    "MapStateSpec",
    "OrderedListRuntimeState",
    "OrderedListStateSpec",
    "ReadModifyWriteRuntimeState",
    "ReadModifyWriteStateSpec",
    "RuntimeState",
    "RuntimeTimer",
    "SetRuntimeState",
    "SetStateSpec",
    "StateSpec",
    "TimeDomain",
    "Timer",
    "TimerSpec",
    "ValueStateSpec",
    "get_dofn_specs",
    "is_stateful_dofn",
    "on_timer",
    "validate_stateful_dofn",
]
