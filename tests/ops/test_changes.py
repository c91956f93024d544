"""What each micro-batch changed of the state: as a DataFrame, and as a stream that follows a job."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from holdfast.errors import CheckpointError, InputError
from holdfast.ops import read_changes, stream_changes
from holdfast.ops.inspect import change_frames

from .oracle import states
from .shared import BATCHES, copied, payments

LAST = BATCHES
"""The watermark makes one more micro-batch, without data."""


@pytest.fixture(scope="module")
def checkpoint():
    return payments().checkpoint


@pytest.fixture(scope="module")
def everything(spark, checkpoint):
    """The changes of all micro-batches."""
    return sorted(map(plain, read_changes(spark, checkpoint, -1).collect()), key=str)


def plain(row) -> tuple:
    start = None if row.window is None else int(row.window.start.timestamp())
    return (row.batch, row.step, row.key, start, row.cell, row.kind, row.change, row.before, row.after)


def truncated(path: Path, last: int) -> Path:
    """The checkpoint as it was when its last micro-batch was this one."""
    aside = path.parent / "later"
    for log in ("commits", "offsets"):
        (aside / log).mkdir(parents=True, exist_ok=True)
        for file in (path / log).iterdir():
            number = file.name.strip(".").removesuffix(".crc")
            if number.isdigit() and int(number) > last:
                file.rename(aside / log / file.name)
    return aside


def put_back(path: Path, aside: Path) -> None:
    for log in ("offsets", "commits"):
        for file in (aside / log).iterdir():
            file.rename(path / log / file.name)


class Follower:
    """A query that writes what it is given as JSON."""

    def __init__(self, spark, checkpoint: Path, folder: Path, **options):
        self.spark, self.folder, self.followed, self.options = spark, folder, str(checkpoint), options

    def run(self) -> None:
        changes = stream_changes(self.spark, self.followed, **self.options)
        writer = changes.writeStream.format("json").option("checkpointLocation", str(self.folder / "own"))
        writer.trigger(availableNow=True).start(str(self.folder / "rows")).awaitTermination()

    def rows(self) -> list[tuple]:
        schema = change_frames.CHANGES_SCHEMA
        return sorted(map(plain, self.spark.read.schema(schema).json(str(self.folder / "rows")).collect()), key=str)


def test_each_micro_batch_by_itself(everything):
    """Against a model that knows nothing of Holdfast."""
    known = [{}, *states(BATCHES)]
    for batch in range(LAST + 1):
        before, after = known[batch], known[batch + 1]
        expected = {
            place: "added" if place not in before else "changed" if place in after else "removed"
            for place in before.keys() | after.keys()
            if before.get(place) != after.get(place)
        }
        found = {row[1:5]: row[6] for row in everything if row[0] == batch and row[4] != "secret"}
        assert found == expected


def test_the_values(everything):
    known = [{}, *states(BATCHES)]
    numbers = [row for row in everything if row[4] in ("count", "total")]
    assert {row[6] for row in numbers} == {"added", "changed", "removed"}
    for batch, step, key, start, cell, _, _, before, after in numbers:
        place = (step, key, start, cell)
        assert (None if before is None else json.loads(before)) == known[batch].get(place)
        assert (None if after is None else json.loads(after)) == known[batch + 1].get(place)


def test_some_of_it(spark, checkpoint, everything):
    found = sorted(map(plain, read_changes(spark, checkpoint, 1, 3, step="running").collect()), key=str)
    assert found == [row for row in everything if row[1] == "running" and 1 < row[0] <= 3]
    assert found
    assert read_changes(spark, checkpoint, 2, 2).count() == 0


@pytest.mark.night
def test_the_same_through_spark(spark, checkpoint, everything, monkeypatch):
    """As for a remote checkpoint."""
    monkeypatch.setattr(change_frames, "_is_direct", lambda *arguments: False)
    assert sorted(map(plain, read_changes(spark, checkpoint, -1).collect()), key=str) == everything


def test_what_cannot_be_read(spark, checkpoint, tmp_path):
    with pytest.raises(CheckpointError, match="comes before micro-batch 3"):
        read_changes(spark, checkpoint, 3, 1)
    with pytest.raises(CheckpointError, match="The state after micro-batch 99 is not in"):
        read_changes(spark, checkpoint, 1, 99)
    with pytest.raises(CheckpointError, match="has no step 'nothing'"):
        read_changes(spark, checkpoint, 0, step="nothing")
    with pytest.raises(InputError, match="only in local files"):
        stream_changes(spark, "s3a://bucket/checkpoint")


def test_a_stream_has_every_change_once(spark, everything, tmp_path):
    path = Path(copied(tmp_path / "copy"))
    aside = truncated(path, 1)
    follower = Follower(spark, path, tmp_path, after=-1)
    follower.run()
    assert follower.rows() == [row for row in everything if row[0] <= 1]
    follower.run()
    put_back(path, aside)
    follower.run()
    assert follower.rows() == everything


@pytest.mark.night
def test_a_stream_begins_where_the_job_is(spark, everything, tmp_path):
    path = Path(copied(tmp_path / "copy"))
    aside = truncated(path, 2)
    follower = Follower(spark, path, tmp_path, step="running")
    follower.run()
    assert follower.rows() == []
    put_back(path, aside)
    follower.run()
    assert follower.rows() == [row for row in everything if row[0] > 2 and row[1] == "running"]


@pytest.mark.night
def test_state_that_an_operator_replaced(spark, everything, tmp_path):
    """What that changed is in no micro-batch: so the stream says so, and goes on only if it is told to."""
    path = Path(copied(tmp_path / "copy"))
    aside = truncated(path, 2)
    Follower(spark, path, tmp_path).run()
    put_back(path, aside)
    os.utime(path / "state", (1_700_000_000, 1_700_000_000))
    with pytest.raises(Exception, match="was replaced since micro-batch 2 was read"):
        Follower(spark, path, tmp_path).run()
    follower = Follower(spark, path, tmp_path, accept_replaced=True)
    follower.run()
    assert follower.rows() == [row for row in everything if row[0] > 2]


@pytest.mark.night
def test_a_stream_that_fell_behind(spark, tmp_path):
    path = Path(copied(tmp_path / "copy"))
    aside = truncated(path, 0)
    Follower(spark, path, tmp_path).run()
    put_back(path, aside)
    for log in ("commits", "offsets"):
        for file in (path / log).iterdir():
            if file.name.strip(".").removesuffix(".crc") in ("0", "1"):
                file.unlink()
    with pytest.raises(Exception, match="The state after micro-batch 0 is not in"):
        Follower(spark, path, tmp_path).run()


def test_a_job_that_went_back(spark, tmp_path):
    path = Path(copied(tmp_path / "copy"))
    Follower(spark, path, tmp_path).run()
    truncated(path, 1)
    with pytest.raises(Exception, match=f"were read up to micro-batch {LAST}, but its last one is 1"):
        Follower(spark, path, tmp_path).run()
