"""Payments from Kafka, the velocity rule, alerts and dead letters in PostgreSQL. See README.md.

    python job.py [--once]

Where Kafka and PostgreSQL are stands in `run/settings.json`, which `start_services.py` writes; the password of the database
in a file of its own. For services of yours, change `main`.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import holdfast as hf
from holdfast.demo.velocity import Velocity

RUN = Path(__file__).with_name("run")
PAYMENTS = "card string not null, amount double, paid_at timestamp not null"
ALERTS = "card string, rule string, at timestamp, detail string"


def job_of(servers: str, topic: str, conninfo: str, password_file: Path, checkpoint: Path, *, once: bool) -> hf.Job:
    """The job: one query, three tables."""
    spark = hf.session("kafka to postgres")
    source = hf.sources.Kafka(
        servers,
        topic,
        value=hf.sources.Json(PAYMENTS),
        start="earliest",
        on_malformed="dead_letter",
    ).read(spark)
    payments = hf.keyed(source.main, key="card", value=["amount"], timestamp="paid_at", watermark="10 seconds")
    found = payments.par_do(
        Velocity(),
        name="velocity",
        output=ALERTS,
        outputs={"dead_letter": None},
        on_error="dead_letter",
        requires_time_sorted_input=True,
    )

    def table(name: str) -> hf.sinks.Sink:
        return hf.sinks.Postgres(conninfo, name, password_file=str(password_file))

    job = hf.Job("kafka to postgres", checkpoint=str(checkpoint), trigger="available now" if once else "1 second")
    job.write(found.main, table("alerts"))
    job.write(found.main, table("newest_alerts"), mode="upsert", key="card")
    job.write(source.dead_letter, table("unreadable"))
    return job.write(found.dead_letter, table("refused"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--once", action="store_true", help="end when everything that is in the topic now is done")
    options = parser.parse_args()
    try:
        settings = json.loads((RUN / "settings.json").read_text())
    except FileNotFoundError:
        sys.exit(f"{RUN / 'settings.json'} is missing: start start_services.py first, in another terminal.")
    password_file = RUN / "password"
    places = settings["servers"], settings["topic"], settings["conninfo"]
    job_of(*places, password_file, RUN / "checkpoint", once=options.once).run()
    show(settings["conninfo"], password_file)


def show(conninfo: str, password_file: Path) -> None:
    """Prints how many rows each table has, and the newest alerts."""
    import psycopg

    with psycopg.connect(conninfo, password=password_file.read_text()) as database:
        for table in ("alerts", "newest_alerts", "unreadable", "refused"):
            [[count]] = database.execute(f"SELECT count(*) FROM {table}").fetchall()
            print(f"{table}: {count} rows")
        for card, at, detail in database.execute("SELECT card, at, detail FROM newest_alerts ORDER BY at DESC LIMIT 5"):
            print(f"  {card}  {at:%H:%M:%S}  {detail}")


if __name__ == "__main__":
    main()
