"""Flink's door to durations and types."""

from holdfast.flink.common import time, typeinfo
from holdfast.model.flink.times import Time
from holdfast.model.flink.type_infos import Types
from holdfast.model.time.timestamps import Duration

__all__ = ["Duration", "Time", "Types", "time", "typeinfo"]
