"""Beam's door to Timestamp and Duration."""

from holdfast.model.time.timestamps import MAX_TIMESTAMP, MIN_TIMESTAMP, Duration, Timestamp

__all__ = ["MAX_TIMESTAMP", "MIN_TIMESTAMP", "Duration", "Timestamp"]
