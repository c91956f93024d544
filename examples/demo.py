"""Holdfast in a minute: payments with planted fraud stream through two rules on Spark, into an exactly-once sink.

Half way through, the job is killed with `kill -9` and started again. At the end the alerts are compared with what was
planted, and with what the same rules give in plain Python, without Holdfast or Spark.
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import defaultdict, deque
from contextlib import closing
from datetime import datetime
from pathlib import Path

from payments import WATERMARK_SECONDS, Payment, Planted, generate, write_files
from travel import DISTANCE_KM_MIN, SPEED_KMH_MAX, distance_km
from velocity import PAYMENTS_MAX, SPAN_SECONDS

FILES = 16
Alert = tuple[str, str, str]
"""Card, rule, time."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--payments", type=int, default=60_000)
    parser.add_argument("--folder", type=Path, help="where to keep its files; a new folder for temporary files by default")
    options = parser.parse_args()
    folder = new_folder(options.folder)
    print(f"everything is kept in {folder}", flush=True)
    payments, planted = generate(options.seed, cards=options.payments // 8, payments=options.payments, hours=12, fraud=12)
    write_files(payments, folder / "input", FILES)
    print(f"{len(payments):,} payments in {FILES} files (seed {options.seed}), fraud planted on {2 * 12} cards", flush=True)

    start = time.monotonic()
    killed_at = run_and_kill(folder)
    print(f"\n*** kill -9 after {killed_at} of {FILES} micro-batches: driver, JVM and workers are gone ***")
    print("*** started again on the same checkpoint ***\n", flush=True)
    finished = start_job(folder).wait()
    seconds = time.monotonic() - start
    if finished != 0:
        print(f"The job ended with {finished}.", file=sys.stderr)
        return 1
    return report(folder, payments, planted, seconds)


def new_folder(given: Path | None) -> Path:
    """A folder that is new and nobody else's, or the given one, if it is empty. Nothing is ever removed."""
    if given is None:
        return Path(tempfile.mkdtemp(prefix="holdfast-demo-")).resolve()
    folder = given.resolve()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise SystemExit(f"There is something in {folder} already: give a folder that is new or empty.")
    return folder


def start_job(folder: Path) -> subprocess.Popen[bytes]:
    """The job as a process group of its own, so that a kill takes its JVM and its workers along."""
    job = Path(__file__).with_name("fraud_job.py")
    paths = [str(folder / name) for name in ("input", "checkpoint", "alerts.db")]
    return subprocess.Popen([sys.executable, str(job), *paths], start_new_session=True)


def run_and_kill(folder: Path) -> int:
    """Runs the job until half of its micro-batches are in the sink, and kills it in the middle of the next."""
    process = start_job(folder)
    while batches(folder) < FILES // 2:
        if process.poll() is not None:
            raise SystemExit(f"The job ended by itself, with {process.returncode}, before it could be killed.")
        time.sleep(0.02)
    time.sleep(0.15)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return batches(folder)


def batches(folder: Path) -> int:
    """How many micro-batches the sink has."""
    database = folder / "alerts.db"
    if not database.exists():
        return 0
    with closing(sqlite3.connect(database, timeout=60)) as connection:
        try:
            return int(connection.execute("SELECT count(*) FROM holdfast_batches").fetchone()[0])
        except sqlite3.OperationalError:
            return 0


def report(folder: Path, payments: list[Payment], planted: Planted, seconds: float) -> int:
    with closing(sqlite3.connect(folder / "alerts.db")) as connection:
        rows = connection.execute("SELECT card, rule, at, what FROM alerts ORDER BY at, card").fetchall()
    print("alerts:")
    for card, rule, at, what in rows:
        planted_here = card in (planted.velocity if rule == "velocity" else planted.travel)
        print(f"  {at[11:19]}  {card}  {rule:<8}  {what:<40}  {'planted' if planted_here else 'not planted'}")
    for rule, cards in (("velocity", planted.velocity), ("travel", planted.travel)):
        found = {row[0] for row in rows if row[1] == rule}
        precision = len(found & cards) / len(found) if found else 0.0
        print(f"{rule}: precision {precision:.2f}, recall {len(found & cards) / len(cards):.2f}")
    got = sorted((card, rule, at[:19]) for card, rule, at, _ in rows)
    wanted = sorted(by_hand(payments))
    lost, doubled = len(set(wanted) - set(got)), len(got) - len(set(got))
    invented = len(set(got) - set(wanted))
    print(f"against the rules worked out by hand: {lost} alerts lost, {doubled} doubled, {invented} invented")
    print(f"{len(payments):,} payments in {seconds:.0f} s, two starts of Spark and one kill included")
    print(f"checkpoint: {folder / 'checkpoint'}\nalerts:     {folder / 'alerts.db'}")
    tool = shlex.join([str(Path(sys.executable).with_name("holdfast")), "state", "ls", str(folder / "checkpoint")])
    print(f"look inside: {tool}\nremove all:  {shlex.join(['rm', '-r', str(folder)])}")
    print("to keep it for longer than temporary files are kept: examples/demo.py --folder DIRECTORY")
    return 0 if got == wanted else 1


def by_hand(payments: list[Payment]) -> list[Alert]:
    """Both rules in plain Python. The last seconds are left out: the job still waits for earlier payments there."""
    end = datetime.fromisoformat(payments[-1].paid_at).timestamp() - WATERMARK_SECONDS
    alerts: list[Alert] = []
    recent: dict[str, deque[float]] = defaultdict(deque)
    last: dict[str, tuple[float, Payment]] = {}
    for payment in payments:
        at = datetime.fromisoformat(payment.paid_at).timestamp()
        if at > end:
            break
        times = recent[payment.card]
        times.append(at)
        while times[0] < at - SPAN_SECONDS:
            times.popleft()
        if len(times) == PAYMENTS_MAX:
            alerts.append((payment.card, "velocity", payment.paid_at[:19]))
            times.clear()
        if payment.card in last:
            before, place = last[payment.card]
            kilometres = distance_km(place.lat, place.lon, payment.lat, payment.lon)
            hours = max((at - before) / 3600, 1e-6)
            if kilometres > DISTANCE_KM_MIN and kilometres / hours > SPEED_KMH_MAX:
                alerts.append((payment.card, "travel", payment.paid_at[:19]))
        last[payment.card] = (at, payment)
    return alerts


if __name__ == "__main__":
    sys.exit(main())
