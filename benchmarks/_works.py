"""The works of matrix.py: what is done to a stream, once as Spark does it natively and once with Holdfast.

Each work draws its micro-batches from a seed, so both ways are given the same files. `check` makes of a way's results what
must be the same in both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from _data import as_keys
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import holdfast as hf

__all__ = ["WORKS", "Work"]

Batch = dict[str, np.ndarray]
_BEGIN = 1_552_000_000_000_000 // 3_600_000_000 * 3_600_000_000
_SECOND = 1_000_000
_HOUR = 3600 * _SECOND
_LATE = "1 minute"
_KEY_GROUPS = 8
_MANY_KEY_GROUPS = 64
"""With a million keys: what a key group touches then fits into the processor's cache."""


@dataclass(frozen=True)
class Work:
    name: str
    title: str
    schema: str
    draw: Callable[[np.random.Generator, int], pa.Table]
    """The rows of the micro-batch with this number."""
    native: Callable[[DataFrame], DataFrame] | None
    holdfast: Callable[[DataFrame], DataFrame]
    native_mode: str
    batches: int
    goal: float
    """What native's time, divided by Holdfast's, should come to at least."""
    check: Callable[[pa.Table], Any]
    """What results must agree in."""


# Running counts


class Count(hf.DoFn):
    SEEN = hf.ValueStateSpec("seen", hf.VarIntCoder())

    def process(self, element: Any, seen: Any = hf.DoFn.StateParam(SEEN)) -> Any:
        number = (seen.read() or 0) + 1
        seen.write(number)
        yield element[0], number


class First(hf.DoFn):
    SEEN = hf.ValueStateSpec("seen", hf.BooleanCoder())

    def process(self, element: Any, seen: Any = hf.DoFn.StateParam(SEEN)) -> Any:
        if not seen.read():
            seen.write(True)
            yield element


class CountColumns(hf.BatchDoFn):
    """`Count` on columns."""

    def process_batch(self, batch: hf.Batch, seen: hf.ColumnState = hf.BatchDoFn.StateParam(Count.SEEN)) -> Any:
        before = seen.read(0)
        seen.write(before + batch.counts)
        yield {"key": batch.row_keys, "count": batch.spread(before) + batch.rank + 1}


class FirstColumns(hf.BatchDoFn):
    """`First` on columns."""

    def process_batch(self, batch: hf.Batch, seen: hf.ColumnState = hf.BatchDoFn.StateParam(First.SEEN)) -> Any:
        new = ~seen.known()
        seen.write(True, where=new)
        yield {"key": batch.keys[new], "value": batch.column()[batch.first[new]]}


def _keyed_rows(rows: int, keys: int) -> Callable[[np.random.Generator, int], pa.Table]:
    def draw(generator: np.random.Generator, number: int) -> pa.Table:
        return pa.table({"key": as_keys(generator.integers(0, keys, size=rows), "string"), "value": np.ones(rows)})

    return draw


def _native_count(rows: DataFrame) -> DataFrame:
    return rows.groupBy("key").count()


def _count(rows: DataFrame, key_groups: int = _MANY_KEY_GROUPS) -> DataFrame:
    return hf.keyed(rows, key="key", value="value").par_do(Count(), output="key string, count long", key_groups=key_groups)


def _count_few(rows: DataFrame) -> DataFrame:
    return _count(rows, _KEY_GROUPS)


def _count_columns(rows: DataFrame) -> DataFrame:
    stream = hf.keyed(rows, key="key", value="value")
    return stream.par_do(CountColumns(), output="key string, count long", key_groups=_KEY_GROUPS)


def _last_counts(results: pa.Table) -> Any:
    last = results.group_by("key").aggregate([("count", "max")])
    return dict(zip(last.column("key").to_pylist(), last.column("count_max").to_pylist(), strict=True))


def _native_first(rows: DataFrame) -> DataFrame:
    return rows.dropDuplicates(["key"])


def _first(rows: DataFrame) -> DataFrame:
    stream = hf.keyed(rows, key="key", value="value")
    return stream.par_do(First(), output="key string, value double", key_groups=_MANY_KEY_GROUPS)


def _first_columns(rows: DataFrame) -> DataFrame:
    stream = hf.keyed(rows, key="key", value="value")
    return stream.par_do(FirstColumns(), output="key string, value double", key_groups=_KEY_GROUPS)


# Windows


def _timed_rows(rows: int, keys: int, hours: float) -> Callable[[np.random.Generator, int], pa.Table]:
    """Each micro-batch covers so many hours, a little out of order."""
    length = int(hours * _HOUR)

    def draw(generator: np.random.Generator, number: int) -> pa.Table:
        start = _BEGIN + number * length
        times = np.sort(generator.integers(start, start + length, size=rows))
        times -= generator.integers(0, 30 * _SECOND, size=rows)
        return pa.table(
            {
                "key": as_keys(generator.integers(0, keys, size=rows), "string"),
                "at": pa.array(times, pa.timestamp("us", tz="UTC")),
                "value": generator.integers(1, 100, size=rows) / 4,
            }
        )

    return draw


def _native_windows(window: Callable[[], Any], result: Callable[[], Any]) -> Callable[[DataFrame], DataFrame]:
    def build(rows: DataFrame) -> DataFrame:
        return rows.withWatermark("at", _LATE).groupBy(window().alias("window"), "key").agg(result().alias("result"))

    return build


def _windows(window_fn: Any, combine: Callable[[], Any], output: str) -> Callable[[DataFrame], DataFrame]:
    def build(rows: DataFrame) -> DataFrame:
        stream = hf.keyed(rows, key="key", value="value", timestamp="at", watermark=_LATE)
        return stream.window_into(window_fn).combine_per_key(combine(), output=output, key_groups=_KEY_GROUPS)

    return build


def _by_window(results: pa.Table) -> Any:
    windows = results.column("window").combine_chunks()
    sides = [windows.field(side).cast(pa.int64()).to_pylist() for side in ("start", "end")]
    names = zip(results.column("key").to_pylist(), *sides, strict=True)
    return dict(zip(names, results.column("result").to_pylist(), strict=True))


# Joins


def _sided_rows(rows: int, keys: int, minutes: float) -> Callable[[np.random.Generator, int], pa.Table]:
    timed = _timed_rows(rows, keys, minutes / 60)

    def draw(generator: np.random.Generator, number: int) -> pa.Table:
        table = timed(generator, number)
        return table.append_column("is_left", pa.array(generator.random(rows) < 0.5))

    return draw


def _sides(rows: DataFrame) -> tuple[DataFrame, DataFrame]:
    left = rows.where("is_left").select("key", F.col("at").alias("left_at"), F.col("value").alias("left_value"))
    right = rows.where("not is_left").select("key", F.col("at").alias("right_at"), F.col("value").alias("right_value"))
    return left, right


def _native_join(rows: DataFrame) -> DataFrame:
    left, right = _sides(rows)
    left, right = left.withWatermark("left_at", _LATE), right.withWatermark("right_at", _LATE)
    near = F.expr("right_at between left_at - interval 1 minute and left_at + interval 1 minute")
    other = right.withColumnRenamed("key", "other")
    joined = left.join(other, (F.col("key") == F.col("other")) & near)
    return joined.select("key", "left_at", "right_at", "left_value", "right_value")


def _join(rows: DataFrame) -> DataFrame:
    left, right = _sides(rows)
    ones = hf.keyed(left, key="key", timestamp="left_at", watermark=_LATE)
    others = hf.keyed(right, key="key", timestamp="right_at", watermark=_LATE)
    joined: DataFrame = ones.join(others, within="1 minute", key_groups=_KEY_GROUPS)
    return joined


def _pairs(results: pa.Table) -> Any:
    columns = ["key", "left_at", "right_at", "left_value", "right_value"]
    return sorted(zip(*(results.column(name).to_pylist() for name in columns), strict=True))


# A rule with an ordered list and a timer


class Velocity(hf.DoFn):
    """Alerts when a key comes five times within three minutes; what is older is forgotten, by a timer too."""

    RECENT = hf.OrderedListStateSpec("recent", hf.FloatCoder())
    QUIET = hf.TimerSpec("quiet", hf.TimeDomain.WATERMARK)

    def process(
        self,
        element: Any,
        at: Any = hf.DoFn.TimestampParam,
        recent: Any = hf.DoFn.StateParam(RECENT),
        quiet: Any = hf.DoFn.TimerParam(QUIET),
    ) -> Any:
        key, value = element
        recent.clear_range(hf.MIN_TIMESTAMP, at - 180)
        recent.add((at, value))
        within = recent.read()
        if len(within) >= 5:
            yield key, len(within), sum(value for _, value in within)
            recent.clear()
        quiet.set(at + 180)

    @hf.on_timer(QUIET)
    def on_quiet(self, recent: Any = hf.DoFn.StateParam(RECENT)) -> None:
        recent.clear()


def _velocity(rows: DataFrame) -> DataFrame:
    stream = hf.keyed(rows, key="key", value="value", timestamp="at", watermark=_LATE)
    output = "key string, payments int, total double"
    return stream.par_do(Velocity(), output=output, key_groups=_KEY_GROUPS)


_COUNTED = "key string, value double"
_TIMED = "key string, at timestamp, value double"

WORKS = [
    Work("count", "running count, 500,000 rows", _COUNTED, _keyed_rows(500_000, 1_000_000), _native_count, _count,
         "update", 8, 3.0, _last_counts),
    Work("count-50k", "running count, 50,000 rows", _COUNTED, _keyed_rows(50_000, 1_000_000), _native_count, _count_few,
         "update", 16, 2.0, _last_counts),
    Work("first", "first occurrence, 500,000 rows", _COUNTED, _keyed_rows(500_000, 1_000_000), _native_first, _first,
         "append", 8, 3.0, lambda results: sorted(results.column("key").to_pylist())),
    Work("count-columns", "running count, 500,000 rows, as columns", _COUNTED, _keyed_rows(500_000, 1_000_000),
         _native_count, _count_columns, "update", 8, 3.0, _last_counts),
    Work("first-columns", "first occurrence, 500,000 rows, as columns", _COUNTED, _keyed_rows(500_000, 1_000_000),
         _native_first, _first_columns, "append", 8, 3.0, lambda results: sorted(results.column("key").to_pylist())),
    Work("sessions", "sessions of 5 minutes, count, 200,000 rows", _TIMED, _timed_rows(200_000, 20_000, 1.0),
         _native_windows(lambda: F.session_window("at", "5 minutes"), lambda: F.count("*")),
         _windows(hf.Sessions("5 minutes"), hf.Count, "result long"), "append", 8, 1.5, _by_window),
    Work("tumbling", "hourly sums, 500,000 rows", _TIMED, _timed_rows(500_000, 20_000, 3.0),
         _native_windows(lambda: F.window("at", "1 hour"), lambda: F.sum("value")),
         _windows(hf.FixedWindows("1 hour"), hf.Sum, "result double"), "append", 8, 1.5, _by_window),
    Work("sliding", "sums of an hour every 15 minutes, 500,000 rows", _TIMED, _timed_rows(500_000, 20_000, 3.0),
         _native_windows(lambda: F.window("at", "1 hour", "15 minutes"), lambda: F.sum("value")),
         _windows(hf.SlidingWindows("1 hour", "15 minutes"), hf.Sum, "result double"), "append", 6, 3.0, _by_window),
    Work("join", "join within a minute, 200,000 rows", "key string, at timestamp, value double, is_left boolean",
         _sided_rows(200_000, 20_000, 10.0), _native_join, _join, "append", 8, 1.5, _pairs),
    Work("small", "running count, 100 rows", _COUNTED, _keyed_rows(100, 10_000), _native_count, _count_few,
         "update", 60, 0.91, _last_counts),
    Work("velocity", "ordered list and timer, 200,000 rows", _TIMED, _timed_rows(200_000, 20_000, 1.0), None, _velocity,
         "append", 8, 0.0, lambda results: sorted(zip(*(results.column(n).to_pylist() for n in range(3)), strict=True))),
]  # fmt: skip
