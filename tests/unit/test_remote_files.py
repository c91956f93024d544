"""Checkpoints on other file systems, read through fsspec: the same is told as of local files, and nothing is written."""

from __future__ import annotations

import dataclasses
import sys
import tarfile
import uuid
from pathlib import Path

import fsspec
import pytest

from dashboards import make_job
from holdfast import ops
from holdfast.checkpoint.blob_reader import BlobReader
from holdfast.checkpoint.files.choice import files_of
from holdfast.checkpoint.files.local import LocalFiles
from holdfast.checkpoint.layout import open_checkpoint
from holdfast.cli.main import main
from holdfast.errors import CheckpointError, CorruptState, NeedsSpark
from holdfast.watch.health.report import Level

STORED = Path(__file__).parent.parent / "stored"


@pytest.fixture
def local(tmp_path):
    with tarfile.open(STORED / "every-cell@0.1.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    return str(tmp_path / "every-cell" / "checkpoint")


@pytest.fixture
def remote(local):
    """The same checkpoint in a file system of its own."""
    memory = fsspec.filesystem("memory")
    place = f"/{uuid.uuid4().hex}"
    memory.put(local, f"{place}/checkpoint", recursive=True)
    yield f"memory:/{place}/checkpoint"
    memory.rm(place, recursive=True)


def plain(told, path):
    """What was told, without where."""
    return repr(told).replace(path, "CKPT")


def key_of(checkpoint):
    return ops.state_show(None, checkpoint, limit=1).cells[0].key


def batches(checkpoint):
    return open_checkpoint(None, checkpoint).retained()


TOLD = {
    "retained": batches,
    "ls": lambda path: ops.state_ls(None, path),
    "show": lambda path: ops.state_show(None, path, limit=1_000),
    "one key": lambda path: ops.state_show(None, path, key=key_of(path)),
    "history": lambda path: ops.state_history(None, path, key_of(path)),
    "diff": lambda path: ops.state_diff(None, path, batches(path)[0], batches(path)[-1]),
    "schema": lambda path: ops.state_schema(None, path),
    "overview": lambda path: ops.checkpoint_show(None, path),
    "verify": lambda path: ops.checkpoint_verify(None, path, deep=True),
}


@pytest.mark.parametrize("what", TOLD)
def test_the_same_is_told_as_of_local_files(local, remote, what):
    assert plain(TOLD[what](remote), remote) == plain(TOLD[what](local), local)


def test_the_command_line_starts_no_spark(remote, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark", None)
    assert main(["state", "show", remote, "--key", key_of(remote)]) == 0
    assert main(["checkpoint", "verify", remote]) == 0
    assert "The checkpoint is whole." in capsys.readouterr().out


def test_health(tmp_path, remote):
    story = make_job(tmp_path)
    fsspec.filesystem("memory").put(str(story), f"{remote}-watched", recursive=True)
    assert ops.health(f"{remote}-watched").level == ops.health(str(story)).level != Level.UNKNOWN


def test_what_a_job_writes_meanwhile_is_seen(remote):
    last = open_checkpoint(None, remote).committed()[-1]
    for log in ("offsets", "commits"):
        fsspec.filesystem("memory").copy(f"{remote}/{log}/{last}", f"{remote}/{log}/{last + 1}")
    assert open_checkpoint(None, remote).committed()[-1] == last + 1


def test_damage_is_named(remote):
    memory = fsspec.filesystem("memory")
    damaged = next(path for path in memory.find(remote) if path.endswith(".changelog"))
    memory.pipe(damaged, memory.cat_file(damaged)[:-7])
    found = ops.checkpoint_verify(None, remote, deep=True)
    assert not found.is_whole
    assert any(damaged.rpartition("checkpoint/")[2] in str(problem) for problem in found.problems)


def test_a_table_that_is_gone(remote):
    memory = fsspec.filesystem("memory")
    for path in memory.find(remote):
        if "/SSTs/" in path:
            memory.rm(path)
    with pytest.raises(CorruptState, match="is missing"):
        ops.state_show(None, remote, limit=1_000)


def test_nothing_there(remote):
    with pytest.raises(CheckpointError, match="There is nothing at"):
        ops.state_ls(None, f"{remote}-not")


def test_state_that_is_replaced_while_it_is_read(remote, monkeypatch):
    """Also where folders have no time of their own."""
    files = type(files_of(None, remote))
    info = files.info

    def timeless(self, path):
        found = info(self, path)
        return dataclasses.replace(found, modified_seconds=0.0) if found is not None and found.is_directory else found

    monkeypatch.setattr(files, "info", timeless)
    place = open_checkpoint(None, remote)
    operator = place.operators()[0].number
    reading = BlobReader(place).partitions(operator, place.retained()[-1])
    next(reading)
    memory = fsspec.filesystem("memory")
    for path in memory.find(f"{remote}/state/{operator}/_metadata"):
        content = memory.cat_file(path)
        memory.rm(path)
        memory.pipe(path, content)
    with pytest.raises(CheckpointError, match="was replaced while it was read"):
        next(reading)


@pytest.mark.parametrize(
    "change",
    [
        lambda files, path: files.write(path, b""),
        lambda files, path: files.append(path, b""),
        lambda files, path: files.create(path, b""),
        lambda files, path: files.make_directory(path),
        lambda files, path: files.move(path, f"{path}2"),
        lambda files, path: files.remove(path),
    ],
)
def test_nothing_is_written(remote, change):
    before = fsspec.filesystem("memory").find(remote, detail=True)
    with pytest.raises(NeedsSpark, match="changing it needs a Spark session"):
        change(files_of(None, remote), f"{remote}/metadata")
    assert fsspec.filesystem("memory").find(remote, detail=True) == before


def test_files_one_by_one(local, remote, tmp_path):
    here, there = LocalFiles(), files_of(None, remote)
    assert [entry.name for entry in there.entries(remote)] == [entry.name for entry in here.entries(local)]
    assert [entry.name for entry in there.walk(remote)] == [entry.name for entry in here.walk(local)]
    assert there.read(f"{remote}/metadata") == here.read(f"{local}/metadata")
    assert there.sha256(f"{remote}/metadata") == here.sha256(f"{local}/metadata")
    for absent in (f"{remote}/nothing", f"{remote}/metadata/nothing"):
        assert (there.read(absent), there.info(absent), there.entries(absent)) == (None, None, None)
        assert not there.fetch(absent, tmp_path / "fetched")
    assert (there.read(remote), there.entries(f"{remote}/metadata")) == (None, None)
    assert there.info(f"{remote}/metadata").modified_seconds > 1e9


@pytest.mark.parametrize("path", ["nothing://bucket/checkpoint", "s3a://bucket/checkpoint", "viewfs://data/checkpoint"])
def test_file_systems_that_it_does_not_know(path):
    with pytest.raises(NeedsSpark, match="cannot be read without Spark"):
        ops.state_ls(None, path)


def test_without_fsspec(monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(NeedsSpark, match="fsspec, which is not installed"):
        ops.state_ls(None, "memory://nothing/checkpoint")
