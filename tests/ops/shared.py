"""One real checkpoint for all the tests of a process that only look at it."""

from __future__ import annotations

import atexit
import functools
import shutil
import tempfile
from pathlib import Path

from holdfast.testing.spark_runtime import scripted_session

from .payments import Payments

BATCHES = 4


@functools.cache
def payments() -> Payments:
    """What the job left after some micro-batches. Nothing in it may be altered."""
    folder = Path(tempfile.mkdtemp(prefix="holdfast-ops-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    made = Payments(scripted_session(), folder)
    made.add(*range(BATCHES))
    made.run()
    return made


def copied(to: Path) -> str:
    """A copy of the checkpoint, to be altered."""
    shutil.copytree(payments().checkpoint, to)
    return str(to)


def tree(folder: str | Path) -> dict[str, tuple[bytes, int]]:
    """All files with their content and time, by which alterations are seen."""
    files = [path for path in Path(folder).rglob("*") if path.is_file()]
    return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}
