"""A job in which two steps share a stateful operator, and a third is given the outputs of one of them."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F

import holdfast as hf

SCHEMA = "room string, value long, at timestamp"

KEY_GROUPS = {"alarms": 4, "levels": 3, "rooms": 2}
"""By step. `alarms` and `levels` share an operator; `rooms` is given what `alarms` says."""


class Alarms(hf.DoFn):
    """Says how many values there were, and, some time after the last one, what they were."""

    VALUES = hf.BagStateSpec("values", hf.VarIntCoder())
    QUIET = hf.TimerSpec("quiet", hf.TimeDomain.WATERMARK)

    def process(
        self,
        element,
        at=hf.DoFn.TimestampParam,
        values=hf.DoFn.StateParam(VALUES),
        quiet=hf.DoFn.TimerParam(QUIET),
    ):
        room, value = element
        values.add(value)
        quiet.set(at + 20)
        yield room, len(list(values.read())), at

    @hf.on_timer(QUIET)
    def tell(self, key=hf.DoFn.KeyParam, at=hf.DoFn.TimestampParam, values=hf.DoFn.StateParam(VALUES)):
        yield key, -sum(values.read()), at
        values.clear()


class Levels(hf.DoFn):
    """Counts the rooms of each level. It has no timers, unlike the step that it shares an operator with."""

    SEEN = hf.SetStateSpec("seen", hf.StrUtf8Coder())
    COUNT = hf.ValueStateSpec("count", hf.VarIntCoder())

    def process(self, element, seen=hf.DoFn.StateParam(SEEN), count=hf.DoFn.StateParam(COUNT)):
        level, room = element
        seen.add(room)
        count.write((count.read() or 0) + 1)
        yield level, count.read(), len(list(seen.read()))


class Rooms(hf.DoFn):
    TOTAL = hf.CombiningValueStateSpec("total", sum)

    def process(self, element, total=hf.DoFn.StateParam(TOTAL)):
        room, number = element
        total.add(number)
        yield room, total.read()


class Readings:
    """A directory with input, and jobs over it. Each file is one micro-batch."""

    def __init__(self, spark, folder: Path):
        self.spark = spark
        self.folder = folder
        self.input = folder / "input"
        self.input.mkdir(parents=True, exist_ok=True)

    def add(self, *batches: int) -> None:
        """Adds files. Each has some rooms that the next has not, whose timers then fire."""
        for batch in batches:
            rows = [(f"room {batch * 3 + i % 6}", (batch * 31 + i * 17) % 101, batch * 50 + i * 2) for i in range(20)]
            rooms, values, seconds = zip(*rows, strict=True)
            times = pa.array([second * 1_000_000 for second in seconds], pa.timestamp("us", tz="UTC"))
            file = self.input / f"{batch:05d}.parquet"
            pq.write_table(pa.table({"room": rooms, "value": pa.array(values, pa.int64()), "at": times}), file)
            # Spark takes files in the order of their times.
            os.utime(file, (1_700_000_000 + batch,) * 2)

    def steps(self, key_groups: int | None = None):
        """The outputs of all steps, by name."""
        groups = {name: key_groups or count for name, count in KEY_GROUPS.items()}
        stream = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(self.input))
        timed = hf.keyed(stream, key="room", value="value", timestamp="at", watermark="10 seconds")
        alarms = timed.par_do(Alarms(), "room string, number long, at timestamp", name="alarms", key_groups=groups["alarms"])
        levels = hf.keyed(stream.withColumn("level", F.col("value") % 7), key="level", value="room").par_do(
            Levels(), "level long, count long, rooms long", name="levels", key_groups=groups["levels"]
        )
        rooms = hf.keyed(alarms.where("number > 1"), key="room", value="number", timestamp="at").par_do(
            Rooms(), "room string, total long", name="rooms", key_groups=groups["rooms"]
        )
        return {"alarms": alarms, "levels": levels, "rooms": rooms}

    def run(self, checkpoint, *names: str, key_groups: int | None = None) -> dict[str, list[tuple]]:
        """Runs a job that writes these steps, or all, over what is there; gives their rows."""
        outputs = self.steps(key_groups)
        sinks = {name: hf.sinks.Collect() for name in names or outputs}
        job = hf.Job("readings", checkpoint=str(checkpoint), trigger="available now", progress=False)
        for name, sink in sinks.items():
            job.write(outputs[name], sink)
        job.run()
        return {name: sorted(map(tuple, sink.rows)) for name, sink in sinks.items()}
