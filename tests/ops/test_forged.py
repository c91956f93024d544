"""Files that somebody has damaged, or made to do harm: tools refuse them with a declared error, and stay inside."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.checkpoint.layout import open_checkpoint
from holdfast.checkpoint.notices import read_job, read_lock, read_stop
from holdfast.checkpoint.pieces import PieceFinder
from holdfast.checkpoint.registry import registered
from holdfast.checkpoint.running import find_running
from holdfast.engine.stored.manifest import Evolution, read_manifest, reconcile
from holdfast.engine.stored.reading import StoredLayout
from holdfast.errors import CheckpointError, CorruptState, HoldfastError
from holdfast.ops.inspect.overview import checkpoint_show
from holdfast.ops.move.export import read_export
from holdfast.ops.move.restore import savepoint_restore
from holdfast.ops.move.savepoint import savepoint_create, savepoint_ls, savepoint_verify
from holdfast.ops.upkeep.verify import checkpoint_verify
from holdfast.spark.job.manifest import open_manifest
from tiers import examples

from .forging import JSON_FILES, JUNK, ODD, forge_savepoint, forged, make_checkpoint, manifest, put, snapshot
from .trees import checksums

QUICK = settings(deadline=None, max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])

DECLARED = contextlib.suppress(HoldfastError)
"""Around what may fail with a declared error, and with no other."""


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """Nothing is waited for: neither the disk, nor a lock that may be about to be written."""
    monkeypatch.setattr("os.fsync", lambda descriptor: None)
    monkeypatch.setattr("holdfast.checkpoint.lock._AGAIN_SECONDS", 0.0)


@pytest.fixture
def checkpoint(tmp_path):
    return make_checkpoint(tmp_path / "checkpoint")


@pytest.fixture
def savepoint(checkpoint, tmp_path):
    savepoint_create(None, str(checkpoint), str(tmp_path / "savepoint"))
    return tmp_path / "savepoint"


def _agreed(path):
    """What a job does with a manifest when it starts."""
    manifest = open_manifest(None, path, "fraud")
    manifest.agree([_Step], manifest.recorded or {})


class _Step:
    """A step as a job has it when it starts."""

    name = "cells"
    manifest = manifest()
    evolution = Evolution()

    @classmethod
    def running_on(cls, backend):
        return cls


def use_everything(checkpoint: Path, work: Path) -> None:
    """Every tool that needs no Spark, and the start of a job; only declared errors may come out."""
    path, made = str(checkpoint), str(work / "made")
    tools = (
        lambda: checkpoint_show(None, path),
        lambda: checkpoint_verify(None, path, files_only=True),
        lambda: open_checkpoint(None, path).retained(),
        lambda: PieceFinder(open_checkpoint(None, path)).pieces(1),
        lambda: savepoint_create(None, path, made),
        lambda: savepoint_ls(None, str(work)),
        lambda: savepoint_verify(None, made),
        lambda: savepoint_restore(None, made, str(work / "new"), backend="disk", new_query_id=True),
        lambda: find_running(None, path),
        lambda: _agreed(path),
    )
    try:
        for tool in tools:
            with DECLARED:
                tool()
    finally:
        for name in ("made", "new"):
            shutil.rmtree(work / name, ignore_errors=True)


@pytest.mark.parametrize("name", JSON_FILES)
@QUICK
@given(data=st.data())
def test_a_forged_file_gives_declared_errors(tmp_path, name, data):
    checkpoint = make_checkpoint(tmp_path / "checkpoint")
    (tmp_path / "work").mkdir(exist_ok=True)
    put(checkpoint / name, data.draw(forged((checkpoint / name).read_bytes())))
    use_everything(checkpoint, tmp_path / "work")


WRONG = {
    "metadata": [b"[" * 1000, b"[]", b'{"id":5}', b"x"],
    "offsets/1": [b"v1\n[]", b'v1\n{"batchWatermarkMs":"0","batchTimestampMs":1}', b"v1\nx"],
    "commits/1": [b"v1\n[]", b'v1\n{"nextBatchWatermarkMs":null}'],
    "holdfast/manifest.json": [b"[]", b'{"manifest_version":1,"steps":[]}', b'{"manifest_version":1,"steps":{"a":{}}}'],
    "state/0/_metadata/v2/0": [b"v2\n{}", b'v2\n{"operatorInfo":{},"stateStoreInfo":[]}'],
}


@pytest.mark.parametrize(("name", "content"), [(name, content) for name, all_ in WRONG.items() for content in all_])
def test_verify_names_what_has_another_form(checkpoint, name, content):
    def named():
        return str(checkpoint / name) in [
            problem.path for problem in checkpoint_verify(None, str(checkpoint), files_only=True).problems
        ]

    assert not named()
    put(checkpoint / name, content)
    assert named()


@pytest.mark.parametrize("name", JSON_FILES)
@pytest.mark.parametrize("how", ["missing", "a directory", "a link to nowhere"])
def test_a_file_that_is_none(checkpoint, tmp_path, name, how):
    (tmp_path / "work").mkdir()
    (checkpoint / name).unlink()
    if how == "a directory":
        (checkpoint / name).mkdir()
    elif how == "a link to nowhere":
        (checkpoint / name).symlink_to(tmp_path / "nowhere")
    use_everything(checkpoint, tmp_path / "work")


@QUICK
@given(name=st.sampled_from(["²", "٣", "9" * 5000, "9" * 18, "-1", "1e3", "x\ny", "\x1b[2J", " 7", "0x7"]), data=JUNK)
def test_names_of_files_that_are_not_numbers(tmp_path, name, data):
    checkpoint = make_checkpoint(tmp_path / "checkpoint")
    (tmp_path / "work").mkdir(exist_ok=True)
    for folder in ("offsets", "commits", "state/0/_metadata/v2", "state/0/0"):
        file = checkpoint / folder / name
        if len(name) < 200:
            put(file, data)
            use_everything(checkpoint, tmp_path / "work")
            file.unlink()


@QUICK
@given(value=ODD, field=st.sampled_from(["sstFiles", "logFiles"]))
def test_a_forged_snapshot(tmp_path, value, field):
    checkpoint = make_checkpoint(tmp_path / "checkpoint")
    (tmp_path / "work").mkdir(exist_ok=True)
    named = [{"dfsSstFileName": value, "sizeBytes": 1}], [{"dfsSstFileName": "a", "sizeBytes": value}]
    for files in (value, [value], *named):
        put(checkpoint / "state/0/0/2.zip", snapshot({field: files}))
        use_everything(checkpoint, tmp_path / "work")


@QUICK
@given(data=st.data())
def test_a_forged_manifest_in_the_state(data):
    stored = json.dumps(manifest()).encode()
    content = data.draw(forged(stored))
    with DECLARED:
        read = read_manifest(content)
        StoredLayout(read)
        reconcile(read, manifest(), Evolution())


def test_infinity_in_a_parameter_is_read_as_it_was_written():
    """Python's own writer of JSON gives it, and such manifests are stored."""
    assert read_manifest(json.dumps({**manifest(), "parameters": {"most": float("inf")}}).encode())["parameters"] == {
        "most": float("inf")
    }


@QUICK
@given(data=st.data())
def test_a_forged_savepoint_gives_declared_errors(tmp_path, data):
    shutil.rmtree(tmp_path / "savepoint", ignore_errors=True)
    checkpoint = make_checkpoint(tmp_path / "checkpoint")
    savepoint_create(None, str(checkpoint), str(tmp_path / "savepoint"))
    file = tmp_path / "savepoint" / "savepoint.json"
    content = json.loads(file.read_text())
    content.pop("digest")
    put(file, data.draw(forged(json.dumps(content).encode())))
    # Of some not even a digest can be made.
    with contextlib.suppress(ValueError, AttributeError, TypeError, KeyError, IndexError, RecursionError):
        forge_savepoint(tmp_path / "savepoint", lambda content: None)
    before = set(tmp_path.iterdir())
    for tool in (
        lambda: savepoint_ls(None, str(tmp_path)),
        lambda: savepoint_verify(None, str(tmp_path / "savepoint")),
        lambda: savepoint_restore(None, str(tmp_path / "savepoint"), str(tmp_path / "new"), backend="disk"),
    ):
        with DECLARED:
            tool()
    assert set(tmp_path.iterdir()) - before <= {tmp_path / "new"}
    shutil.rmtree(tmp_path / "new", ignore_errors=True)


OUTSIDE = ["../outside", "offsets/../../outside", "/outside", "state/./x", "state//x", "offsets/..", "state/a\\b", "a\0", ""]


@pytest.mark.parametrize("path", [*OUTSIDE, "holdfast/lock.json", "savepoint.json", "offsets/x", "elsewhere"])
def test_a_savepoint_with_a_file_elsewhere(savepoint, tmp_path, path):
    def change(content):
        content["files"].append({**content["files"][0], "path": path})

    forge_savepoint(savepoint, change)
    with pytest.raises(CorruptState, match="cannot be in a savepoint"):
        savepoint_verify(None, str(savepoint))
    with pytest.raises(CorruptState, match="cannot be in a savepoint"):
        savepoint_restore(None, str(savepoint), str(tmp_path / "new"))
    assert not (tmp_path / "new").exists()


def test_a_plan_outside_of_the_savepoint(savepoint, tmp_path):
    """A forged micro-batch, with a digest that fits, once overwrote a file beside the new checkpoint."""
    (tmp_path / ".bashrc").write_text("mine")
    put(tmp_path / "savepoint" / "offsets" / "x", b"theirs")
    forge_savepoint(savepoint, lambda content: {**content, "planned_batch": "../../.bashrc"})
    with pytest.raises(CorruptState, match="does not have the expected form"):
        savepoint_verify(None, str(savepoint))
    with pytest.raises(CorruptState, match="does not have the expected form"):
        savepoint_restore(None, str(savepoint), str(tmp_path / "new"))
    assert (tmp_path / ".bashrc").read_text() == "mine"


@pytest.mark.parametrize("planned", [0, 1, 3, 10**18])
def test_a_plan_of_another_micro_batch(savepoint, tmp_path, planned):
    forge_savepoint(savepoint, lambda content: {**content, "planned_batch": planned})
    with pytest.raises(CorruptState, match=r"cannot be|is not among its files"):
        savepoint_restore(None, str(savepoint), str(tmp_path / "new"))


@pytest.fixture
def secret(tmp_path):
    """What a link leads to: somebody's files."""
    put(tmp_path / "secret" / "0", b"v1\n{}")
    return tmp_path / "secret"


@pytest.mark.parametrize("what", ["sources/0", "sources/0/0", "offsets/0", "metadata", "state"])
def test_links_in_a_checkpoint_are_not_followed(checkpoint, tmp_path, what):
    kept = tmp_path / "kept"
    shutil.move(checkpoint / what, kept)
    (checkpoint / what).symlink_to(kept)
    with pytest.raises(CheckpointError, match="links are not followed"):
        savepoint_create(None, str(checkpoint), str(tmp_path / "savepoint"))
    assert not (tmp_path / "savepoint").exists()
    found = checkpoint_verify(None, str(checkpoint), files_only=True)
    assert [problem.what for problem in found.problems if problem.path == str(checkpoint / what)] == [
        "it is a link, and links are not followed"
    ]


@pytest.mark.parametrize("what", ["sources/0", "sources/0/0", "holdfast", "offsets/0"])
def test_links_in_a_savepoint_are_not_followed(savepoint, tmp_path, what):
    kept = tmp_path / "kept"
    shutil.move(savepoint / what, kept)
    (savepoint / what).symlink_to(kept)
    _, problems = savepoint_verify(None, str(savepoint))
    assert [(problem.path, problem.what) for problem in problems] == [
        (str(savepoint / what), "it is a link, and links are not followed")
    ]
    with pytest.raises(CorruptState, match="links are not followed"):
        savepoint_restore(None, str(savepoint), str(tmp_path / "new"))
    assert not (tmp_path / "new").exists()


def test_a_checkpoint_may_itself_be_reached_by_a_link(checkpoint, tmp_path):
    (tmp_path / "current").symlink_to(checkpoint)
    savepoint_create(None, str(tmp_path / "current"), str(tmp_path / "savepoint"))
    assert savepoint_verify(None, str(tmp_path / "savepoint"))[1] == []


def nested(tmp_path: Path, source: Path) -> dict[str, Path]:
    """Destinations that are not apart from a source."""
    (tmp_path / "link").symlink_to(source)
    (tmp_path / "up").symlink_to(source.parent)
    return {
        "in it": source / "in",
        "itself": source,
        "itself by another name": tmp_path / "up" / source.name,
        "by a link": tmp_path / "link" / "in",
        "by dots": source / "x" / ".." / "in",
        "around it": source.parent,
        "with a scheme": Path(f"file:{source}/in"),
    }


def test_a_savepoint_cannot_be_restored_into_itself(savepoint, tmp_path):
    before = checksums(savepoint)
    for name, destination in nested(tmp_path, savepoint).items():
        with pytest.raises(CheckpointError, match=r"lies in|the same directory"):
            savepoint_restore(None, str(savepoint), str(destination))
        assert checksums(savepoint) == before, name


def test_a_savepoint_cannot_be_taken_into_its_checkpoint(checkpoint, tmp_path):
    before = checksums(checkpoint)
    for name, destination in nested(tmp_path, checkpoint).items():
        with pytest.raises(CheckpointError, match=r"lies in|the same directory"):
            savepoint_create(None, str(checkpoint), str(destination))
        assert checksums(checkpoint) == before, name


def test_names_that_begin_the_same_are_apart(checkpoint):
    savepoint_create(None, str(checkpoint), f"{checkpoint}-savepoint")


@pytest.mark.parametrize("read", [read_lock, read_stop, read_job])
@QUICK
@given(data=st.data())
def test_a_notice_that_makes_no_sense_is_none(tmp_path, read, data):
    name = {read_lock: "holdfast/lock.json", read_stop: "holdfast/stop.json"}.get(read)
    whole = b'{"name":"fraud","checkpoint":"/c","token":"1"}'
    if name is not None:
        whole = (make_checkpoint(tmp_path / "checkpoint") / name).read_bytes()
    assert read(whole) is not None
    read(data.draw(forged(whole)))


def test_a_lock_is_shown_with_its_controls_visible(checkpoint):
    content = json.loads((checkpoint / "holdfast/lock.json").read_text())
    found = read_lock(json.dumps({**content, "owner": "job \x1b[2J\nwhat to do: run this", "host": "a\u202eb"}).encode())
    assert found is not None
    assert (found.owner, found.host) == ("job \\x1b[2J\\nwhat to do: run this", "a\\u202eb")
    assert read_lock(json.dumps({**content, "taken_at": "0001-01-01T00:00:00+14:00"}).encode()) is None
    assert read_lock(json.dumps({**content, "token": ""}).encode()) is None


@QUICK
@given(content=JUNK)
def test_a_registry_of_running_jobs_that_makes_no_sense(tmp_path, content):
    before = os.environ.get("XDG_STATE_HOME")
    os.environ["XDG_STATE_HOME"] = str(tmp_path)
    try:
        put(tmp_path / "holdfast" / "jobs" / "fraud-1.json", content)
        registered("fraud")
    finally:
        if before is None:
            del os.environ["XDG_STATE_HOME"]
        else:
            os.environ["XDG_STATE_HOME"] = before


@QUICK
@given(data=st.data())
def test_a_forged_export_gives_declared_errors(tmp_path, data):
    step = {"operator": 0, "manifest": manifest(), "rows": 3, "log": {"last": 4, "clock": "0000000000000001"}}
    whole = {"export_version": 1, "job": "fraud", "batch": 1, "steps": {"cells": step}}
    put(tmp_path / "export.json", json.dumps(whole).encode())
    assert read_export(None, str(tmp_path)).batch == 1
    put(tmp_path / "export.json", data.draw(forged(json.dumps(whole).encode())))
    with DECLARED:
        read_export(None, str(tmp_path))


def test_a_manifest_that_is_nested_without_end():
    deep: object = {}
    for _ in range(sys.getrecursionlimit() // 2):
        deep = {"a": deep}
    with pytest.raises(CorruptState, match="nested too deeply"):
        read_manifest(json.dumps({**manifest(), "parameters": deep}).encode())
