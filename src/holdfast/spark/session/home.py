"""Spark's home as a JVM on this machine should see it: without the pyspark archive.

Spark puts `python/lib/pyspark.zip` first on the import path of every Python process that it starts. Each of them compiles
it again, which takes six times as long as importing the installed package (0.78 s of processor time against 0.13 s), and a
process that is not up within ten seconds ends the query. The archive is for machines without pyspark installed. The driver
has it, so the JVM gets a home with everything but that: a directory of links, in the user's own cache. In place of the
archive there is `spark/session/startup/`, which Python reads when it starts.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyspark

from holdfast.spark.session import startup
from holdfast.spark.session.cache import cache_folder

__all__ = ["lean_home"]

_LEFT_OUT = "python"
_ARCHIVE = "python/lib/pyspark.zip"


@contextlib.contextmanager
def lean_home() -> Iterator[None]:
    """A JVM started in this block gets the lean home, if possible: Spark is the installed pyspark's, no other home was
    chosen, and the workers run this Python."""
    home = Path(pyspark.__file__).parent
    chosen = "SPARK_HOME" in os.environ or os.environ.get("PYSPARK_PYTHON") != sys.executable
    if chosen or os.name == "nt" or not (home / "jars").is_dir():
        yield
        return
    try:
        lean = _view_of(home)
    except (OSError, RuntimeError):
        # Nowhere to write, or no home at all; Spark is only slower then.
        yield
        return
    os.environ["SPARK_HOME"] = str(lean)
    try:
        yield
    finally:
        del os.environ["SPARK_HOME"]


def _view_of(home: Path) -> Path:
    """A directory with a link to each entry of Spark's home, made if it is missing or outdated."""
    wanted = {entry.name: str(entry) for entry in home.iterdir() if entry.name != _LEFT_OUT}
    wanted[_ARCHIVE] = str(Path(startup.__file__).parent)
    digest = hashlib.blake2b(repr(sorted(wanted.items())).encode(), digest_size=8).hexdigest()
    folder = cache_folder() / f"spark-{pyspark.__version__}-{digest}"
    if not _is_right(folder, wanted):
        _make(folder, wanted)
    return folder


def _is_right(folder: Path, wanted: dict[str, str]) -> bool:
    try:
        return all(os.readlink(folder / name) == target for name, target in wanted.items())
    except OSError:
        return False


def _make(folder: Path, wanted: dict[str, str]) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    made = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    (made / _ARCHIVE).parent.mkdir(parents=True)
    for name, target in wanted.items():
        (made / name).symlink_to(target)
    try:
        made.rename(folder)
    except OSError:
        # Another process was faster, or something else is in the way.
        shutil.rmtree(made)
        if not _is_right(folder, wanted):
            raise
