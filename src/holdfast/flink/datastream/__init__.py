"""Flink's door to its stream API, of which there is the part about state and checkpoints."""

from holdfast.flink.datastream import state
from holdfast.model.flink.environment import (
    CheckpointConfig,
    EmbeddedRocksDBStateBackend,
    HashMapStateBackend,
    StreamExecutionEnvironment,
)

__all__ = ["CheckpointConfig", "EmbeddedRocksDBStateBackend", "HashMapStateBackend", "StreamExecutionEnvironment", "state"]
