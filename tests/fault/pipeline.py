"""The pipeline under test: two steps and five sinks in one job.

Events are deduplicated by id, and limited to a few for each user and minute of event time. Written are the events without
repeats, those accepted, the newest large one of each user, the dead letters of both steps, and how many events each minute
had. A run can be held between any two sinks, until it is killed.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterator
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

import holdfast as hf

__all__ = ["pipeline_job"]

FORGET_SECONDS = 25
ACCEPTED_MAX = 2
LARGE_MIN = 500


class Dedup(hf.DoFn):
    """Lets the first event of an id pass; forgets the id after a while."""

    SEEN = hf.ValueStateSpec("seen", hf.VarIntCoder())
    FORGET = hf.TimerSpec("forget", hf.TimeDomain.WATERMARK)

    def process(
        self,
        element: tuple[str, Any],
        at: hf.Timestamp = hf.DoFn.TimestampParam,
        seen: Any = hf.DoFn.StateParam(SEEN),
        forget: Any = hf.DoFn.TimerParam(FORGET),
    ) -> Iterator[tuple[Any, ...]]:
        key, event = element
        if seen.read() is not None:
            return
        # Before it fails: what a call did until then must be undone.
        seen.write(1)
        forget.set(at + FORGET_SECONDS)
        if not event.amount.removeprefix("-").isdigit():
            raise ValueError(f"no amount: {event.amount}")
        yield key, event.user, int(event.amount), at

    @hf.on_timer(FORGET)
    def on_forget(self, seen: Any = hf.DoFn.StateParam(SEEN)) -> None:
        seen.clear()


class Limit(hf.DoFn):
    """Accepts a few events of a user for each minute of event time; refuses refunds."""

    COUNTS = hf.MapStateSpec("counts", hf.VarIntCoder(), hf.VarIntCoder())
    OVER = hf.TimerSpec("over", hf.TimeDomain.WATERMARK)

    def process(
        self,
        element: tuple[str, Any],
        at: hf.Timestamp = hf.DoFn.TimestampParam,
        counts: Any = hf.DoFn.StateParam(COUNTS),
        over: Any = hf.DoFn.TimerParam(OVER),
    ) -> Iterator[tuple[Any, ...]]:
        user, event = element
        minute = int(at) // 60
        n = counts.get(minute, 0) + 1
        counts.put(minute, n)
        over.set((minute + 1) * 60, dynamic_timer_tag=str(minute))
        if event.amount < 0:
            raise ValueError(f"a refund: {event.amount}")
        if n <= ACCEPTED_MAX:
            yield event.id, user, event.amount, minute, n

    @hf.on_timer(OVER)
    def on_over(
        self,
        user: str = hf.DoFn.KeyParam,
        tag: str = hf.DoFn.DynamicTimerTagParam,
        counts: Any = hf.DoFn.StateParam(COUNTS),
    ) -> Iterator[Any]:
        yield hf.TaggedOutput("minutes", (user, int(tag), counts.get(int(tag))))
        counts.remove(int(tag))


class Hold:
    """Stops for good when so many sinks have been written, after it has let that pass so many times."""

    def __init__(self, written: int | None, passes: int) -> None:
        self._written = written
        self._passes = passes

    def reached(self, written: int, batch: int) -> None:
        if written != self._written:
            return
        self._passes -= 1
        if self._passes < 0:
            print(f"held in micro-batch {batch} with {written} sinks written", flush=True)
            threading.Event().wait()


class Watched(hf.sinks.Sink):
    """A sink that says when it has been written."""

    def __init__(self, inner: hf.sinks.Sink, number: int, hold: Hold) -> None:
        self._inner = inner
        self._number = number
        self._hold = hold

    def upserting(self, upsert: hf.sinks.Upsert) -> Watched:
        return Watched(self._inner.upserting(upsert), self._number, self._hold)

    def open(self, spark: SparkSession, schema: StructType, query_id: str | None) -> None:
        self._inner.open(spark, schema, query_id)

    @property
    def place(self) -> Hashable:
        return self._inner.place

    def write_batch(self, rows: DataFrame, info: hf.sinks.BatchInfo) -> None:
        if self._number == 0:
            self._hold.reached(0, info.batch_id)
        self._inner.write_batch(rows, info)
        self._hold.reached(self._number + 1, info.batch_id)


def pipeline_job(
    spark: SparkSession, source: str, checkpoint: str, output: str, hold: Hold, *, delta: bool = False
) -> hf.Job:
    """The job over the files of a folder, one a micro-batch, that writes into another folder. With `delta`, the accepted
    events and the large ones are in Delta tables rather than in SQLite."""
    reader = spark.readStream.schema("id string, user string, amount string, at timestamp").option("maxFilesPerTrigger", 1)
    events = hf.keyed(reader.json(source), key="id", value=["user", "amount"], timestamp="at", watermark="10 seconds")
    deduplicated = events.par_do(
        Dedup(),
        outputs={"main": "id string, user string, amount long, at timestamp", "dead_letter": None},
        on_error="dead_letter",
        name="dedup",
        key_groups=4,
    )
    limited = hf.keyed(deduplicated.main, key="user", value=["id", "amount"], timestamp="at").par_do(
        Limit(),
        outputs={
            "main": "id string, user string, amount long, minute long, n long",
            "minutes": "user string, minute long, n long",
            "dead_letter": None,
        },
        on_error="dead_letter",
        name="limit",
        key_groups=4,
    )
    large = limited.main.where(F.col("amount") >= LARGE_MIN).select("user", "id", "amount")
    dead = _letters(deduplicated.dead_letter, "dedup").union(_letters(limited.dead_letter, "limit"))
    database = f"{output}/rows.sqlite"

    def table(name: str) -> hf.sinks.Sink:
        return hf.sinks.Delta(f"{output}/{name}") if delta else hf.sinks.Sqlite(database, name)

    job = hf.Job("pipeline", checkpoint=checkpoint, trigger="available now", progress=False)
    job.write(deduplicated.main, Watched(hf.sinks.Parquet(f"{output}/deduplicated"), 0, hold))
    job.write(limited.main, Watched(table("accepted"), 1, hold))
    job.write(large, Watched(table("large"), 2, hold), mode="upsert", key="user")
    job.write(dead, Watched(hf.sinks.Parquet(f"{output}/dead"), 3, hold))
    return job.write(limited["minutes"], Watched(hf.sinks.Sqlite(database, "minutes"), 4, hold))


def _letters(letters: DataFrame, step: str) -> DataFrame:
    amount = F.col("amount").cast("string").alias("amount")
    error = F.substring_index("error", "\n", 1).alias("error")
    return letters.select(F.lit(step).alias("step"), "id", "user", amount, error)
