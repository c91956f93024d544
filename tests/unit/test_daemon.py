"""The daemon of the workers: from which pyspark it imports, and how quietly its workers end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

import holdfast

SPARK = Path(pyspark.__file__).parent
ARCHIVES = sorted(map(str, (SPARK / "python" / "lib").glob("*.zip")))
SHOW = "import holdfast.spark.stages.daemon, pyspark; print(pyspark.__file__)"


def run(code, *paths):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))}
    done = subprocess.run([sys.executable, "-S", "-c", code], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("installed", [True, False])
def test_pyspark_is_the_installed_one_if_there_is_one(tmp_path, installed):
    for entry in SPARK.parent.iterdir():
        if installed or entry.name != "pyspark":
            (tmp_path / entry.name).symlink_to(entry)
    found = run(SHOW, *ARCHIVES, tmp_path, Path(holdfast.__file__).parents[1])
    assert ("pyspark.zip" in found) is not installed


def test_a_worker_whose_socket_was_closed_ends_without_a_word():
    from holdfast.spark.stages.daemon import _quietly

    def closed(*arguments):
        raise BrokenPipeError

    def broken(*arguments):
        raise ValueError("a fault")

    assert _quietly(closed)(1, 2) == 1
    assert _quietly(lambda *arguments: 0)(1, 2) == 0
    with pytest.raises(ValueError, match="a fault"):
        _quietly(broken)(1, 2)
