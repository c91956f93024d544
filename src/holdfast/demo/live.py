"""The demo's job as it goes on: payments that are made up as they happen, and a dashboard, until Ctrl-C."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from types import FrameType

from holdfast.demo.folder import Folder
from holdfast.demo.payments import live_payments, write_file
from holdfast.demo.runs import ended_by_itself, start_job

__all__ = ["dashboard", "keep_running"]

CARDS = 50_000
SECONDS = 1.0
"""Between two files of payments."""
ENDING_SECONDS = 60.0


@contextlib.contextmanager
def dashboard(folder: Folder) -> Iterator[None]:
    """Serves a dashboard of the job on this machine, and shows its address."""
    from holdfast.spark.job.dashboard import Dashboard

    shown = threading.Event()

    def tell(sentence: str) -> None:
        print(f"{sentence}\n", flush=True)
        shown.set()

    served = Dashboard()
    served.begin(str(folder.checkpoint), tell)
    shown.wait(ENDING_SECONDS)
    try:
        yield
    finally:
        served.end()


def keep_running(folder: Folder, seed: int, first: int) -> None:
    """Runs the job on payments as they happen, numbered from `first`, until Ctrl-C or SIGTERM; then stops it."""
    draw = random.Random(seed)
    with _told_to_end() as told, _running(folder) as process:
        for number in itertools.count():
            payments = live_payments(draw, first, CARDS, time.time())
            write_file(payments, folder.input / f"live-{number:06d}.json")
            first += len(payments)
            if told.wait(SECONDS):
                return
            if process.poll() is not None:
                raise ended_by_itself(folder, process.returncode)


@contextlib.contextmanager
def _told_to_end() -> Iterator[threading.Event]:
    """An event that Ctrl-C and SIGTERM set; the second Ctrl-C raises, as usual."""
    told = threading.Event()

    def tell(number: int, frame: FrameType | None) -> None:
        if told.is_set():
            raise KeyboardInterrupt
        told.set()

    before = {number: signal.signal(number, tell) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield told
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _running(folder: Folder) -> Iterator[subprocess.Popen[bytes]]:
    """The job as it goes on; at the end it is told to stop, and what is left of its processes is killed."""
    process = start_job(folder, "--live")
    try:
        yield process
        print("\nstopping the job at the end of its micro-batch ...", flush=True)
        process.terminate()
        process.wait(ENDING_SECONDS)
    except subprocess.TimeoutExpired:
        print("it did not stop in time and was killed; its checkpoint is unharmed", flush=True)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
