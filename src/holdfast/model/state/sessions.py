"""The cell in which an aggregation keeps the open sessions of a key."""

from __future__ import annotations

from holdfast.model.coders.sessions import SessionsCoder
from holdfast.model.state.specs import State, StateSpec

__all__ = ["SessionsStateSpec"]


class SessionsStateSpec(StateSpec[State]):
    """A cell of sessions. `lateness_micros`: how long one is kept after the watermark has passed its end."""

    kind = "sessions"
    coder: SessionsCoder

    def __init__(self, name: str, coder: SessionsCoder, lateness_micros: int = 0) -> None:
        super().__init__(name, coder)
        self.lateness_micros = lateness_micros
