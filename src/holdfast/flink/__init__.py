"""The door for those who come from Flink: its words for state, each of which gives something of Holdfast's.

`from pyflink.datastream.state import …` and `from pyflink.common import …` become `from holdfast.flink.…`.
"""

from holdfast.flink import common, datastream
from holdfast.model.flink.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from holdfast.model.flink.environment import (
    CheckpointConfig,
    EmbeddedRocksDBStateBackend,
    HashMapStateBackend,
    StreamExecutionEnvironment,
)
from holdfast.model.flink.times import Time
from holdfast.model.flink.ttl_config import StateTtlConfig
from holdfast.model.flink.type_infos import Types
from holdfast.model.time.timestamps import Duration

__all__ = [
    "AggregatingStateDescriptor",
    "CheckpointConfig",
    "Duration",
    "EmbeddedRocksDBStateBackend",
    "HashMapStateBackend",
    "ListStateDescriptor",
    "MapStateDescriptor",
    "ReducingStateDescriptor",
    "StateDescriptor",
    "StateTtlConfig",
    "StreamExecutionEnvironment",
    "Time",
    "Types",
    "ValueStateDescriptor",
    "common",
    "datastream",
]
