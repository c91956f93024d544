"""The demo's job: payments from files through two rules into a SQLite table, exactly once.

python examples/fraud_job.py INPUT CHECKPOINT SINK
"""

from __future__ import annotations

import sys

from payments import SCHEMA, WATERMARK_SECONDS
from travel import ImpossibleTravel
from velocity import Velocity

import holdfast as hf

ALERT = "card string, rule string, at timestamp, what string"


def main(source: str, checkpoint: str, sink: str) -> None:
    spark = hf.session("fraud")
    payments = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(source)
    stream = hf.keyed(payments, key="card", timestamp="paid_at", watermark=f"{WATERMARK_SECONDS} seconds")
    # Both rules look back from a payment, so they must see payments in order of time, even when many come at once.
    alerts = stream.par_do(Velocity(), output=ALERT, key_groups=8, requires_time_sorted_input=True).unionByName(
        stream.par_do(ImpossibleTravel(), output=ALERT, key_groups=8, requires_time_sorted_input=True)
    )
    with hf.Job("fraud", checkpoint=checkpoint, trigger="available now") as job:
        job.write(alerts, hf.sinks.Sqlite(sink, "alerts"))
        job.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
