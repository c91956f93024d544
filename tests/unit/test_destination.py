"""Where a directory can be made, and what is said where it cannot."""

from __future__ import annotations

import errno
import os
import sys

import pytest

from holdfast.checkpoint.destination import building, not_written, writing
from holdfast.checkpoint.files.local import LocalFiles
from holdfast.errors import CheckpointError


@pytest.mark.parametrize("leads_to", ["empty", "nowhere"])
def test_a_link_is_not_replaced(tmp_path, leads_to):
    (tmp_path / "empty").mkdir()
    link = tmp_path / "link"
    link.symlink_to(leads_to)
    with pytest.raises(CheckpointError, match="is a link") as refused, building(LocalFiles(), str(link)):
        pass
    assert "give the path that it leads to" in str(refused.value)
    assert sorted(os.listdir(tmp_path)) == ["empty", "link"]


@pytest.mark.parametrize(
    ("number", "todo"),
    [
        (errno.ENOSPC, "free some space there"),
        (errno.EACCES, "choose a path that you may write to"),
        (errno.EROFS, "choose a path that you may write to"),
        (errno.EBUSY, "give a directory below it, if it is where a disk is mounted"),
    ],
)
def test_what_cannot_be_written_is_told(number, todo):
    with pytest.raises(CheckpointError) as told, writing("/data/c"):
        raise OSError(number, os.strerror(number), "/data/c/holdfast/manifest.json")
    assert told.value.what == f"'/data/c' could not be written: {os.strerror(number)}."
    assert todo in told.value.todo
    assert not_written("/data/c", OSError("strange")).todo == ""


def test_spark_that_is_gone_is_no_full_disk():
    with pytest.raises(ConnectionRefusedError), writing("/data/c"):
        raise ConnectionRefusedError


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_it_is_durable_before_it_is_there(tmp_path, monkeypatch):
    """A tool removes the old state once the new one is in its place, and a user what a savepoint was taken of."""
    synced, real = [], os.fsync

    def fsync(opened):
        synced.append(os.readlink(f"/proc/self/fd/{opened}"))
        real(opened)

    monkeypatch.setattr(os, "fsync", fsync)
    with building(LocalFiles(), str(tmp_path / "new")) as work:
        for name in ("a", "below/b"):
            (tmp_path / work / name).parent.mkdir(exist_ok=True)
            (tmp_path / work / name).write_bytes(b"state")
        assert synced == []
    assert {path.removeprefix(work) for path in synced} == {"", "/a", "/below", "/below/b"}
    assert (tmp_path / "new" / "below" / "b").read_bytes() == b"state"
