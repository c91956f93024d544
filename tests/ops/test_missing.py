"""What should be in a checkpoint or savepoint and is not: it is named, and nothing is made of the rest."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from holdfast.checkpoint.files.choice import files_of
from holdfast.checkpoint.layout import open_checkpoint, spans
from holdfast.cli.main import main
from holdfast.errors import CheckpointError, CorruptState
from holdfast.ops.inspect.compare import state_diff, state_history
from holdfast.ops.inspect.showing import state_show
from holdfast.ops.inspect.state_frame import read_state
from holdfast.ops.move.export import state_export
from holdfast.ops.move.restore import savepoint_restore
from holdfast.ops.move.savepoint import savepoint_create, savepoint_verify
from holdfast.ops.move.savepoint_file import SavepointFile, read_savepoint, write_savepoint
from holdfast.ops.upkeep.verify import checkpoint_verify
from ops.checkpoints import error_of

GONE = [
    "state",
    "state/0",
    "state/1",
    "state/0/1",
    "state/0/_metadata",
    "state/1/_metadata/v2",
    "state/0/_stateSchema",
    "sources",
    "sources/0",
    "sources/0/2",
]


def remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def named(problems, root: Path) -> list[str]:
    return [str(Path(problem.path).relative_to(root)) for problem in problems]


@pytest.mark.parametrize("gone", GONE)
def test_a_checkpoint_without_it_is_not_whole(checkpoint, tmp_path, gone, capsys):
    remove(checkpoint / gone)
    found = checkpoint_verify(None, str(checkpoint), files_only=True)
    assert found.problems
    assert all(
        name.startswith(gone.removesuffix("/v2")) or name == "sources/0" for name in named(found.problems, checkpoint)
    )
    assert found.last_whole_batch is None or gone == "sources/0/2"
    assert main(["checkpoint", "verify", "--files-only", str(checkpoint)]) == 1
    capsys.readouterr()
    assert main(["savepoint", "create", str(checkpoint), str(tmp_path / "savepoint")]) == 1
    assert gone.removesuffix("/v2") in error_of(capsys)
    assert not (tmp_path / "savepoint").exists()


@pytest.mark.parametrize("gone", GONE)
def test_a_savepoint_that_was_made_without_it_is_refused(history, tmp_path, gone, capsys):
    """As one that an older Holdfast has made: all files that it says it has are there."""
    savepoint = Path(shutil.copytree(history.savepoint, tmp_path / "savepoint"))
    remove(savepoint / gone)
    files = files_of(None, str(savepoint))
    made = read_savepoint(files, str(savepoint))
    kept = [file for file in made.files if (savepoint / file.path).exists()]
    assert len(kept) < len(made.files)
    made.files[:] = kept
    write_savepoint(files, str(savepoint), made)
    _, problems = savepoint_verify(None, str(savepoint))
    assert problems
    assert main(["savepoint", "verify", str(savepoint)]) == 1
    with pytest.raises(CorruptState, match="missing"):
        savepoint_restore(None, str(savepoint), str(tmp_path / "new"))
    assert not (tmp_path / "new").exists()


def test_a_savepoint_without_its_manifest(history, tmp_path):
    savepoint = Path(shutil.copytree(history.savepoint, tmp_path / "savepoint"))
    files = files_of(None, str(savepoint))
    made = read_savepoint(files, str(savepoint))
    remove(savepoint / "holdfast" / "manifest.json")
    made.files[:] = [file for file in made.files if file.path != "holdfast/manifest.json"]
    write_savepoint(files, str(savepoint), made)
    _, problems = savepoint_verify(None, str(savepoint))
    assert named(problems, savepoint) == ["holdfast/manifest.json"]


def test_a_savepoint_with_the_state_of_another_micro_batch(history, tmp_path):
    """Every file is as it was, and belongs to the savepoint; but the last changelog is of another version."""
    savepoint = Path(shutil.copytree(history.savepoint, tmp_path / "savepoint"))
    (savepoint / "state/0/0/2.changelog").rename(savepoint / "state/0/0/3.changelog")
    files = files_of(None, str(savepoint))
    made = read_savepoint(files, str(savepoint))
    made.files[:] = [
        SavepointFile(file.path.replace("0/0/2.change", "0/0/3.change"), file.bytes, file.sha256) for file in made.files
    ]
    write_savepoint(files, str(savepoint), made)
    assert named(savepoint_verify(None, str(savepoint))[1], savepoint) == ["state/0/0/2.changelog"]


def test_offsets_and_commits_that_are_all_gone(checkpoint):
    for log, others in (("offsets", "commits"), ("commits", "offsets")):
        copy = Path(shutil.copytree(checkpoint, checkpoint.with_name(log)))
        for file in (copy / log).iterdir():
            file.unlink()
        found = named(checkpoint_verify(None, str(copy), files_only=True).problems, copy)
        # The last plan may be one that was not done.
        wanted = range(6 if log == "offsets" else 5)
        assert sorted(found) == [f"{log}/{number}" for number in wanted], others


def test_two_planned_micro_batches_are_not_normal(checkpoint):
    for number in (4, 5):
        remove(checkpoint / "commits" / str(number))
    assert named(checkpoint_verify(None, str(checkpoint), files_only=True).problems, checkpoint) == ["commits/4"]


def test_a_snapshot_is_missing_and_the_changelogs_begin_after_it(checkpoint):
    """Then it is the snapshot that is named."""
    folder = checkpoint / "state" / "0" / "1"
    for version in range(1, 4):
        remove(folder / f"{version}.changelog")
    (folder / "1.zip").rename(folder / "3.zip")
    (folder / ".1.zip.crc").unlink()
    assert open_checkpoint(None, str(checkpoint)).retained() == [2, 3, 4, 5]
    (folder / "3.zip").unlink()
    with pytest.raises(CorruptState, match=r"3\.zip' is missing"):
        open_checkpoint(None, str(checkpoint)).check_batch(None)


def test_an_older_micro_batch_is_never_given_instead(spark, checkpoint, tmp_path):
    """Neither by those who ask for the last one, nor by those who ask for one that cannot be read."""
    missing = checkpoint / "state" / "0" / "1" / "6.changelog"
    remove(missing)
    path = str(checkpoint)
    readers = [
        lambda: read_state(spark, path),
        lambda: read_state(spark, path, 5),
        lambda: state_show(spark, path),
        lambda: state_diff(spark, path, 3, 5),
        lambda: state_history(spark, path, "k1"),
        lambda: state_export(spark, path, str(tmp_path / "export")),
        lambda: savepoint_create(None, path, str(tmp_path / "savepoint")),
    ]
    for read in readers:
        with pytest.raises(CorruptState) as caught:
            read()
        assert str(missing) in caught.value.what
        assert "--batch 4" in caught.value.todo
    assert read_state(spark, path, 4).count() > 0
    assert list(tmp_path.iterdir()) == [checkpoint]


def test_a_hole_in_the_history(spark, checkpoint):
    """A micro-batch in between cannot be read: what it changed would be told of the next one."""
    folder = checkpoint / "state" / "0" / "1"
    shutil.copy(folder / "1.zip", folder / "5.zip")
    remove(folder / "4.changelog")
    assert open_checkpoint(None, str(checkpoint)).retained() == [0, 1, 2, 4, 5]
    with pytest.raises(CorruptState, match=r"micro-batch 3 .*4\.changelog' is missing"):
        state_history(spark, str(checkpoint), "k1")


def test_what_was_removed_in_good_order_is_no_damage(checkpoint):
    """Of the oldest micro-batches the state is gone, as Spark does it."""
    for partition in checkpoint.glob("state/*/[01]"):
        shutil.copy(partition / "1.zip", partition / "3.zip")
        for name in ("1.zip", "1.changelog", "2.changelog"):
            (partition / name).unlink()
    assert checkpoint_verify(None, str(checkpoint), files_only=True).problems == []
    place = open_checkpoint(None, str(checkpoint))
    assert place.check_history() == [2, 3, 4, 5]
    with pytest.raises(CheckpointError, match="it has 2 to 5"):
        place.check_batch(1)


def test_a_running_job_may_commit_while_one_looks(checkpoint, monkeypatch):
    """State of an older micro-batch goes while it is looked at; then it is looked at again."""
    place = open_checkpoint(None, str(checkpoint))
    real, seen = place.missing_state, []

    def missing_state():
        seen.append(1)
        if len(seen) == 1:
            return {4: ["a file that is gone by now"]}
        return real()

    monkeypatch.setattr(place, "missing_state", missing_state)
    assert place.check_batch(None) == 5
    assert len(seen) == 2


def test_a_file_source_that_has_put_its_log_together(checkpoint):
    folder = checkpoint / "sources" / "0"
    for number in range(4):
        remove(folder / str(number))
    (folder / "3.compact").write_text("v1\n{}")
    assert checkpoint_verify(None, str(checkpoint), files_only=True).problems == []
    remove(folder / "4")
    assert named(checkpoint_verify(None, str(checkpoint), files_only=True).problems, checkpoint) == ["sources/0/4"]


def test_of_other_sources_nothing_is_expected(checkpoint):
    shutil.rmtree(checkpoint / "sources")
    for file in (checkpoint / "offsets").iterdir():
        if file.name.isdigit():
            version, head, _ = file.read_text().split("\n")
            file.write_text("\n".join([version, head, json.dumps({"topic": {"0": 5}})]))
            file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    assert checkpoint_verify(None, str(checkpoint), files_only=True).problems == []


@pytest.mark.parametrize(
    ("numbers", "text"), [([], "none"), ([3], "3"), ([1, 2], "1 to 2"), ([0, 1, 2, 5, 7, 8], "0 to 2, 5, 7 to 8")]
)
def test_numbers_in_few_words(numbers, text):
    assert spans(numbers) == text
