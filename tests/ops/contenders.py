"""What other processes do in the tests of the lock."""

from __future__ import annotations

import os
import time
from pathlib import Path

from holdfast.checkpoint.host import ProcessId, has_ended, this_process
from holdfast.checkpoint.lock import Lock
from holdfast.errors import CheckpointLocked


def contend(checkpoint, barrier, results, rounds):
    for _ in range(rounds):
        lock = Lock(None, checkpoint, "job contender")
        barrier.wait(60)
        try:
            lock.acquire()
            results.put(os.getpid())
        except CheckpointLocked:
            results.put(None)
        # All have tried: the winner gives it back, and the next round begins.
        barrier.wait(60)
        lock.release()
        barrier.wait(60)


def guarded(checkpoint, place, stop):
    """Works under the lock: makes a file that must not be there, and removes it. One that was killed leaves it."""
    mine = str(os.getpid())
    while not os.path.exists(stop):
        try:
            lock = Lock(None, checkpoint, "job worker").acquire()
        except CheckpointLocked:
            time.sleep(0.002)
            continue
        for other in os.listdir(place):
            if has_ended(ProcessId("", this_process().machine, *_split(other))):
                os.unlink(os.path.join(place, other))
            else:
                os._exit(42)
        here = os.path.join(place, f"{mine}-{this_process().started}")
        Path(here).touch()
        time.sleep(0.003)
        os.unlink(here)
        lock.release()
        Path(f"{stop}.{mine}.worked").touch()


def _split(name):
    number, started = name.split("-")
    return int(number), started
