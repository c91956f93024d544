"""Parameters: the defaults through which a method of a DoFn asks for its arguments."""

from __future__ import annotations

import enum
from typing import Any

__all__ = ["Param", "ParamKind", "StateParam", "TimerParam"]


class ParamKind(enum.Enum):
    """What a parameter asks for."""

    ELEMENT = "ElementParam"
    KEY = "KeyParam"
    TIMESTAMP = "TimestampParam"
    WINDOW = "WindowParam"
    WINDOWED_VALUE = "WindowedValueParam"
    PANE_INFO = "PaneInfoParam"
    SIDE_INPUT = "SideInputParam"
    TIMER_TAG = "DynamicTimerTagParam"
    STATE = "StateParam"
    TIMER = "TimerParam"


class Param:
    """Asks for something that belongs to the current call."""

    def __init__(self, kind: ParamKind) -> None:
        self.kind = kind

    def __repr__(self) -> str:
        return f"DoFn.{self.kind.value}"


class StateParam(Param):
    """Asks for the cell that the spec declares."""

    def __init__(self, state_spec: Any) -> None:
        super().__init__(ParamKind.STATE)
        self.spec = state_spec

    def __repr__(self) -> str:
        return f"DoFn.StateParam({self.spec!r})"


class TimerParam(Param):
    """Asks for the timer that the spec declares."""

    def __init__(self, timer_spec: Any) -> None:
        super().__init__(ParamKind.TIMER)
        self.spec = timer_spec

    def __repr__(self) -> str:
        return f"DoFn.TimerParam({self.spec!r})"
