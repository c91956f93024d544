"""Backends on Spark: the disk's files, and one of the user's own."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.testing import TestStream, run
from integration.functions import Count

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

from sqlite_backend import SqliteBackend

EVENTS = "k string, v int"


def counted(source, **options):
    return hf.keyed(source.df, key="k", value="v").par_do(Count(), output="k string, n long", key_groups=2, **options)


def rows(found):
    return sorted(tuple(row) for row in found)


class TestOwn:
    def test_state_goes_on_after_a_restart(self, feed, run_job, tmp_path):
        source, backend = feed(EVENTS), SqliteBackend(str(tmp_path / "state"))
        source.add({"k": "a", "v": 1}, {"k": "b", "v": 1})
        source.add({"k": "a", "v": 2})
        assert rows(run_job(counted(source, backend=backend))[0]) == [("a", 1), ("a", 2), ("b", 1)]
        source.add({"k": "a", "v": 3})
        assert rows(run_job(counted(source, backend=backend))[0]) == [("a", 3)]
        assert 1 <= len(list((tmp_path / "state").glob("*.sqlite"))) <= 2
        with pytest.raises(hf.StateConflict, match="backend was 'sqlite' and is 'disk' now"):
            run_job(counted(source, backend="disk"))

    def test_the_checkpoint_without_the_files_is_refused(self, feed, run_job, tmp_path):
        source, backend = feed(EVENTS), SqliteBackend(str(tmp_path / "state"))
        source.add({"k": "a", "v": 1})
        run_job(counted(source, backend=backend))
        elsewhere = SqliteBackend(str(tmp_path / "elsewhere"))
        source.add({"k": "a", "v": 1})
        with pytest.raises(hf.HoldfastError, match="does not have the version"):
            run_job(counted(source, backend=elsewhere))

    def test_a_script_with_crashes(self, tmp_path):
        stream = TestStream().add_elements([("a", 1), ("b", 1)]).crash().add_elements([("a", 1)])
        out = run(Count(), stream, runtime="spark", backend=SqliteBackend(str(tmp_path)), key_groups=2)
        assert sorted(out.values) == [("a", 1), ("a", 2), ("b", 1)]
        assert out.state("a") == {"count": 2}

    def test_what_cannot_be_sent_is_told(self, feed):
        class Holding(SqliteBackend):
            def __init__(self):
                super().__init__("folder")
                object.__setattr__(self, "lock", threading.Lock())

        with pytest.raises(hf.InvalidStep, match="cannot be sent to a worker"):
            counted(feed(EVENTS), backend=Holding())

    def test_what_is_no_backend_is_told(self, feed):
        with pytest.raises(hf.InvalidStep, match="backend is 'rocksdb'; it can be 'heap', 'disk', or a factory of your own"):
            counted(feed(EVENTS), backend="rocksdb")


class TestDisk:
    def test_it_goes_on_where_the_heap_was(self, feed, run_job):
        source = feed(EVENTS)
        source.add({"k": "a", "v": 1})
        run_job(counted(source))
        source.add({"k": "a", "v": 2})
        assert rows(run_job(counted(source, backend="disk"))[0]) == [("a", 2)]
