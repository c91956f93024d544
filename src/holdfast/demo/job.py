"""The demo's job: one source, two rules over it, a table for alerts and one for dead letters; one query, exactly once.

python -m holdfast.demo.job INPUT CHECKPOINT DATABASE [--live]

It reads all files that are there, one in each micro-batch, and ends. With --live it goes on until it is told to stop, and
takes a micro-batch a second.
"""

from __future__ import annotations

import sys

from pyspark.sql import DataFrame

import holdfast as hf
from holdfast.demo.payments import SCHEMA, WATERMARK_SECONDS
from holdfast.demo.travel import ImpossibleTravel
from holdfast.demo.velocity import Velocity

__all__ = ["main"]

OUTPUTS = {"main": "card string, rule string, at timestamp, what string", "dead_letter": None}


def main(source: str, checkpoint: str, database: str, *, live: bool = False) -> None:
    spark = hf.session("fraud")
    files = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 100 if live else 1)
    stream = hf.keyed(files.json(source), key="card", timestamp="paid_at", watermark=f"{WATERMARK_SECONDS} seconds")
    velocity = checked(stream, Velocity(), "velocity")
    travel = checked(stream, ImpossibleTravel(), "travel")
    alerts = velocity.main.union(travel.main)
    dead_letters = refused(velocity, "velocity").union(refused(travel, "travel"))
    with hf.Job("fraud", checkpoint=checkpoint, trigger="1 second" if live else "available now") as job:
        job.write(alerts, hf.sinks.Sqlite(database, "alerts"))
        job.write(dead_letters, hf.sinks.Sqlite(database, "dead_letters"))
        job.run()


def checked(stream: hf.KeyedStream, rule: hf.DoFn, name: str) -> hf.Outputs:
    """A rule as a step. Both look back from a payment, so they must see payments in order of time, even when many come at
    once. A payment that a rule refuses is a dead letter of that rule; the other may well take it."""
    return stream.par_do(
        rule, name=name, outputs=OUTPUTS, on_error="dead_letter", key_groups=4, requires_time_sorted_input=True
    )


def refused(outputs: hf.Outputs, rule: str) -> DataFrame:
    return outputs.dead_letter.selectExpr("payment", "card", f"'{rule}' AS rule", "timestamp AS at", "error")


if __name__ == "__main__":
    main(*sys.argv[1:4], live=sys.argv[4:] == ["--live"])
