"""The demo's job: one source, two rules over it, a table for alerts and one for dead letters; one query, exactly once.

python examples/fraud_job.py INPUT CHECKPOINT SINK
"""

from __future__ import annotations

import sys
from typing import Any

from payments import SCHEMA, WATERMARK_SECONDS
from travel import ImpossibleTravel
from velocity import Velocity

import holdfast as hf

OUTPUTS = {"main": "card string, rule string, at timestamp, what string", "dead_letter": None}


def main(source: str, checkpoint: str, sink: str) -> None:
    spark = hf.session("fraud")
    payments = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(source)
    stream = hf.keyed(payments, key="card", timestamp="paid_at", watermark=f"{WATERMARK_SECONDS} seconds")
    velocity = checked(stream, Velocity(), "velocity")
    travel = checked(stream, ImpossibleTravel(), "travel")
    alerts = velocity.main.union(travel.main)
    dead_letters = refused(velocity, "velocity").union(refused(travel, "travel"))
    with hf.Job("fraud", checkpoint=checkpoint, trigger="available now") as job:
        job.write(alerts, hf.sinks.Sqlite(sink, "alerts"))
        job.write(dead_letters, hf.sinks.Sqlite(sink, "dead_letters"))
        job.run()


def checked(stream: Any, rule: hf.DoFn, name: str) -> Any:
    """A rule as a step. Both look back from a payment, so they must see payments in order of time, even when many come at
    once. A payment that a rule refuses is a dead letter of that rule; the other may well take it."""
    return stream.par_do(
        rule, name=name, outputs=OUTPUTS, on_error="dead_letter", key_groups=4, requires_time_sorted_input=True
    )


def refused(outputs: Any, rule: str) -> Any:
    return outputs.dead_letter.selectExpr("payment", "card", f"'{rule}' AS rule", "timestamp AS at", "error")


if __name__ == "__main__":
    main(*sys.argv[1:])
