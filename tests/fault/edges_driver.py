"""The job between Kafka and PostgreSQL, as a program: reads what is in a topic, some records a micro-batch, and ends.

Payments go through the velocity rule; alerts are appended, the last alert of each card is upserted, and records that cannot
be read are appended as dead letters. With `--alerts-topic`, alerts go to that topic first. It says `active` when its query
runs, and `done` when everything is in the tables.
The password of the database is in PGPASSWORD.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
import traceback

from driver import watch  # type: ignore[import-not-found]  # run as a script, from its own folder
from pipeline import Hold, Watched  # type: ignore[import-not-found]

import holdfast as hf

PAYMENTS = "id string not null, card string not null, amount double, at timestamp not null"
SPAN_SECONDS = 180
PAYMENTS_MIN = 5


class Velocity(hf.DoFn):
    """Gives each payment with which a card has paid five times or more within three minutes, and how many these are."""

    RECENT = hf.OrderedListStateSpec("recent", hf.StrUtf8Coder())
    QUIET = hf.TimerSpec("quiet", hf.TimeDomain.WATERMARK)

    def process(
        self,
        element,
        at=hf.DoFn.TimestampParam,
        recent=hf.DoFn.StateParam(RECENT),
        quiet=hf.DoFn.TimerParam(QUIET),
    ):
        card, payment = element
        recent.clear_range(hf.MIN_TIMESTAMP, at - SPAN_SECONDS)
        recent.add((at, payment.id))
        quiet.set(at + SPAN_SECONDS)
        count = len(recent.read())
        if count >= PAYMENTS_MIN:
            yield card, payment.id, count

    @hf.on_timer(QUIET)
    def forget(self, recent=hf.DoFn.StateParam(RECENT)):
        recent.clear()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("checkpoint", "servers", "topic", "conninfo", "schema", "jars"):
        parser.add_argument(f"--{name}", required=name != "jars")
    parser.add_argument("--alerts-topic")
    parser.add_argument(
        "--hold-written", type=int, help="wait to be killed when so many of topic and first table are written"
    )
    parser.add_argument("--hold-passes", type=int, default=0, help="how many times not to")
    parser.add_argument("--records-at-once", type=int, default=4000)
    parser.add_argument("--seconds-max", type=float, default=900)
    options = parser.parse_args()
    threading.Thread(target=watch, args=(options.seconds_max, os.getppid()), daemon=True).start()
    job = edges_job(options)
    job.start()
    print("active", flush=True)
    job.wait()
    print("done", flush=True)


def edges_job(options: argparse.Namespace) -> hf.Job:
    spark = hf.session("edges", cores=2, config={"spark.driver.memory": "1g"})
    source = hf.sources.Kafka(
        options.servers,
        options.topic,
        value=hf.sources.Json(PAYMENTS),
        start="earliest",
        max_per_trigger=options.records_at_once,
        on_malformed="dead_letter",
    )
    payments = source.read(spark)
    keyed = hf.keyed(payments.main, key="card", value=["id"], timestamp="at", watermark="10 minutes")
    alerts = keyed.par_do(Velocity(), output="card string, id string, n int", key_groups=4)

    def sink(table: str) -> hf.sinks.Sink:
        return hf.sinks.Postgres(options.conninfo, table, schema=options.schema)

    job = hf.Job("edges", checkpoint=options.checkpoint, trigger="available now", progress=False)
    hold = Hold(options.hold_written, options.hold_passes)
    if options.alerts_topic is not None:
        job.write(alerts, Watched(hf.sinks.Kafka(options.servers, options.alerts_topic, key="card"), 0, hold))
    job.write(alerts, Watched(sink("alerts"), 1, hold))
    job.write(alerts, sink("last_alerts"), mode="upsert", key="card")
    return job.write(payments.dead_letter.select("value", "reason"), sink("letters"))


if __name__ == "__main__":
    try:
        main()
    except Exception:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
