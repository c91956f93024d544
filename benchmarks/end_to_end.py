"""From Kafka to Kafka: how many payments a second a running count for each card sustains, and how long one is on its way.

All contestants read JSON from the same topic of one broker on this machine and write JSON to a topic of their own:

* *holdfast*: a count for each card, durable and exactly once inside; the sink is at least once.
* *spark*: a stateless Spark job on the same trip: what Kafka, JSON and micro-batches cost without any state.
* *bytewax*: a `stateful_map`, one process, in memory; nothing survives a crash.
* *quix*: Quix Streams with its RocksDB state, without changelog topics.

Each runs alone, as a process of its own, beside the broker, the producer and the consumer, and is warmed up first. *On the
way*: payments come at a steady rate, and each carries the time at which it was sent; the first quarter of a rate is left
out. Who has not passed on all of a rate within a minute after its end has not kept up, and is asked for no more.
*Sustained*: many are sent at once; measured is the time between the first tenth and the end of what comes out. Rounds
alternate in their order, and each prints the load of the machine before it. A whole run takes about ten minutes, and
`--quick` about four; no contestant is started that would not be done within `--minutes`.

    python benchmarks/end_to_end.py [--quick] [--rounds 2] [--rates 100 1000 10000] [--only holdfast spark] [--json FILE]

Needs `confluent-kafka` (in the extra `dev`); `pip install bytewax quixstreams` for the last two.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from _processes import cpu_seconds_below
from _report import machine, print_table, save_json
from confluent_kafka import Consumer, Producer, TopicPartition

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from services.kafka import Broker, running_broker

PARTITIONS = 2
CARDS = 10_000
NEEDS = {"holdfast": "holdfast", "spark": "pyspark", "bytewax": "bytewax", "quix": "quixstreams"}
WARM_RATE = 200
SECONDS_MAX = 60
"""How long a contestant may take for what it still has, after all was sent."""
QUICK = {"payments": 100_000, "seconds": 5.0, "warm_seconds": 12.0, "rounds": 1}


class Payments:
    """Makes payments, the same for all contestants."""

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)
        self._number = 0

    def next(self) -> tuple[str, bytes]:
        card = f"card-{self._draw.randrange(CARDS)}"
        self._number += 1
        return card, json.dumps({"id": self._number, "card": card, "amount": 9.99, "sent": time.time()}).encode()


class Watcher:
    """Reads a topic to which a contestant writes: when each payment came out, and how long it had been on its way."""

    def __init__(self, broker: Broker, topic: str) -> None:
        self.arrived: list[tuple[float, float]] = []
        """When each arrived, and after how many seconds."""
        self._ends = threading.Event()
        self._consumer = Consumer(
            {"bootstrap.servers": broker.servers, "group.id": "watcher", "enable.auto.commit": False, "fetch.wait.max.ms": 5}
        )
        self._consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while not self._ends.is_set():
            for message in self._consumer.consume(2000, timeout=0.02):
                now = time.time()
                if message.error() is None:
                    self.arrived.append((now, now - json.loads(message.value())["sent"]))

    def until(self, count: int, seconds_max: float = SECONDS_MAX) -> None:
        deadline = time.monotonic() + seconds_max
        while len(self.arrived) < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{len(self.arrived)} of {count} payments came out in {seconds_max:.0f} s")
            time.sleep(0.02)

    def close(self) -> None:
        self._ends.set()
        self._thread.join()
        self._consumer.close()


@contextlib.contextmanager
def contestant(name: str, broker: Broker, source: str, target: str) -> Iterator[int]:
    """Runs a contestant; gives its process id."""
    with tempfile.TemporaryDirectory(prefix="holdfast-end-to-end-") as folder:
        script = Path(__file__).with_name("_end_to_end_contestants.py")
        with open(Path(folder) / "log", "wb") as log:
            process = subprocess.Popen(
                [sys.executable, str(script), name, broker.servers, source, target, folder],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                cwd=folder,
            )
        try:
            yield process.pid
        except TimeoutError as error:
            raise RuntimeError(f"{name}: {error}\n{(Path(folder) / 'log').read_text()[-3000:]}") from None
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()


def produce(broker: Broker, topic: str, payments: Payments, count: int, rate: float | None = None) -> None:
    """Sends so many payments, at a rate, or as fast as possible."""
    producer = Producer({"bootstrap.servers": broker.servers, "linger.ms": 5 if rate is None else 0})
    begin = time.monotonic()
    for number in range(count):
        if rate is not None:
            wait = begin + number / rate - time.monotonic()
            if wait > 0:
                producer.poll(0)
                time.sleep(wait)
        card, value = payments.next()
        while True:
            try:
                producer.produce(topic, value, card)
                break
            except BufferError:
                producer.poll(0.05)
        if number % 1000 == 0:
            producer.poll(0)
    producer.flush(60)


def measure(name: str, broker: Broker, options: argparse.Namespace) -> dict[str, Any]:
    """One life of a contestant: warmed up, then given each rate, then all at once what is left. What it could not keep up
    with is missing."""
    source, target = broker.new_topic(PARTITIONS), broker.new_topic(PARTITIONS)
    payments = Payments(options.seed)
    watcher = Watcher(broker, target)
    found: dict[str, Any] = {"load_before": os.getloadavg()[0], "on_the_way": {}}
    try:
        with contestant(name, broker, source, target) as pid:
            expected = int(WARM_RATE * options.warm_seconds)
            produce(broker, source, payments, expected, WARM_RATE)
            watcher.until(expected, 2 * SECONDS_MAX)
            for rate in sorted(options.rates):
                count = int(rate * options.seconds)
                before, begin = cpu_seconds_below(pid), time.time()
                produce(broker, source, payments, count, rate)
                expected += count
                try:
                    watcher.until(expected)
                except TimeoutError as error:
                    print(f"{name} does not keep up with {rate} payments/s: {error}")
                    return found
                late = [late for _, late in watcher.arrived[expected - count + count // 4 : expected]]
                cpu = (cpu_seconds_below(pid) - before) / (time.time() - begin)
                found["on_the_way"][str(rate)] = {**_percentiles(late), "cores": round(cpu, 3)}
            found |= sustained(pid, broker, source, payments, watcher, options.payments)
    finally:
        watcher.close()
    return found


def sustained(pid: int, broker: Broker, source: str, payments: Payments, watcher: Watcher, count: int) -> dict[str, float]:
    """How fast payments come out that are all there, but for the first tenth: those came while others were still sent."""
    seen = len(watcher.arrived)
    produce(broker, source, payments, count)
    watcher.until(seen + count // 10)
    before, begin, already = cpu_seconds_below(pid), time.time(), len(watcher.arrived)
    watcher.until(seen + count, 2 * SECONDS_MAX)
    done, cpu = seen + count - already, cpu_seconds_below(pid) - before
    end = watcher.arrived[seen + count - 1][0]
    return {"per_s": round(done / (end - begin)), "cpu_s_per_million": round(cpu / done * 1e6, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--payments", type=int, default=200_000, help="for the sustained rate")
    parser.add_argument("--rates", type=int, nargs="+", default=[100, 1000, 10_000])
    parser.add_argument("--seconds", type=float, default=8, help="for each rate")
    parser.add_argument("--warm-seconds", type=float, default=20)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="one short round; other options say more")
    parser.add_argument("--minutes", type=float, default=12, help="for all of it")
    parser.add_argument("--only", nargs="+", choices=list(NEEDS), default=list(NEEDS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    if parser.parse_known_args()[0].quick:
        parser.set_defaults(**QUICK)
    options = parser.parse_args()
    ends = time.monotonic() + 60 * options.minutes
    chosen = [name for name in options.only if importlib.util.find_spec(NEEDS[name]) is not None]
    for name in sorted(set(options.only) - set(chosen)):
        print(f"left out: {name} (pip install {NEEDS[name]})")
    rounds: dict[str, list[dict[str, Any]]] = {name: [] for name in chosen}
    with tempfile.TemporaryDirectory(prefix="holdfast-broker-") as folder, running_broker(Path(folder)) as broker:
        took: dict[str, float] = {}
        turns = [name for number in range(options.rounds) for name in (chosen if number % 2 == 0 else chosen[::-1])]
        for turn, name in enumerate(turns):
            begin = time.monotonic()
            if begin + took.get(name, 0) > ends:
                print(
                    f"left out: {len(turns) - turn} of {len(turns)}, since {options.minutes:g} minutes would not be enough"
                )
                break
            rounds[name].append(measure(name, broker, options))
            took[name] = time.monotonic() - begin
            print(f"round {turn // len(chosen)}  {name}  {took[name]:.0f} s  {rounds[name][-1]}", flush=True)
            if options.json:
                save_json(options.json, {"machine": machine(), "rounds": rounds})
    report(rounds, sorted(options.rates))


def report(rounds: dict[str, list[dict[str, Any]]], rates: list[int]) -> None:
    lines = []
    for name, found in rounds.items():
        line = [name, _spread([one.get("per_s") for one in found], 1)]
        line += [_spread([one.get("cpu_s_per_million") for one in found], 1)]
        for rate in rates:
            ways = [one["on_the_way"].get(str(rate), {}) for one in found]
            line += ["; ".join(_spread([way.get(which) for way in ways], 1e3) for which in ("p50_s", "p99_s"))]
        lines.append(line)
    print_table(["", "payments/s", "CPU s/M", *(f"{rate:,}/s: p50; p99 ms" for rate in rates)], lines)


def _spread(found: list[float | None], times: float) -> str:
    """The median, with the lowest and the highest if there are several; a dash if somebody did not get there."""
    if not found or None in found:
        return "-"
    values = [value for value in found if value is not None]
    middle, low, high = (round(value * times) for value in (statistics.median(values), min(values), max(values)))
    return f"{middle:,}" if low == high else f"{middle:,} ({low:,} to {high:,})"


def _percentiles(seconds: list[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    return {"p50_s": round(ordered[len(ordered) // 2], 4), "p99_s": round(ordered[int(len(ordered) * 0.99)], 4)}


if __name__ == "__main__":
    main()
