"""A job with everything that state can be: all kinds of cells, windows, timers in event time, a time to live, two steps."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F

import holdfast as hf

SCHEMA = "card string, amount long, at timestamp"


class Everything(hf.DoFn):
    """Keeps one of each, and tells what it has."""

    COUNT = hf.ValueStateSpec("count", hf.VarIntCoder(), doc="How many payments.")
    AMOUNTS = hf.BagStateSpec("amounts")
    KINDS = hf.SetStateSpec("kinds")
    BY_KIND = hf.MapStateSpec("by_kind", hf.StrUtf8Coder(), hf.VarIntCoder(), ttl=hf.Ttl("1 day", time="event"))
    TIMES = hf.OrderedListStateSpec("times")
    TOTAL = hf.CombiningValueStateSpec("total", sum)
    SECRET = hf.ValueStateSpec("secret", hf.PickleCoder())
    DUE = hf.TimerSpec("due", hf.TimeDomain.WATERMARK, doc="When the card was quiet for a while.")

    def process(
        self,
        element,
        at=hf.DoFn.TimestampParam,
        count=hf.DoFn.StateParam(COUNT),
        amounts=hf.DoFn.StateParam(AMOUNTS),
        kinds=hf.DoFn.StateParam(KINDS),
        by_kind=hf.DoFn.StateParam(BY_KIND),
        times=hf.DoFn.StateParam(TIMES),
        total=hf.DoFn.StateParam(TOTAL),
        secret=hf.DoFn.StateParam(SECRET),
        due=hf.DoFn.TimerParam(DUE),
    ):
        card, amount = element
        number = (count.read() or 0) + 1
        count.write(number)
        amounts.add(amount)
        kind = f"kind {amount % 3}"
        kinds.add(kind)
        by_kind.put(kind, (by_kind.get(kind) or 0) + 1)
        times.add((at, amount))
        total.add(amount)
        secret.write(frozenset({amount}))
        due.set(at + 300)
        yield card, number, total.read(), at

    @hf.on_timer(DUE)
    def overdue(self, key=hf.DoFn.KeyParam, at=hf.DoFn.TimestampParam, amounts=hf.DoFn.StateParam(AMOUNTS)):
        yield key, -1, sum(amounts.read()), at


class Running(hf.DoFn):
    """The second step: a total over everything that the first one says."""

    TOTAL = hf.CombiningValueStateSpec("total", sum)

    def process(self, element, total=hf.DoFn.StateParam(TOTAL)):
        card, amount = element
        total.add(amount)
        yield card, total.read()


def rows_of_batch(batch: int, keys: int = 12, rows: int = 40) -> list[tuple[str, int, int]]:
    """What file number `batch` has: card, amount, seconds."""
    return [(f"card {(batch * 7 + i * 5) % keys}", (batch * 31 + i * 17) % 101, batch * 200 + i * 4) for i in range(rows)]


class Payments:
    """A directory with the input of the job, its checkpoint and its results."""

    def __init__(self, spark, folder: Path):
        self.spark = spark
        self.folder = folder
        self.input = folder / "input"
        self.checkpoint = str(folder / "checkpoint")
        self.input.mkdir(parents=True, exist_ok=True)

    def add(self, *batches: int) -> None:
        """Adds files; each is one micro-batch."""
        for batch in batches:
            cards, amounts, seconds = zip(*rows_of_batch(batch), strict=True)
            times = pa.array([s * 1_000_000 for s in seconds], pa.timestamp("us", tz="UTC"))
            table = pa.table({"card": list(cards), "amount": pa.array(amounts, pa.int64()), "at": times})
            pq.write_table(table, self.input / f".{batch:05d}")
            # Spark takes files in the order of their times.
            os.utime(self.input / f".{batch:05d}", (1_700_000_000 + batch,) * 2)
            (self.input / f".{batch:05d}").rename(self.input / f"{batch:05d}.parquet")

    def frame(self, key_groups=8, backend="heap"):
        stream = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(self.input))
        keyed = hf.keyed(stream, key="card", value="amount", timestamp="at", watermark="10 seconds")
        first = keyed.window_into(hf.FixedWindows(600), allowed_lateness=60).par_do(
            Everything(),
            "card string, number long, total long, at timestamp",
            name="everything",
            key_groups=key_groups,
            backend=backend,
        )
        second = hf.keyed(first.where(F.col("number") > 0), key="card", value="number", timestamp="at")
        return second.par_do(Running(), "card string, total long", name="running", key_groups=key_groups, backend=backend)

    def job(self, sink, checkpoint=None, **options):
        job = hf.Job("payments", checkpoint=checkpoint or self.checkpoint, trigger="available now", progress=False)
        return job.write(self.frame(**options), sink)

    def run(self, checkpoint=None, **options) -> list[tuple]:
        """Runs the job over what is there; gives the rows that it wrote."""
        sink = hf.sinks.Collect()
        self.job(sink, checkpoint, **options).run()
        return sorted(tuple(row) for row in sink.rows)
