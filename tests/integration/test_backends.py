"""Backends on Spark: the disk's files, and one of the user's own."""

from __future__ import annotations

import json
import os
import stat
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

    @pytest.mark.night
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
        with pytest.raises(hf.InvalidStep, match="backend is 'tape'; it can be 'heap', 'disk', or a factory of your own"):
            counted(feed(EVENTS), backend="tape")


def manifest_of(checkpoint):
    steps = json.loads((checkpoint / "holdfast" / "manifest.json").read_text())["steps"]
    return {name: step["backend"] for name, step in steps.items()}


class TestOfAJob:
    """`backend=` and `state_dir=` of a job."""

    @pytest.fixture
    def run_with(self, tmp_path):
        def run_with(frames, look=lambda: None, **options):
            """Runs a job over these frames; returns the rows of each."""
            job = hf.Job("j", checkpoint=str(tmp_path / "checkpoint"), trigger="available now", progress=False, **options)
            sinks = [hf.sinks.Collect() for _ in frames]
            for frame, sink in zip(frames, sinks, strict=True):
                job.write(frame, sink)
            job.write(frames[0], hf.sinks.ForeachBatch(lambda rows, batch: look()))
            shown = str(job.explain())
            job.run()
            return [rows(sink.rows) for sink in sinks], shown

        return run_with

    @pytest.mark.night
    def test_it_is_that_of_the_steps_that_have_named_none(self, feed, run_with, tmp_path):
        source, files = feed(EVENTS), []

        def look():
            files.append(sorted(path.relative_to(tmp_path) for path in (tmp_path / "ssd").rglob("*.sqlite")))

        def frames():
            return [counted(source, name="job's"), counted(source, name="own", backend="hashmap")]

        source.add({"k": "a", "v": 1}, {"k": "b", "v": 1})
        options = {"backend": "rocksdb", "state_dir": tmp_path / "ssd"}
        found, shown = run_with(frames(), look, **options)
        assert found == [[("a", 1), ("b", 1)]] * 2
        assert manifest_of(tmp_path / "checkpoint") == {"job's": "disk", "own": "heap"}
        assert shown.count("backend disk") == shown.count("backend heap") == 1
        # One step, one folder: that of the other has no files.
        (looked,) = files
        assert looked
        assert {path.parts[1] for path in looked} == {f"holdfast-{os.geteuid()}"}
        assert len({path.parent for path in looked}) == 1
        private = tmp_path / "ssd" / looked[0].parts[1]
        assert stat.S_IMODE(private.stat().st_mode) == 0o700
        assert [*private.iterdir()] == [], "the job has removed what it had there"
        source.add({"k": "a", "v": 1})
        assert run_with(frames(), backend="heap")[0] == [[("a", 2)]] * 2
        assert manifest_of(tmp_path / "checkpoint") == {"job's": "heap", "own": "heap"}

    def test_a_single_step_and_an_aggregation(self, feed, run_with, tmp_path):
        source = feed(EVENTS)
        source.add({"k": "a", "v": 2}, {"k": "a", "v": 3})
        windows = hf.keyed(source.df, key="k", value="v").window_into(
            hf.GlobalWindows(), trigger=hf.Repeatedly(hf.AfterCount(1)), accumulation_mode="accumulating"
        )
        frame = windows.combine_per_key({"n": hf.Sum()}, name="sum", key_groups=2).select("k", "n")
        assert run_with([frame], backend="disk")[0][0][-1] == ("a", 5)
        assert manifest_of(tmp_path / "checkpoint") == {"sum": "disk"}

    def test_a_directory_that_is_not_private_is_refused_before_the_job_starts(self, feed, run_with, tmp_path):
        source, own = feed(EVENTS), tmp_path / "ssd" / f"holdfast-{os.geteuid()}"
        own.mkdir(parents=True)
        own.chmod(0o755)
        source.add({"k": "a", "v": 1})
        with pytest.raises(hf.HoldfastError, match="is not a directory that is yours alone") as refused:
            run_with([counted(source)], backend="disk", state_dir=tmp_path / "ssd")
        assert f"remove {own}, or give another state_dir" in str(refused.value)
        assert not (tmp_path / "checkpoint" / "commits").exists()


class TestDisk:
    @pytest.mark.night
    def test_it_goes_on_where_the_heap_was(self, feed, run_job):
        source = feed(EVENTS)
        source.add({"k": "a", "v": 1})
        run_job(counted(source))
        source.add({"k": "a", "v": 2})
        assert rows(run_job(counted(source, backend="disk"))[0]) == [("a", 2)]
