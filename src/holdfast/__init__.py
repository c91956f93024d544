"""Holdfast: stateful stream processing for PySpark.

Write a small function that remembers things per key and window, with Apache Beam's vocabulary; test it in milliseconds
with `holdfast.testing`; run it on Spark with `keyed` and `Job`. Importing this module does not import Spark: the names
that need it are looked up when they are first used.
"""

import typing as _typing

from holdfast import coders, core, flink, metrics, pvalue, transforms, trigger, utils, watch
from holdfast.errors import (
    CheckpointError,
    CheckpointLocked,
    CoderError,
    CorruptState,
    GroupStateError,
    HoldfastError,
    InputError,
    InvalidStep,
    JobFailed,
    LimitExceeded,
    MissingExtra,
    NeedsSpark,
    OutputError,
    SinkError,
    StateConflict,
    TimeError,
    UserCodeError,
)
from holdfast.model.aggregate.combine import (
    CombineFn,
)
from holdfast.model.aggregate.combiners import (
    ApproximateDistinct,
    Count,
    Largest,
    Max,
    Mean,
    Min,
    Smallest,
    Sum,
    ToDict,
    ToList,
    Top,
    ToSet,
)
from holdfast.model.aggregate.composite_triggers import (
    AfterAll,
    AfterAny,
    AfterEach,
    OrFinally,
)
from holdfast.model.aggregate.triggers import (
    AccumulationMode,
    AfterCount,
    AfterProcessingTime,
    AfterWatermark,
    Always,
    DefaultTrigger,
    Repeatedly,
    Trigger,
)
from holdfast.model.coders import (
    BigIntegerCoder,
    BooleanCoder,
    BytesCoder,
    CloudpickleCoder,
    Coder,
    DecimalCoder,
    FastPrimitivesCoder,
    FloatCoder,
    IterableCoder,
    JsonCoder,
    ListCoder,
    MapCoder,
    NullableCoder,
    PickleCoder,
    PlainCoder,
    RecordCoder,
    StructCoder,
    StrUtf8Coder,
    TimestampCoder,
    TupleCoder,
    VarIntCoder,
)
from holdfast.model.functions.dofn import (
    DoFn,
    Grouped,
    GroupedDoFn,
    TaggedOutput,
)
from holdfast.model.functions.group_state import (
    FlatMapGroupsWithState,
    GroupState,
    GroupStateTimeout,
    MapGroupsWithState,
)
from holdfast.model.functions.grouping import (
    CombinePerKey,
    GroupByKey,
)
from holdfast.model.functions.interval_join import (
    IntervalJoin,
)
from holdfast.model.functions.map_with_state import MapWithState
from holdfast.model.functions.side_inputs import (
    AsDict,
    AsIter,
    AsList,
    AsSingleton,
    SideInput,
)
from holdfast.model.metrics import (
    Metrics,
)
from holdfast.model.state.limits import (
    Limits,
)
from holdfast.model.state.specs import (
    BagState,
    BagStateSpec,
    CombiningState,
    CombiningStateSpec,
    CombiningValueStateSpec,
    MapState,
    MapStateSpec,
    OrderedListState,
    OrderedListStateSpec,
    ReadModifyWriteStateSpec,
    SetState,
    SetStateSpec,
    State,
    StateSpec,
    ValueState,
    ValueStateSpec,
)
from holdfast.model.state.ttl import (
    Ttl,
)
from holdfast.model.state.upgrade import (
    Upgrade,
)
from holdfast.model.time.timers import (
    TimeDomain,
    Timer,
    TimerSpec,
    on_timer,
)
from holdfast.model.time.timestamps import (
    MAX_TIMESTAMP,
    MIN_TIMESTAMP,
    Duration,
    Timestamp,
)
from holdfast.model.windows.ready import (
    BoundedWindow,
    FixedWindows,
    GlobalWindow,
    GlobalWindows,
    IntervalWindow,
    NonMergingWindowFn,
    Sessions,
    SlidingWindows,
    TimestampCombiner,
    WindowFn,
)
from holdfast.model.windows.values import (
    PANE_INFO_UNKNOWN,
    PaneInfo,
    PaneInfoTiming,
    TimestampedValue,
    WindowedValue,
)
from holdfast.transforms import combiners, window

if _typing.TYPE_CHECKING:
    from holdfast.spark import sinks, sources
    from holdfast.spark.api.keyed import KeyedStream, keyed
    from holdfast.spark.graph.picture.explanation import Explanation
    from holdfast.spark.job.job import Job
    from holdfast.spark.job.triggers import AvailableNow, Batches, Every
    from holdfast.spark.session.settings import session
    from holdfast.spark.stages.unpack import Outputs

__version__ = "0.1.0"

__all__ = [
    "MAX_TIMESTAMP",
    "MIN_TIMESTAMP",
    "PANE_INFO_UNKNOWN",
    "AccumulationMode",
    "AfterAll",
    "AfterAny",
    "AfterCount",
    "AfterEach",
    "AfterProcessingTime",
    "AfterWatermark",
    "Always",
    "ApproximateDistinct",
    "AsDict",
    "AsIter",
    "AsList",
    "AsSingleton",
    "AvailableNow",
    "BagState",
    "BagStateSpec",
    "Batches",
    "BigIntegerCoder",
    "BooleanCoder",
    "BoundedWindow",
    "BytesCoder",
    "CheckpointError",
    "CheckpointLocked",
    "CloudpickleCoder",
    "Coder",
    "CoderError",
    "CombineFn",
    "CombinePerKey",
    "CombiningState",
    "CombiningStateSpec",
    "CombiningValueStateSpec",
    "CorruptState",
    "Count",
    "DecimalCoder",
    "DefaultTrigger",
    "DoFn",
    "Duration",
    "Every",
    "Explanation",
    "FastPrimitivesCoder",
    "FixedWindows",
    "FlatMapGroupsWithState",
    "FloatCoder",
    "GlobalWindow",
    "GlobalWindows",
    "GroupByKey",
    "GroupState",
    "GroupStateError",
    "GroupStateTimeout",
    "Grouped",
    "GroupedDoFn",
    "HoldfastError",
    "InputError",
    "IntervalJoin",
    "IntervalWindow",
    "InvalidStep",
    "IterableCoder",
    "Job",
    "JobFailed",
    "JsonCoder",
    "KeyedStream",
    "Largest",
    "LimitExceeded",
    "Limits",
    "ListCoder",
    "MapCoder",
    "MapGroupsWithState",
    "MapState",
    "MapStateSpec",
    "MapWithState",
    "Max",
    "Mean",
    "Metrics",
    "Min",
    "MissingExtra",
    "NeedsSpark",
    "NonMergingWindowFn",
    "NullableCoder",
    "OrFinally",
    "OrderedListState",
    "OrderedListStateSpec",
    "OutputError",
    "Outputs",
    "PaneInfo",
    "PaneInfoTiming",
    "PickleCoder",
    "PlainCoder",
    "ReadModifyWriteStateSpec",
    "RecordCoder",
    "Repeatedly",
    "Sessions",
    "SetState",
    "SetStateSpec",
    "SideInput",
    "SinkError",
    "SlidingWindows",
    "Smallest",
    "State",
    "StateConflict",
    "StateSpec",
    "StrUtf8Coder",
    "StructCoder",
    "Sum",
    "TaggedOutput",
    "TimeDomain",
    "TimeError",
    "Timer",
    "TimerSpec",
    "Timestamp",
    "TimestampCoder",
    "TimestampCombiner",
    "TimestampedValue",
    "ToDict",
    "ToList",
    "ToSet",
    "Top",
    "Trigger",
    "Ttl",
    "TupleCoder",
    "Upgrade",
    "UserCodeError",
    "ValueState",
    "ValueStateSpec",
    "VarIntCoder",
    "WindowFn",
    "WindowedValue",
    "__version__",
    "coders",
    "combiners",
    "core",
    "flink",
    "keyed",
    "metrics",
    "on_timer",
    "pvalue",
    "session",
    "sinks",
    "sources",
    "transforms",
    "trigger",
    "utils",
    "watch",
    "window",
]

_ON_SPARK = {
    "Job": "holdfast.spark.job.job",
    "KeyedStream": "holdfast.spark.api.keyed",
    "keyed": "holdfast.spark.api.keyed",
    "session": "holdfast.spark.session.settings",
    "AvailableNow": "holdfast.spark.job.triggers",
    "Batches": "holdfast.spark.job.triggers",
    "Every": "holdfast.spark.job.triggers",
    "Explanation": "holdfast.spark.graph.picture.explanation",
    "Outputs": "holdfast.spark.stages.unpack",
    "sinks": "holdfast.spark.sinks",
    "sources": "holdfast.spark.sources",
}


def __getattr__(name: str) -> _typing.Any:
    if name not in _ON_SPARK:
        raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
    import importlib

    from holdfast.model.extras import require_spark

    # An ImportError, so that `from holdfast import keyed` says what is missing too: of an AttributeError it would not.
    require_spark(f"hf.{name}")
    module = importlib.import_module(_ON_SPARK[name])
    return module if name in ("sinks", "sources") else getattr(module, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
