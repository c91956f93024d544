"""Holdfast: stateful stream processing for PySpark.

Write a small function that remembers things per key and window, with Apache Beam's vocabulary; test it in milliseconds
with `holdfast.testing`; run it on Spark with `keyed` and `Job`. Importing this module imports nothing else: names are looked
up when they are first used, so that a tool which reads a checkpoint does not load what jobs are written with.
"""

import typing as _typing

if _typing.TYPE_CHECKING:
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
    from holdfast.model.functions.stateless import Filter, FlatMap, Map
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
    from holdfast.spark import sinks, sources
    from holdfast.spark.api.keyed import KeyedStream, keyed
    from holdfast.spark.graph.picture.explanation import Explanation
    from holdfast.spark.job.job import Job
    from holdfast.spark.job.triggers import AvailableNow, Batches, Every
    from holdfast.spark.session.settings import session
    from holdfast.spark.stages.unpack import Outputs
    from holdfast.transforms import combiners, window

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
    "Filter",
    "FixedWindows",
    "FlatMap",
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
    "Map",
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

_HOMES = {
    "AccumulationMode": "holdfast.model.aggregate.triggers",
    "AfterAll": "holdfast.model.aggregate.composite_triggers",
    "AfterAny": "holdfast.model.aggregate.composite_triggers",
    "AfterCount": "holdfast.model.aggregate.triggers",
    "AfterEach": "holdfast.model.aggregate.composite_triggers",
    "AfterProcessingTime": "holdfast.model.aggregate.triggers",
    "AfterWatermark": "holdfast.model.aggregate.triggers",
    "Always": "holdfast.model.aggregate.triggers",
    "ApproximateDistinct": "holdfast.model.aggregate.combiners",
    "AsDict": "holdfast.model.functions.side_inputs",
    "AsIter": "holdfast.model.functions.side_inputs",
    "AsList": "holdfast.model.functions.side_inputs",
    "AsSingleton": "holdfast.model.functions.side_inputs",
    "BagState": "holdfast.model.state.specs",
    "BagStateSpec": "holdfast.model.state.specs",
    "BigIntegerCoder": "holdfast.model.coders",
    "BooleanCoder": "holdfast.model.coders",
    "BoundedWindow": "holdfast.model.windows.ready",
    "BytesCoder": "holdfast.model.coders",
    "CheckpointError": "holdfast.errors",
    "CheckpointLocked": "holdfast.errors",
    "CloudpickleCoder": "holdfast.model.coders",
    "Coder": "holdfast.model.coders",
    "CoderError": "holdfast.errors",
    "CombineFn": "holdfast.model.aggregate.combine",
    "CombinePerKey": "holdfast.model.functions.grouping",
    "CombiningState": "holdfast.model.state.specs",
    "CombiningStateSpec": "holdfast.model.state.specs",
    "CombiningValueStateSpec": "holdfast.model.state.specs",
    "CorruptState": "holdfast.errors",
    "Count": "holdfast.model.aggregate.combiners",
    "DecimalCoder": "holdfast.model.coders",
    "DefaultTrigger": "holdfast.model.aggregate.triggers",
    "DoFn": "holdfast.model.functions.dofn",
    "Duration": "holdfast.model.time.timestamps",
    "FastPrimitivesCoder": "holdfast.model.coders",
    "Filter": "holdfast.model.functions.stateless",
    "FixedWindows": "holdfast.model.windows.ready",
    "FlatMap": "holdfast.model.functions.stateless",
    "FlatMapGroupsWithState": "holdfast.model.functions.group_state",
    "FloatCoder": "holdfast.model.coders",
    "GlobalWindow": "holdfast.model.windows.ready",
    "GlobalWindows": "holdfast.model.windows.ready",
    "GroupByKey": "holdfast.model.functions.grouping",
    "GroupState": "holdfast.model.functions.group_state",
    "GroupStateError": "holdfast.errors",
    "GroupStateTimeout": "holdfast.model.functions.group_state",
    "Grouped": "holdfast.model.functions.dofn",
    "GroupedDoFn": "holdfast.model.functions.dofn",
    "HoldfastError": "holdfast.errors",
    "InputError": "holdfast.errors",
    "IntervalJoin": "holdfast.model.functions.interval_join",
    "IntervalWindow": "holdfast.model.windows.ready",
    "InvalidStep": "holdfast.errors",
    "IterableCoder": "holdfast.model.coders",
    "JobFailed": "holdfast.errors",
    "JsonCoder": "holdfast.model.coders",
    "Largest": "holdfast.model.aggregate.combiners",
    "LimitExceeded": "holdfast.errors",
    "Limits": "holdfast.model.state.limits",
    "ListCoder": "holdfast.model.coders",
    "MAX_TIMESTAMP": "holdfast.model.time.timestamps",
    "MIN_TIMESTAMP": "holdfast.model.time.timestamps",
    "Map": "holdfast.model.functions.stateless",
    "MapCoder": "holdfast.model.coders",
    "MapGroupsWithState": "holdfast.model.functions.group_state",
    "MapState": "holdfast.model.state.specs",
    "MapStateSpec": "holdfast.model.state.specs",
    "MapWithState": "holdfast.model.functions.map_with_state",
    "Max": "holdfast.model.aggregate.combiners",
    "Mean": "holdfast.model.aggregate.combiners",
    "Metrics": "holdfast.model.metrics",
    "Min": "holdfast.model.aggregate.combiners",
    "MissingExtra": "holdfast.errors",
    "NeedsSpark": "holdfast.errors",
    "NonMergingWindowFn": "holdfast.model.windows.ready",
    "NullableCoder": "holdfast.model.coders",
    "OrFinally": "holdfast.model.aggregate.composite_triggers",
    "OrderedListState": "holdfast.model.state.specs",
    "OrderedListStateSpec": "holdfast.model.state.specs",
    "OutputError": "holdfast.errors",
    "PANE_INFO_UNKNOWN": "holdfast.model.windows.values",
    "PaneInfo": "holdfast.model.windows.values",
    "PaneInfoTiming": "holdfast.model.windows.values",
    "PickleCoder": "holdfast.model.coders",
    "PlainCoder": "holdfast.model.coders",
    "ReadModifyWriteStateSpec": "holdfast.model.state.specs",
    "RecordCoder": "holdfast.model.coders",
    "Repeatedly": "holdfast.model.aggregate.triggers",
    "Sessions": "holdfast.model.windows.ready",
    "SetState": "holdfast.model.state.specs",
    "SetStateSpec": "holdfast.model.state.specs",
    "SideInput": "holdfast.model.functions.side_inputs",
    "SinkError": "holdfast.errors",
    "SlidingWindows": "holdfast.model.windows.ready",
    "Smallest": "holdfast.model.aggregate.combiners",
    "State": "holdfast.model.state.specs",
    "StateConflict": "holdfast.errors",
    "StateSpec": "holdfast.model.state.specs",
    "StrUtf8Coder": "holdfast.model.coders",
    "StructCoder": "holdfast.model.coders",
    "Sum": "holdfast.model.aggregate.combiners",
    "TaggedOutput": "holdfast.model.functions.dofn",
    "TimeDomain": "holdfast.model.time.timers",
    "TimeError": "holdfast.errors",
    "Timer": "holdfast.model.time.timers",
    "TimerSpec": "holdfast.model.time.timers",
    "Timestamp": "holdfast.model.time.timestamps",
    "TimestampCoder": "holdfast.model.coders",
    "TimestampCombiner": "holdfast.model.windows.ready",
    "TimestampedValue": "holdfast.model.windows.values",
    "ToDict": "holdfast.model.aggregate.combiners",
    "ToList": "holdfast.model.aggregate.combiners",
    "ToSet": "holdfast.model.aggregate.combiners",
    "Top": "holdfast.model.aggregate.combiners",
    "Trigger": "holdfast.model.aggregate.triggers",
    "Ttl": "holdfast.model.state.ttl",
    "TupleCoder": "holdfast.model.coders",
    "Upgrade": "holdfast.model.state.upgrade",
    "UserCodeError": "holdfast.errors",
    "ValueState": "holdfast.model.state.specs",
    "ValueStateSpec": "holdfast.model.state.specs",
    "VarIntCoder": "holdfast.model.coders",
    "WindowFn": "holdfast.model.windows.ready",
    "WindowedValue": "holdfast.model.windows.values",
    "on_timer": "holdfast.model.time.timers",
}
_MODULES = {
    "coders": "holdfast.coders",
    "combiners": "holdfast.transforms.combiners",
    "core": "holdfast.core",
    "flink": "holdfast.flink",
    "metrics": "holdfast.metrics",
    "pvalue": "holdfast.pvalue",
    "transforms": "holdfast.transforms",
    "trigger": "holdfast.trigger",
    "utils": "holdfast.utils",
    "watch": "holdfast.watch",
    "window": "holdfast.transforms.window",
}
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
    import importlib

    if name in _MODULES:
        found: _typing.Any = importlib.import_module(_MODULES[name])
    elif name in _HOMES:
        found = getattr(importlib.import_module(_HOMES[name]), name)
    elif name in _ON_SPARK:
        return _on_spark(name)
    else:
        raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
    # From now on it is found without asking here.
    globals()[name] = found
    return found


def _on_spark(name: str) -> _typing.Any:
    import importlib

    from holdfast.model.extras import require_spark

    # An ImportError, so that `from holdfast import keyed` says what is missing too: of an AttributeError it would not.
    require_spark(f"hf.{name}")
    module = importlib.import_module(_ON_SPARK[name])
    return module if name in ("sinks", "sources") else getattr(module, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
