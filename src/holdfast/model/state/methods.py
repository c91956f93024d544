"""What can be done with a cell."""

from __future__ import annotations

from holdfast.model.state.specs import State, StateSpec

__all__ = ["cell_methods"]


def cell_methods(spec: StateSpec[State]) -> list[str]:
    """The methods that a live cell of this spec has."""
    return sorted(name for name in dir(spec.live) if not name.startswith("_") and name != "prefetch")
