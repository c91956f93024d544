"""Flink's door to its stream API, of which there is the part about state."""

from holdfast.flink.datastream import state

__all__ = ["state"]
