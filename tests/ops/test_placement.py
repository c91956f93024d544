"""A partition, a key group or a key in another's place: no job starts its keys from nothing, and verify names it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import functions as F

from holdfast.checkpoint.files.choice import files_of
from holdfast.checkpoint.labels import labels, spark_hash
from holdfast.checkpoint.layout import open_checkpoint
from holdfast.checkpoint.placement import misplaced
from holdfast.checkpoint.store.changelog import first_label
from holdfast.checkpoint.store.table_ends import table_labels
from holdfast.cli.main import main
from holdfast.errors import CorruptState, StateConflict
from holdfast.ops.move.regroup import seed_state
from holdfast.ops.move.rescale import rescale
from holdfast.ops.move.restore import savepoint_restore
from holdfast.ops.move.savepoint import savepoint_verify
from holdfast.ops.move.savepoint_file import SavepointFile, read_savepoint, write_savepoint
from holdfast.ops.reading.blobs import blobs_frame
from holdfast.ops.upkeep.verify import checkpoint_verify
from ops import jobs
from ops.checkpoints import error_of, from_json, run_job, tree


def swap(folder: Path, one: str = "0", other: str = "1") -> None:
    (folder / one).rename(folder / "aside")
    (folder / other).rename(folder / one)
    (folder / "aside").rename(folder / other)


def copy_over(folder: Path) -> None:
    shutil.rmtree(folder / "1")
    shutil.copytree(folder / "0", folder / "1")


MIXED_UP = {"swapped": (swap, ["0", "1"]), "copied": (copy_over, ["1"])}


@pytest.fixture(params=MIXED_UP)
def mixed_up(request, checkpoint):
    """A checkpoint, and which partitions of its first operator are not what they should be."""
    change, wrong = MIXED_UP[request.param]
    change(checkpoint / "state" / "0")
    return checkpoint, [str(checkpoint / "state" / "0" / number) for number in wrong]


def test_it_is_named_by_the_files_alone(mixed_up, tmp_path, capsys):
    checkpoint, wrong = mixed_up
    found = checkpoint_verify(None, str(checkpoint), files_only=True)
    assert [problem.path for problem in found.problems] == wrong
    assert "instead of its own" in found.problems[0].what
    assert found.last_whole_batch is None
    assert main(["savepoint", "create", str(checkpoint), str(tmp_path / "savepoint")]) == 1
    assert wrong[0] in error_of(capsys)
    assert not (tmp_path / "savepoint").exists()


def test_no_job_starts_on_it(spark, history, mixed_up):
    checkpoint, wrong = mixed_up
    before = tree(checkpoint)
    with pytest.raises(CorruptState, match="would start from nothing") as caught:
        run_job(spark, history.input, checkpoint)
    assert all(path in caught.value.detail for path in wrong)
    assert tree(checkpoint) == before


def test_reading_the_blobs_finds_it_too(spark, mixed_up, monkeypatch):
    """Where the files do not tell: of a form that is not known."""
    checkpoint, wrong = mixed_up
    monkeypatch.setattr("holdfast.ops.upkeep.verify.misplaced", lambda files, operator: [])
    found = checkpoint_verify(spark, str(checkpoint))
    assert [problem.path for problem in found.problems] == wrong
    assert "it belongs to partition" in found.problems[0].what
    assert found.last_whole_batch is None


def test_a_savepoint_of_it(history, tmp_path):
    """As one that was taken of it by an older Holdfast."""
    savepoint = Path(shutil.copytree(history.savepoint, tmp_path / "savepoint"))
    swap(savepoint / "state" / "0")
    files = files_of(None, str(savepoint))
    made = read_savepoint(files, str(savepoint))
    other = {"state/0/0/": "state/0/1/", "state/0/1/": "state/0/0/"}
    moved = [SavepointFile(other.get(f.path[:10], f.path[:10]) + f.path[10:], f.bytes, f.sha256) for f in made.files]
    made.files[:] = moved
    write_savepoint(files, str(savepoint), made)
    _, problems = savepoint_verify(None, str(savepoint))
    assert [problem.path for problem in problems] == [str(savepoint / "state" / "0" / number) for number in "01"]
    with pytest.raises(CorruptState, match="instead of its own"):
        savepoint_restore(None, str(savepoint), str(tmp_path / "new"))


def test_after_a_change_of_partitions(spark, checkpoint, capsys):
    """There are only snapshots of the new ones, and the old files lie beside them."""
    rescale(spark, str(checkpoint), partitions=3)
    folder = checkpoint / "state" / "0"
    assert main(["checkpoint", "verify", "--files-only", "--json", str(checkpoint)]) == 0
    assert from_json(capsys)["problems"] == []
    assert sorted(file.name for file in (folder / "2").glob("[0-9]*.*")) == ["7.zip"]
    swap(folder, "1", "2")
    found = [Path(path).name for path, _ in misplaced(files_of(None, str(checkpoint)), str(folder))]
    assert found == ["1", "2"]


def test_keys_in_another_key_group(spark, checkpoint):
    """All is whole and every key group is in its place, but two have each other's keys."""
    place = open_checkpoint(None, str(checkpoint))
    operator = next(found for found in place.operators() if found.is_a_step)
    blobs = blobs_frame(spark, place, operator.number, 5)
    one, other = sorted(row.label for row in blobs.where("name = 'head'").select("label").collect())[:2]
    exchanged = F.when(F.col("label") == one, other).when(F.col("label") == other, one).otherwise(F.col("label"))
    seed_state(spark, place, operator, 5, [blobs.withColumn("label", exchanged.cast("int")).localCheckpoint()])
    found = checkpoint_verify(spark, str(checkpoint))
    assert found.problems == []
    found = checkpoint_verify(spark, str(checkpoint), deep=True)
    assert [problem.path for problem in found.problems] == [operator.path]
    assert f"key group {one}, after micro-batch 5" in found.problems[0].what
    assert "belong to other key groups" in found.problems[0].what


def test_the_state_of_another_step(spark, tmp_path):
    """Of the same form, and all of it whole: only its name tells."""
    source, checkpoint = tmp_path / "input", tmp_path / "checkpoint"
    jobs.add_file(source, 0, [("a", 1), ("b", 2)])
    jobs.make_job(spark, source, str(checkpoint), trigger="available now", step="mine").run()
    manifest = checkpoint / "holdfast" / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"mine"', '"other"'))
    jobs.add_file(source, 1, [("a", 1)])
    with pytest.raises(StateConflict, match="'other' found the state of the step 'mine' where its own should be"):
        jobs.make_job(spark, source, str(checkpoint), trigger="available now", step="other").run()
    found = checkpoint_verify(spark, str(checkpoint))
    assert [problem.path for problem in found.problems] == [str(checkpoint / "state" / "0")]
    assert "it has state of 'mine', but the job has the steps 'other'" in found.problems[0].what


def test_what_the_files_say(history):
    """Each label that is found is one of the step's, and of that partition."""
    for operator in (0, 1):
        for partition in (0, 1):
            folder = history.checkpoint / "state" / str(operator) / str(partition)
            found = {first_label(file.read_bytes()) for file in folder.glob("[0-9]*.changelog")}
            found |= table_labels((folder / "1.zip").read_bytes())
            assert found
            assert all(spark_hash(label) % 2 == partition for label in found)
            assert found <= {label for groups in (4, 8) for label in labels(groups)}


@given(st.binary(max_size=300))
def test_of_anything_else_nothing_is_said(content):
    assert first_label(content) is None
    assert first_label(b"LZ4Block" + content) is None
    assert table_labels(content) == set()


@given(st.data())
def test_damaged_files_say_nothing_wrong(history, data):
    """Whatever is cut or altered: a label, or nothing, and never an exception."""
    folder = history.checkpoint / "state" / "0" / "0"
    for name, read in (("1.changelog", first_label), ("1.zip", table_labels)):
        content = bytearray((folder / name).read_bytes())
        at = data.draw(st.integers(0, len(content) - 1))
        content[at] ^= data.draw(st.integers(1, 255))
        read(bytes(content))
        read(bytes(content[:at]))
