"""`holdfast rescale`: state in other partitions and key groups, in place; nothing is lost whatever happens on the way."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.checkpoint.layout import open_checkpoint
from holdfast.checkpoint.lock import current_lock, holding
from holdfast.cli.main import main
from holdfast.errors import CheckpointError, HoldfastError
from holdfast.ops.move import repartition as spark_repartition
from holdfast.ops.move import restore as restoring
from holdfast.ops.move.rescale import rescale
from holdfast.ops.move.restore import savepoint_restore
from holdfast.ops.upkeep.verify import checkpoint_verify
from ops.checkpoints import SAVED_AFTER, error_of, from_json, last_batch, moved_copy, run_job, tree, without_commit, write


def blobs_of(spark, checkpoint: Path, batch: int) -> dict[int, list[tuple]]:
    """All state that a step keeps, whatever partition it is in, by operator."""
    found = {}
    for operator in (0, 1):
        reader = spark.read.format("statestore").option("operatorId", operator).option("batchId", batch)
        rows = reader.option("stateVarName", "blobs").load(str(checkpoint)).collect()
        found[operator] = sorted((row.key.label, row.user_map_key.name, bytes(row.user_map_value.blob)) for row in rows)
    return found


def test_a_job_goes_on_in_other_partitions(spark, history, tmp_path, capsys):
    """Also its timers: they fire when they would have."""
    new = tmp_path / "new"
    savepoint_restore(None, str(history.savepoint), str(new))
    for name in ("offsets/2", "offsets/.2.crc"):
        (new / name).unlink(missing_ok=True)
    assert main(["rescale", str(new), "--partitions", "5", "--json"]) == 0
    done = from_json(capsys)
    assert (done["partitions"], done["batch"]) == (5, SAVED_AFTER + 1)
    assert done["key_groups"] == {"cells": 8, "totals": 4}
    assert current_lock(None, str(new)) is None
    assert main(["rescale", str(new), "--partitions", "3"]) == 0
    checkpoint = open_checkpoint(None, str(new))
    assert checkpoint.retained() == list(range(SAVED_AFTER + 3))
    rows = run_job(spark, history.input, new)
    assert sorted(row for batch in rows.values() for row in batch) == history.after(SAVED_AFTER)
    found = checkpoint_verify(spark, str(new), deep=True)
    assert (found.problems, found.whole_batches) == ([], list(range(max(rows) + 1)))


def test_the_same_number_changes_nothing(spark, checkpoint):
    before = tree(checkpoint)
    assert rescale(spark, str(checkpoint), partitions=2).batch == 5
    assert tree(checkpoint) == before


def test_a_planned_micro_batch_is_in_the_way(spark, checkpoint, capsys):
    without_commit(checkpoint, 4)
    before = tree(checkpoint)
    assert main(["rescale", str(checkpoint), "--partitions", "3"]) == 1
    said = error_of(capsys)
    assert "Micro-batch 4" in said
    assert "is planned and not committed" in said
    assert "available now" in said
    assert tree(checkpoint) == before


def killed(spark, checkpoint: Path, partitions: int) -> None:
    """As it is when the process was killed while partitions were written."""
    rescale(spark, str(checkpoint), partitions=partitions)
    without_commit(checkpoint, last_batch(checkpoint))
    shutil.rmtree(checkpoint / "state" / "0" / str(partitions - 1))


@pytest.mark.night
def test_killed_on_the_way(spark, history, checkpoint, tmp_path, capsys):
    before = blobs_of(spark, checkpoint, 5)
    killed(spark, checkpoint, 5)
    # No job can start, and no tool takes it for something else.
    with pytest.raises(CheckpointError, match="from 2 to 5 partitions was not finished"):
        run_job(spark, history.input, checkpoint)
    assert [
        note for note in checkpoint_verify(None, str(checkpoint), files_only=True).notes if "holdfast rescale again" in note
    ]
    assert main(["rescale", str(checkpoint), "--key-groups", "4"]) == 1
    assert "--partitions 5" in error_of(capsys)
    other = moved_copy(checkpoint, tmp_path / "other")
    assert rescale(spark, str(checkpoint), partitions=5).batch == 6
    assert blobs_of(spark, checkpoint, 6) == before
    # With another number, the attempt is taken back first.
    assert rescale(spark, str(other), partitions=3).partitions == 3
    assert blobs_of(spark, other, 6) == before
    assert not list(other.glob("state/*/[34]"))
    for path in (checkpoint, other):
        assert checkpoint_verify(spark, str(path)).problems == []


def test_a_failure_leaves_everything_as_it_was(spark, checkpoint, monkeypatch, capsys):
    """Spark has written everything but the commit."""
    real = spark_repartition.repartition

    def fails(session, path, partitions):
        real(session, path, partitions)
        without_commit(checkpoint, last_batch(checkpoint))
        raise CheckpointError("The disk is on fire.")

    before = tree(checkpoint)
    # The package has a function of the same name as the module.
    monkeypatch.setattr(sys.modules["holdfast.ops.move.rescale"], "repartition", fails)
    assert main(["rescale", str(checkpoint), "--partitions", "4"]) == 1
    assert "on fire" in error_of(capsys)
    assert tree(checkpoint) == before
    assert current_lock(None, str(checkpoint)) is None


def test_a_full_disk(spark, history, tmp_path, capsys):
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", place], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("a small file system cannot be mounted here")
    try:
        checkpoint = moved_copy(history.checkpoint, place / "checkpoint")
        (place / "filler").write_bytes(bytes(shutil.disk_usage(place).free - 12 * 4096))
        before = tree(checkpoint)
        assert main(["rescale", str(checkpoint), "--partitions", "6"]) == 1
        assert "No space left on device" in error_of(capsys)
        assert tree(checkpoint) == before
    finally:
        # Lazily: Spark may still have a file open that it could not write.
        subprocess.run(["umount", "-l", place], check=True)


def test_a_locked_checkpoint(spark, checkpoint, capsys):
    before = tree(checkpoint)
    with holding(None, str(checkpoint), "job history"):
        assert main(["rescale", str(checkpoint), "--partitions", "3"]) == 1
    assert "is in use: job history" in error_of(capsys)
    assert tree(checkpoint) == before


def test_bad_input(spark, history, checkpoint, tmp_path, capsys):
    assert main(["rescale", str(tmp_path / "nowhere"), "--partitions", "3"]) == 1
    assert "There is nothing at" in error_of(capsys)
    assert main(["rescale", str(history.input), "--partitions", "3"]) == 1
    assert "is not a checkpoint" in error_of(capsys)
    assert main(["rescale", str(checkpoint)]) == 2
    assert main(["rescale", str(checkpoint), "--partitions", "0"]) == 2
    capsys.readouterr()
    (checkpoint / "state" / "0" / "0" / "5.changelog").unlink()
    before = tree(checkpoint)
    assert main(["rescale", str(checkpoint), "--partitions", "3"]) == 1
    assert "5.changelog" in error_of(capsys)
    assert tree(checkpoint) == before
    manifest = json.loads((checkpoint / "holdfast" / "manifest.json").read_text())
    write(checkpoint / "holdfast" / "manifest.json", json.dumps({**manifest, "manifest_version": 7}).encode())
    assert main(["rescale", str(checkpoint), "--partitions", "3"]) == 1
    assert "has version 7" in error_of(capsys)


def test_another_spark(spark, monkeypatch):
    monkeypatch.setattr(spark_repartition.pyspark, "__version__", "5.0.0")
    with pytest.raises(HoldfastError, match=r"with PySpark 5\.0\.0"):
        spark_repartition.repartition(spark, "anywhere", 3)


@pytest.fixture
def regrouping(monkeypatch):
    """In the place of what regroups: notes the key groups in the manifest, and leaves the state alone."""

    def regroup(spark, path, key_groups):
        file = Path(path) / "holdfast" / "manifest.json"
        manifest = json.loads(file.read_text())
        for step in manifest["steps"].values():
            step["key_groups"] = key_groups
        file.write_text(json.dumps(manifest))

    monkeypatch.setattr(restoring, "regroup", regroup)


def test_key_groups_take_the_place_of_the_state(spark, checkpoint, regrouping):
    before = blobs_of(spark, checkpoint, 5)
    assert rescale(spark, str(checkpoint), key_groups=16).key_groups == {"cells": 16, "totals": 16}
    assert blobs_of(spark, checkpoint, 5) == before
    assert sorted(entry.name for entry in (checkpoint / "holdfast").iterdir()) == [
        "graph.json",
        "history",
        "manifest.json",
        "turn.json",
    ]
    assert checkpoint_verify(spark, str(checkpoint)).problems == []


@pytest.mark.parametrize("moves", [0, 1, 2])
def test_regrouping_is_killed(spark, checkpoint, regrouping, monkeypatch, moves):
    """Before the first rename, between the two, and after them."""
    files = type(open_checkpoint(None, str(checkpoint)).files)
    real, done = files.move, []

    class Killed(BaseException):
        pass

    def move(self, path, to):
        if ".unfinished-" not in path:
            if len(done) == moves:
                raise Killed
            done.append(to)
        real(self, path, to)
        if len(done) == moves == 2:
            raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(files, "move", move)
        with pytest.raises(Killed):
            rescale(spark, str(checkpoint), key_groups=16)
    assert rescale(spark, str(checkpoint), partitions=2).key_groups["cells"] == (16 if moves == 2 else 8)
    assert sorted(entry.name for entry in (checkpoint / "holdfast").iterdir()) == [
        "graph.json",
        "history",
        "manifest.json",
        "turn.json",
    ]
    found = checkpoint_verify(None, str(checkpoint), files_only=True)
    assert (found.problems, found.last_whole_batch) == ([], 5)
