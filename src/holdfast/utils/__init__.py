"""Beam's doors to time and windowed values."""

from holdfast.utils import timestamp, windowed_value

__all__ = ["timestamp", "windowed_value"]
