"""Beam's door to a user's own metrics."""

from holdfast.model.metrics import Metrics

__all__ = ["Metrics"]
