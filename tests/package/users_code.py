"""What a user would write. `test_types.py` lets type checkers read it; it is never run.

After `reveal_type` stands the type that every checker must infer. A parameter without an annotation is Any to mypy, whatever
its default is; where this makes a difference, pyright's answer stands first: `# ValueState[int] / Any`. Where a line is a
mistake that a checker must find, the comment is `# error`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pyspark.sql import DataFrame
from typing_extensions import reveal_type

import holdfast as hf
from holdfast import testing
from holdfast.ops import savepoint_restore, state_import

# Coders.
reveal_type(hf.VarIntCoder().decode(b""))  # int
reveal_type(hf.ListCoder(hf.StrUtf8Coder()).decode(b""))  # list[str]
reveal_type(hf.MapCoder(hf.StrUtf8Coder(), hf.FloatCoder()).decode(b""))  # dict[str, float]
reveal_type(hf.NullableCoder(hf.TimestampCoder()).decode(b""))  # Timestamp | None
reveal_type(hf.TupleCoder((hf.VarIntCoder(), hf.BytesCoder())).decode(b""))  # tuple[int, bytes]
reveal_type(hf.TupleCoder([hf.VarIntCoder(), hf.BytesCoder()]).decode(b""))  # tuple[Any, ...]
hf.VarIntCoder().encode("one")  # error


class Celsius:
    degrees: float


class CelsiusCoder(hf.Coder[Celsius]):
    def encode(self, value: Celsius) -> bytes:
        return repr(value.degrees).encode()

    def decode(self, data: bytes) -> Celsius:
        return Celsius()


class Longest(hf.CombineFn[str, int, float]):
    def create_accumulator(self) -> int:
        return 0

    def add_input(self, mutable_accumulator: int, element: str) -> int:
        return max(mutable_accumulator, len(element))

    def merge_accumulators(self, accumulators: Iterable[int]) -> int:
        return max(accumulators)

    def extract_output(self, accumulator: int) -> float:
        return float(accumulator)


# State parameters.
COUNT = hf.ValueStateSpec("count", hf.VarIntCoder(), ttl="1 hour")
ANYTHING = hf.ValueStateSpec("anything")
WARMEST = hf.ReadModifyWriteStateSpec("warmest", CelsiusCoder())
RECENT = hf.BagStateSpec("recent", hf.TupleCoder((hf.StrUtf8Coder(), hf.FloatCoder())))
SEEN = hf.SetStateSpec("seen", hf.StrUtf8Coder(), ttl=hf.Ttl("1 day", refresh="read"))
BY_NAME = hf.MapStateSpec("by name", hf.StrUtf8Coder(), hf.ListCoder(hf.VarIntCoder()))
HALF_KNOWN = hf.MapStateSpec("half known", value_coder=hf.BooleanCoder())
SERIES = hf.OrderedListStateSpec("series", hf.DecimalCoder())
HOW_MANY = hf.CombiningStateSpec("how many", hf.Count())
LONGEST = hf.CombiningStateSpec("longest", hf.VarIntCoder(), Longest())
TOTAL = hf.CombiningStateSpec("total", sum)
QUIET = hf.TimerSpec("quiet", hf.TimeDomain.REAL_TIME)

reveal_type(hf.DoFn.StateParam(COUNT))  # ValueState[int]
reveal_type(hf.DoFn.StateParam(ANYTHING))  # ValueState[Any]
reveal_type(hf.DoFn.StateParam(WARMEST))  # ValueState[Celsius]
reveal_type(hf.DoFn.StateParam(RECENT))  # BagState[tuple[str, float]]
reveal_type(hf.DoFn.StateParam(SEEN))  # SetState[str]
reveal_type(hf.DoFn.StateParam(BY_NAME))  # MapState[str, list[int]]
reveal_type(hf.DoFn.StateParam(HALF_KNOWN))  # MapState[Any, bool]
reveal_type(hf.DoFn.StateParam(SERIES))  # OrderedListState[Decimal]
reveal_type(hf.DoFn.StateParam(HOW_MANY))  # CombiningState[Any, int]
reveal_type(hf.DoFn.StateParam(LONGEST))  # CombiningState[str, float]
reveal_type(hf.DoFn.StateParam(TOTAL))  # CombiningState[Any, Any]
reveal_type(hf.DoFn.TimerParam(QUIET))  # Timer
hf.DoFn.StateParam(QUIET)  # error
hf.DoFn.TimerParam(COUNT)  # error
hf.ValueStateSpec("count", hf.VarIntCoder)  # error
hf.ValueStateSpec("count", ttl=["1 hour"])  # error
hf.Ttl("1 hour", refresh="always")  # error
hf.Limits(max_keys=1, policy="evict")  # error


class Counter(hf.DoFn):
    """Without annotations."""

    def process(self, element, count=hf.DoFn.StateParam(COUNT), at=hf.DoFn.TimestampParam, quiet=hf.DoFn.TimerParam(QUIET)):
        reveal_type(count)  # ValueState[int] / Any
        reveal_type(count.read())  # int | None / Any
        reveal_type(at)  # Timestamp / Any
        reveal_type(quiet)  # Timer / Any
        yield element[0], 1

    @hf.on_timer(QUIET)
    def on_quiet(self, key=hf.DoFn.KeyParam, tag=hf.DoFn.DynamicTimerTagParam, pane=hf.DoFn.PaneInfoParam):
        reveal_type(tag)  # str / Any
        reveal_type(pane)  # PaneInfo / Any


class Annotated(hf.DoFn):
    """With annotations, which must fit."""

    def process(
        self,
        element: tuple[str, int],
        count: hf.ValueState[int] = hf.DoFn.StateParam(COUNT),
        window: hf.IntervalWindow = hf.DoFn.WindowParam,
        wrong: hf.ValueState[str] = hf.DoFn.StateParam(COUNT),  # error
    ) -> Iterator[tuple[str, int]]:
        count.write("many")  # error
        yield element[0], (count.read() or 0) + 1


def counted(key: str, values: list[int], state: hf.GroupState[int]) -> Iterator[tuple[str, int]]:
    reveal_type(state.get)  # int
    reveal_type(state.getOption)  # int | None
    state.update("many")  # error
    yield key, state.get


def running(state: int | None, value: float) -> tuple[int, int]:
    return (state or 0) + 1, (state or 0) + 1


# Steps.
def steps(df: DataFrame) -> None:
    payments = hf.keyed(df, key="card", timestamp="at", watermark="10 seconds")
    reveal_type(payments)  # KeyedStream
    hourly = payments.window_into(hf.FixedWindows(3600), allowed_lateness="1 minute", trigger=hf.AfterCount(5))
    reveal_type(hourly)  # KeyedStream
    reveal_type(payments.par_do(Counter(), "card string, count long"))  # DataFrame
    both = payments.par_do(Counter(), "card string, count long", outputs={"late": None}, on_error="fail")
    reveal_type(both)  # Outputs
    reveal_type(both["late"])  # DataFrame
    reveal_type(hourly.combine_per_key(hf.Sum("amount"), "total double"))  # DataFrame
    reveal_type(hourly.combine_per_key({"total": hf.Sum("amount"), "most": max}, "total double, most double"))  # DataFrame
    reveal_type(hourly.combine_per_key(sum, "total double", outputs={"late": None}))  # Outputs
    reveal_type(hourly.group_by_key())  # DataFrame
    reveal_type(payments.join(payments, within="10 minutes", how="left"))  # DataFrame
    reveal_type(payments.join(payments, within=(0, 600), outputs={"late": None}))  # Outputs
    reveal_type(payments.flat_map_groups_with_state(counted, "card string, count long"))  # DataFrame
    reveal_type(payments.flat_map_groups_with_state(counted, "count long", outputs={"late": None}))  # Outputs
    reveal_type(payments.map_groups_with_state(lambda key, values, state: state.get + key, "count long"))  # DataFrame
    payments.map_groups_with_state(lambda key, values: key, "card string")  # error
    reveal_type(payments.map_with_state(running, "count long", state_coder=hf.VarIntCoder()))  # DataFrame
    reveal_type(payments.map_with_state(lambda total, value: ((total or 0) + value, total), "total long"))  # DataFrame
    reveal_type(payments.map_with_state(running, "count long", ttl="1 day", outputs={"late": None}))  # Outputs
    payments.map_with_state(running, "count long", state_coder=hf.StrUtf8Coder())  # error
    payments.map_with_state(lambda state, value: state, "count long")  # error
    payments.par_do(Counter(), on_error="ignore")  # error
    payments.par_do(Counter(), key_group=4)  # error
    payments.join(payments, within="10 minutes", how="cross")  # error
    payments.window_into(hf.FixedWindows(60), accumulation_mode="adding")  # error
    hf.keyed(df, "card")  # error


class Ledger(hf.sinks.Sink):
    """A sink that can upsert."""

    key: tuple[str, ...] = ()

    def upserting(self, upsert: hf.sinks.Upsert) -> Ledger:
        made = Ledger()
        made.key = upsert.key
        return made

    def write_batch(self, rows: DataFrame, info: hf.sinks.BatchInfo) -> None:
        reveal_type(info.batch_id)  # int


def written(df: DataFrame, job: hf.Job) -> None:
    table = hf.sinks.Sqlite("rows.sqlite", "totals")
    reveal_type(job.write(df, table, mode="upsert", key=["card", "window"]))  # Job
    job.write(df, Ledger(), mode="upsert", key="card").write(df, table)
    job.write(df, table, mode="update", key="card")  # error
    job.write(df, table, mode="upsert", key=1)  # error
    job.write(df, table, "upsert")  # error


def operate(checkpoint: str) -> None:
    savepoint_restore(None, "savepoint", checkpoint, backend="memory")  # error
    state_import(hf.session(), "directory", checkpoint, on_conflict="ignore")  # error
    hf.Job("payments", checkpoint=checkpoint, trigger=["10 seconds"])  # error


# Tests.
def scripted() -> None:
    stream = testing.TestStream().add_elements([("a", 1)]).advance_watermark_to(10)
    reveal_type(stream)  # TestStream
    results = testing.run(Counter(), stream)
    reveal_type(results)  # Results
    reveal_type(results[0].timestamp)  # Timestamp
    reveal_type(results.values)  # list[Any]
    testing.run(Counter(), stream, runtime="flink")  # error
