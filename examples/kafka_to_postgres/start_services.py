"""A Kafka broker and PostgreSQL on loopback, and somebody who pays by card, until Ctrl-C. See README.md.

    python start_services.py [--payments 200] [--seconds 60]

The services are those of the project's tests. Everything they keep is in `run/`, and gone with them.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import shutil
import signal
import sys
import threading
import time
from datetime import datetime, timezone
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
from holdfast import ops
from services.kafka import Broker, running_broker
from services.postgres import running_postgres

RUN = Path(__file__).with_name("run")
HISTORY_SECONDS = 240
"""So long somebody has been paying when the services begin, so that there is something to see."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--payments", type=int, default=200, help="a second")
    parser.add_argument("--seconds", type=float, help="how long; without it, until Ctrl-C")
    options = parser.parse_args()
    if RUN.exists():
        sys.exit(f"{RUN} exists: are the services running? If not, remove it.")
    print("Fetching the jars of Spark's Kafka connector, if they are missing ...", flush=True)
    ops.jars("kafka")
    RUN.mkdir(mode=0o700)
    try:
        with contextlib.suppress(KeyboardInterrupt):
            _serve(options.payments, options.seconds)
    finally:
        shutil.rmtree(RUN)


def _serve(per_second: int, seconds: float | None) -> None:
    broker_folder = RUN / "broker"
    broker_folder.mkdir()
    with running_broker(broker_folder) as broker, running_postgres() as server:
        topic = broker.new_topic(partitions=2)
        (RUN / "password").touch(mode=0o600)
        (RUN / "password").write_text(server.password)
        settings = {"servers": broker.servers, "topic": topic, "conninfo": server.conninfo}
        (RUN / "settings.json").write_text(json.dumps(settings))
        print(f"Kafka: {broker.servers}, topic {topic}. PostgreSQL: {server.conninfo}.", flush=True)
        print(f"{per_second} payments a second; Ctrl-C ends it. Now start job.py in another terminal.", flush=True)
        _pay(broker, topic, per_second, seconds)


def _pay(broker: Broker, topic: str, per_second: int, seconds: float | None) -> None:
    draw = random.Random(1)
    now = time.time()
    broker.put_all(
        topic, [_payment(draw, now - HISTORY_SECONDS + n / per_second) for n in range(HISTORY_SECONDS * per_second)]
    )
    # From here on Ctrl-C lets what is being sent arrive: a client that outlives its broker complains.
    stop = threading.Event()
    signal.signal(signal.SIGINT, lambda *_: stop.set())
    (RUN / "ready").touch()
    end = None if seconds is None else time.monotonic() + seconds
    while not stop.is_set() and (end is None or time.monotonic() < end):
        broker.put_all(topic, [_payment(draw, time.time()) for _ in range(per_second)])
        stop.wait(1)


def _payment(draw: random.Random, at: float) -> tuple[str, bytes]:
    """A record. One in a thousand cannot be read, one in a thousand is refused by the rule; some cards pay often."""
    card = f"card-{draw.randrange(20 if draw.random() < 0.02 else 20_000)}"
    kind = draw.random()
    if kind < 0.001:
        return card, b'{"card": "' + card.encode()
    amount = -1.0 if kind < 0.002 else draw.randrange(100, 50_000) / 100
    paid_at = datetime.fromtimestamp(at, timezone.utc).isoformat()
    return card, json.dumps({"card": card, "amount": amount, "paid_at": paid_at}).encode()


if __name__ == "__main__":
    main()
