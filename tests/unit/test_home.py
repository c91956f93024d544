"""Spark's home without the archive: for whom it is made, and what becomes of one that is not right."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from holdfast.spark.session.home import lean_home


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "holdfast"


def inside():
    with lean_home():
        given = os.environ.get("SPARK_HOME")
    assert "SPARK_HOME" not in os.environ
    return None if given is None else Path(given)


def test_everything_is_there_but_the_archive(cache):
    home, spark = inside(), Path(pyspark.__file__).parent
    assert {entry.name for entry in home.iterdir()} == {entry.name for entry in spark.iterdir()}
    assert [path.name for path in (home / "python" / "lib" / "pyspark.zip").glob("*.py")] != []
    assert not (home / "python" / "lib" / "pyspark.zip").is_file()
    assert (home / "jars").resolve() == (spark / "jars").resolve()
    assert home.parent == cache


def test_it_is_made_once(cache):
    first = inside()
    before = first.stat().st_mtime_ns
    assert inside() == first
    assert first.stat().st_mtime_ns == before
    assert list(cache.iterdir()) == [first]


def test_one_that_was_tampered_with_is_not_used(cache):
    home = inside()
    (home / "jars").unlink()
    (home / "jars").symlink_to("/elsewhere")
    assert inside() is None


def test_a_start_file_of_ones_own_still_runs(cache, tmp_path):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "sitecustomize.py").write_text("print('mine')")
    path = f"{inside() / 'python/lib/pyspark.zip'}{os.pathsep}{tmp_path / 'own'}"
    for words, said in (("pass", "mine\n"), ("'transform_with_state_driver_worker'; print('noise')", "")):
        done = subprocess.run(
            [sys.executable, "-c", words], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=True
        )
        assert (done.stdout, done.stderr) == (said, "")


def test_a_home_of_ones_own_stays(cache, monkeypatch):
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    with lean_home():
        assert os.environ["SPARK_HOME"] == "/opt/spark"
    assert os.environ["SPARK_HOME"] == "/opt/spark"
    assert not cache.exists()


def test_workers_of_another_python_need_the_archive(cache, monkeypatch):
    monkeypatch.setenv("PYSPARK_PYTHON", "/usr/bin/python3")
    assert inside() is None


def test_nowhere_to_write(cache, monkeypatch, tmp_path):
    (tmp_path / "cache").write_text("a file")
    assert inside() is None
