"""Beam's door to state cells and timers, the names of its live objects included."""

from holdfast.model.functions.step import get_dofn_specs, is_stateful_dofn, validate_stateful_dofn
from holdfast.model.state.specs import BagState as BagRuntimeState
from holdfast.model.state.specs import (
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
from holdfast.model.state.specs import CombiningState as CombiningValueRuntimeState
from holdfast.model.state.specs import OrderedListState as OrderedListRuntimeState
from holdfast.model.state.specs import SetState as SetRuntimeState
from holdfast.model.state.specs import State as RuntimeState
from holdfast.model.state.specs import ValueState as ReadModifyWriteRuntimeState
from holdfast.model.time.timers import TimeDomain, Timer, TimerSpec, on_timer
from holdfast.model.time.timers import Timer as BaseTimer
from holdfast.model.time.timers import Timer as RuntimeTimer

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
