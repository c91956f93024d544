"""Holdfast in a minute: payments with planted fraud stream through two rules in one job on Spark, into exactly-once sinks.

Half way through, the job is killed with `kill -9` and started again. At the end its alerts and dead letters are compared
with what was planted, and with what the same rules give in plain Python, without Holdfast or Spark.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from payments import WATERMARK_SECONDS, Payment, Planted, generate, write_files
from travel import DISTANCE_KM_MIN, SPEED_KMH_MAX, distance_km, is_on_earth
from velocity import PAYMENTS_MAX, SPAN_SECONDS

FILES = 16
HOURS = 12
FRAUD = 12
"""On how many cards, for each rule."""
SHOWN = 5
"""How many rows of each table are shown."""
TABLES = ("alerts", "dead_letters")
RULES = ("velocity", "travel")
Finding = tuple[str, str | int, str]
"""Rule, card of an alert or number of a refused payment, time to the second."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--payments", type=int, default=60_000)
    parser.add_argument("--folder", type=Path, help="where to keep its files; a new folder for temporary files by default")
    parser.add_argument(
        "--serve",
        action=argparse.BooleanOptionalAction,
        help="show the job in a dashboard at the end; by default if this is a terminal",
    )
    options = parser.parse_args()
    folder = new_folder(options.folder)
    cards = options.payments // 8
    payments, planted = generate(options.seed, cards=cards, payments=options.payments, hours=HOURS, fraud=FRAUD)
    write_files(payments, folder / "input", FILES)
    malformed = len(frozenset().union(*planted.malformed.values()))
    print(f"{len(payments):,} payments in {FILES} files; fraud on {2 * FRAUD} cards, {malformed} malformed payments")
    print("one job: one source, two rules, a table of alerts and one of dead letters\n", flush=True)

    start = time.monotonic()
    run(folder, "first run", until=FILES // 2)
    run(folder, "second run")
    seconds = time.monotonic() - start
    code = report(folder, payments, planted, seconds)
    if options.serve if options.serve is not None else sys.stdout.isatty():
        serve(folder)
    return code


def new_folder(given: Path | None) -> Path:
    """A folder that is new and nobody else's, or the given one, if it is empty. Nothing is ever removed."""
    if given is None:
        return Path(tempfile.mkdtemp(prefix="holdfast-demo-")).resolve()
    folder = given.resolve()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise SystemExit(f"There is something in {folder} already: give a folder that is new or empty.")
    return folder


# Running the job


def run(folder: Path, name: str, until: int | None = None) -> None:
    """Runs the job to its end; or until so many files are in the sinks, and kills it in the middle of the next."""
    with (folder / "job.log").open("ab") as log:
        process = start_job(folder, log.fileno())
    show(name, files_done(folder), "starting Spark")
    while process.poll() is None:
        done = files_done(folder)
        if until is not None and done >= until:
            time.sleep(0.15)
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            show(name, files_done(folder), "kill -9: driver, JVM and workers are gone", final=True)
            return
        if done:
            show(name, done)
        time.sleep(0.05)
    if process.returncode != 0 or until is not None:
        log_end = "\n".join((folder / "job.log").read_text(errors="replace").splitlines()[-30:])
        raise SystemExit(f"\n{log_end}\n\nThe job ended by itself, with {process.returncode}. See {folder / 'job.log'}.")
    show(name, files_done(folder), "to the end, from the same checkpoint", final=True)


def start_job(folder: Path, log: int) -> subprocess.Popen[bytes]:
    """The job as a process group of its own, so that a kill takes its JVM and its workers along."""
    job = Path(__file__).with_name("fraud_job.py")
    paths = [str(folder / name) for name in ("input", "checkpoint", "found.db")]
    return subprocess.Popen([sys.executable, str(job), *paths], start_new_session=True, stderr=log)


def files_done(folder: Path) -> int:
    """How many files are in both sinks; each is a micro-batch. A last one may follow that has no file."""
    database = folder / "found.db"
    if not database.exists():
        return 0
    query = "SELECT count(*) FROM (SELECT batch_id FROM holdfast_batches GROUP BY batch_id HAVING count(*) = ?)"
    with closing(sqlite3.connect(database, timeout=60)) as connection:
        try:
            return min(FILES, int(connection.execute(query, (len(TABLES),)).fetchone()[0]))
        except sqlite3.OperationalError:
            return 0


def show(name: str, done: int, what: str = "", *, final: bool = False) -> None:
    """A line of progress, which is updated in place on a terminal; elsewhere there is only the last one."""
    line = f"{name:<10}  [{'#' * done:<{FILES}}]  {done:>2} of {FILES} files  {what}"
    if sys.stdout.isatty():
        print(f"\r{line:<100}", end="\n" if final else "", flush=True)
    elif final:
        print(line, flush=True)


# What came out


def report(folder: Path, payments: list[Payment], planted: Planted, seconds: float) -> int:
    """Shows what the job found, and whether it is right."""
    with closing(sqlite3.connect(folder / "found.db")) as connection:
        alerts = connection.execute("SELECT at, card, rule, what FROM alerts ORDER BY at, card").fetchall()
        letters = connection.execute("SELECT at, payment, rule, error FROM dead_letters ORDER BY at, rule").fetchall()
    show_some("alerts", ("time", "card", "rule", "what"), alerts)
    show_some("dead letters", ("time", "payment", "rule", "error"), letters)
    wanted_alerts, wanted_letters = by_hand(payments)
    verdicts = [
        Verdict(name, rule, of_rule(rule, findings(rows)), of_rule(rule, wanted), planted_here[rule])
        for name, rows, wanted, planted_here in (
            ("alerts", alerts, wanted_alerts, planted.cards),
            ("dead letters", letters, wanted_letters, planted.malformed),
        )
        for rule in RULES
    ]
    print("\nbeside the rules worked out by hand (lost, doubled, invented) and what was planted (precision, recall):")
    print_table(("", "rule", "rows", "lost", "doubled", "invented", "precision", "recall"), [v.row for v in verdicts])
    is_right = all(verdict.is_right for verdict in verdicts)
    print(f"\n{'All is right.' if is_right else 'This is WRONG.'}")
    print(f"{len(payments):,} payments took {seconds:.0f} s, with two starts of Spark and one kill.\n")
    show_places(folder)
    return 0 if is_right else 1


def findings(rows: Sequence[tuple[str, str | int, str, str]]) -> list[Finding]:
    return [(rule, which, at[:19]) for at, which, rule, _ in rows]


def of_rule(rule: str, found: Sequence[Finding]) -> list[Finding]:
    return [one for one in found if one[0] == rule]


@dataclass(frozen=True)
class Verdict:
    """What a table has of a rule, beside what it must have, and beside the cards or payments that were planted."""

    table: str
    rule: str
    got: Sequence[Finding]
    wanted: Sequence[Finding]
    planted: frozenset[str] | frozenset[int]

    @property
    def is_right(self) -> bool:
        """Nothing is lost, doubled or invented, and all that was planted is found."""
        return sorted(self.got) == sorted(self.wanted) and self.planted <= {which for _, which, _ in self.got}

    @property
    def row(self) -> tuple[object, ...]:
        got, wanted = set(self.got), set(self.wanted)
        counts = len(self.got), len(wanted - got), len(self.got) - len(got), len(got - wanted)
        found = {which for _, which, _ in got}
        hits = len(found & self.planted)
        return self.table, self.rule, *counts, f"{hits / max(len(found), 1):.2f}", f"{hits / len(self.planted):.2f}"


def by_hand(payments: list[Payment]) -> tuple[list[Finding], list[Finding]]:
    """The alerts and the dead letters of both rules, in plain Python. The last seconds are left out: the job still waits for
    earlier payments there."""
    end = seconds_of(payments[-1]) - WATERMARK_SECONDS
    settled = [payment for payment in payments if seconds_of(payment) <= end]
    has_amount = [payment for payment in settled if payment.amount is not None and payment.amount > 0]
    has_place = [payment for payment in settled if is_on_earth(payment.lat, payment.lon)]
    alerts = [finding("velocity", payment, payment.card) for payment in too_many(has_amount)]
    alerts += [finding("travel", payment, payment.card) for payment in too_far(has_place)]
    letters = [
        finding(rule, payment, payment.payment)
        for rule, taken in (("velocity", has_amount), ("travel", has_place))
        for payment in sorted(set(settled) - set(taken), key=seconds_of)
    ]
    return alerts, letters


def too_many(payments: list[Payment]) -> Iterator[Payment]:
    """Payments that are the fifth of a card in three minutes."""
    recent: dict[str, deque[float]] = defaultdict(deque)
    for payment in payments:
        at, times = seconds_of(payment), recent[payment.card]
        times.append(at)
        while times[0] < at - SPAN_SECONDS:
            times.popleft()
        if len(times) == PAYMENTS_MAX:
            yield payment
            times.clear()


def too_far(payments: list[Payment]) -> Iterator[Payment]:
    """Payments too far from where the card was last."""
    last: dict[str, Payment] = {}
    for payment in payments:
        before = last.get(payment.card)
        if before is not None:
            kilometres = distance_km(before.lat, before.lon, payment.lat, payment.lon)
            hours = max((seconds_of(payment) - seconds_of(before)) / 3600, 1e-6)
            if kilometres > DISTANCE_KM_MIN and kilometres / hours > SPEED_KMH_MAX:
                yield payment
        last[payment.card] = payment


def seconds_of(payment: Payment) -> float:
    return datetime.fromisoformat(payment.paid_at).timestamp()


def finding(rule: str, payment: Payment, which: str | int) -> Finding:
    return rule, which, payment.paid_at[:19]


# Tables


def show_some(name: str, columns: Sequence[str], rows: Sequence[tuple[str, str | int, str, str]]) -> None:
    """The first rows of what was found."""
    print(f"\n{len(rows)} {name}, of which the first are:")
    print_table(columns, [(at[11:19], *rest) for at, *rest in rows[:SHOWN]])


def print_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Columns as wide as what is in them; numbers to the right."""
    texts = [[str(value) for value in row] for row in [columns, *rows]]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    right = [all(is_number(row[place]) for row in texts[1:]) for place in range(len(columns))]
    for row in texts:
        cells = [t.rjust(w) if r else t.ljust(w) for t, w, r in zip(row, widths, right, strict=True)]
        print(f"  {'  '.join(cells)}".rstrip())


def is_number(text: str) -> bool:
    return text.replace(".", "", 1).isdecimal()


def tool(*command: str | Path) -> list[str]:
    """The command line that looks at the checkpoint in a folder."""
    *words, folder = command
    return [str(Path(sys.executable).with_name("holdfast")), *map(str, words), str(Path(folder) / "checkpoint")]


def serve(folder: Path) -> None:
    """Shows the job in a browser until Ctrl-C."""
    print("\nThe job in a dashboard (Ctrl-C ends it):", flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        subprocess.run([*tool("ui", folder), "--port", "0"], check=False)


def show_places(folder: Path) -> None:
    print(f"tables       {folder / 'found.db'}\nlog          {folder / 'job.log'}")
    print(f"look inside  {shlex.join(tool('state', 'ls', folder))}\n             {shlex.join(tool('ui', folder))}")
    print(f"remove all   {shlex.join(['rm', '-r', str(folder)])}")
    print("To keep it for longer than temporary files are kept: examples/demo.py --folder DIRECTORY")


if __name__ == "__main__":
    sys.exit(main())
