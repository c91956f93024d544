"""Beam's door to the time domains."""

from holdfast.model.timers import TimeDomain

__all__ = ["TimeDomain"]
