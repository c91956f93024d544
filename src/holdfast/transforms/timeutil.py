"""Beam's door to the time domains."""

from holdfast.model.time.timers import TimeDomain

__all__ = ["TimeDomain"]
