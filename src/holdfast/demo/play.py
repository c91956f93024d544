"""The demo: payments with planted fraud stream through two rules in one job on Spark, into exactly-once sinks.

Half way through, the job is killed with `kill -9` and started again. At the end its alerts and dead letters are compared
with what was planted, and with what the same rules give in plain Python, without Holdfast or Spark.
"""

from __future__ import annotations

import contextlib
import shlex
import sys
import time
from pathlib import Path

from holdfast.demo.folder import FILES, Folder
from holdfast.demo.live import dashboard, keep_running
from holdfast.demo.payments import Payment, Planted, generate, write_files
from holdfast.demo.report import report
from holdfast.demo.runs import run_job

__all__ = ["play"]

HOURS = 12
FRAUD = 12
"""On how many cards, for each rule."""


def play(seed: int, count: int, given: Path | None, *, live: bool) -> bool:
    """Plays the demo in a new folder, or in the given one; says whether what came out is right. `live`: then goes on with
    payments as they happen, until Ctrl-C, with a dashboard from the beginning."""
    folder = Folder.new(given)
    payments, planted = generate(seed, cards=count // 8, payments=count, hours=HOURS, fraud=FRAUD)
    write_files(payments, folder.input, FILES)
    _announce(payments, planted)
    with dashboard(folder) if live else contextlib.nullcontext():
        is_right = _judged_run(folder, payments, planted)
        _show_places(folder)
        if live and is_right:
            print("\nThe job keeps running, with payments as they happen. Press Ctrl-C to stop it.", flush=True)
            keep_running(folder, seed, len(payments))
    return is_right


def _announce(payments: list[Payment], planted: Planted) -> None:
    cards, malformed = (frozenset[object]().union(*found.values()) for found in (planted.cards, planted.malformed))
    print(f"{len(payments):,} payments in {FILES} files; fraud on {len(cards)} cards, {len(malformed)} malformed payments")
    print("one job: one source, two rules, a table of alerts and one of dead letters\n", flush=True)


def _judged_run(folder: Folder, payments: list[Payment], planted: Planted) -> bool:
    """Runs the job with a kill half way."""
    start = time.monotonic()
    run_job(folder, "first run", until=FILES // 2)
    run_job(folder, "second run")
    seconds = time.monotonic() - start
    is_right = report(folder, payments, planted)
    print(f"{len(payments):,} payments took {seconds:.0f} s, with two starts of Spark and one kill.\n")
    return is_right


def _show_places(folder: Folder) -> None:
    print(f"tables       {folder.database}\nlog          {folder.log}")
    print(f"look inside  {_tool('state', 'ls', folder)}\n             {_tool('ui', '', folder)}")
    print(f"remove all   {shlex.join(['rm', '-r', str(folder.path)])}")
    print("To keep the files elsewhere: holdfast demo --folder DIRECTORY", flush=True)


def _tool(command: str, word: str, folder: Folder) -> str:
    """The command line that looks at the checkpoint of the demo."""
    program = str(Path(sys.executable).with_name("holdfast"))
    return shlex.join([part for part in (program, command, word, str(folder.checkpoint)) if part])
