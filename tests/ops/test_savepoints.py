"""Savepoints: taken while a job runs, moved, checked, and started from, in other partitions and on another backend."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from holdfast.checkpoint.lock import holding
from holdfast.cli.main import main
from holdfast.errors import CheckpointError
from holdfast.ops.move import savepoint as savepoints
from holdfast.ops.move.restore import savepoint_restore
from holdfast.ops.move.savepoint import savepoint_create, savepoint_ls, savepoint_verify
from holdfast.ops.upkeep.verify import checkpoint_verify
from ops.checkpoints import (
    PARTITIONS,
    SAVED_AFTER,
    error_of,
    from_json,
    last_batch,
    run_job,
    tree,
    without_commit,
    write,
)


def partitions_of(checkpoint: Path) -> dict[str, int]:
    found = {}
    for operator in (checkpoint / "state").iterdir():
        found[operator.name] = sum(entry.name.isdigit() for entry in operator.iterdir())
    return found


@pytest.mark.parametrize(
    ("partitions", "backend", "key_groups"),
    [
        pytest.param(5, "heap", None, marks=pytest.mark.night),
        (3, "disk", 6),
        pytest.param(8, "disk", 6, marks=pytest.mark.night),
    ],
    ids=["5 partitions", "everything else", "more partitions than key groups"],
)
def test_a_job_goes_on_from_a_savepoint_as_if_nothing_had_happened(
    spark, history, tmp_path, partitions, backend, key_groups, capsys
):
    moved = shutil.copytree(history.savepoint, tmp_path / "elsewhere")
    new = tmp_path / "new"
    options = ["--partitions", str(partitions), "--backend", backend]
    options += [] if key_groups is None else ["--key-groups", str(key_groups)]
    assert main(["savepoint", "restore", str(moved), str(new), *options, "--json"]) == 0
    made = from_json(capsys)
    assert (made["partitions"], made["batch"]) == (partitions, SAVED_AFTER)
    assert {step["backend"] for step in made["steps"].values()} == {backend}
    assert partitions_of(new) == {"0": partitions, "1": partitions}
    shutil.rmtree(moved)
    found = checkpoint_verify(spark, str(new))
    assert (found.problems, found.last_whole_batch) == ([], SAVED_AFTER)
    groups = (8, 4) if key_groups is None else (key_groups, key_groups)
    rows = run_job(spark, history.input, new, backend=backend, key_groups=groups)
    assert rows == {batch: rows for batch, rows in history.rows.items() if batch > SAVED_AFTER}


def test_a_planned_micro_batch_is_done_again_with_the_same_rows(spark, history, checkpoint, tmp_path):
    """Killed before the commit; the sink may have its rows. Other partitions, and still the same number and rows."""
    without_commit(checkpoint, 4)
    made = savepoint_create(None, str(checkpoint), str(tmp_path / "savepoint"))
    assert (made.batch, made.planned_batch) == (3, 4)
    savepoint_restore(spark, made.path, str(tmp_path / "new"), partitions=3)
    assert run_job(spark, history.input, tmp_path / "new") == {b: rows for b, rows in history.rows.items() if b > 3}


def test_what_a_savepoint_has(history, capsys):
    assert main(["savepoint", "ls", str(history.savepoint), "--json"]) == 0
    [made] = from_json(capsys)["savepoints"]
    assert (made["job"], made["batch"], made["partitions"]) == ("history", SAVED_AFTER, PARTITIONS)
    assert made["watermark_millis"] == 69_000
    assert made["steps"] == {"cells": {"backend": "heap", "key_groups": 8}, "totals": {"backend": "heap", "key_groups": 4}}
    files = {name for name in tree(history.savepoint) if not name.startswith(("sources", "state"))}
    wanted = {f"{log}/{batch}" for log in ("offsets", "commits") for batch in (0, 1)}
    assert files - wanted == {"metadata", "holdfast/manifest.json", "savepoint.json", "offsets/2"}
    assert {name for name in tree(history.savepoint / "state") if name.endswith("changelog")} <= {
        f"{operator}/{partition}/{version}.changelog" for operator in (0, 1) for partition in (0, 1) for version in (1, 2)
    }


def test_an_earlier_micro_batch(checkpoint, tmp_path, capsys):
    assert main(["savepoint", "create", str(checkpoint), str(tmp_path / "a" / "b"), "--batch", "3", "--json"]) == 0
    made = from_json(capsys)
    assert (made["batch"], made["planned_batch"]) == (3, 4)
    assert main(["savepoint", "restore", str(tmp_path / "a" / "b"), str(tmp_path / "new")]) == 0
    found = checkpoint_verify(None, str(tmp_path / "new"), files_only=True)
    assert (found.problems, len(found.notes), found.last_whole_batch) == ([], 1, 3)
    before = tree(checkpoint)
    assert main(["savepoint", "create", str(checkpoint), str(tmp_path / "c"), "--batch", "17"]) == 1
    assert "it has 0 to 5" in error_of(capsys)
    assert tree(checkpoint) == before
    assert not (tmp_path / "c").exists()


def test_the_query_id(history, tmp_path):
    ids = []
    for name, options in {"kept": [], "new": ["--new-query-id"]}.items():
        assert main(["savepoint", "restore", str(history.savepoint), str(tmp_path / name), *options]) == 0
        ids.append(json.loads((tmp_path / name / "metadata").read_text())["id"])
    kept, new = ids
    assert kept == json.loads((history.checkpoint / "metadata").read_text())["id"]
    assert new != kept


def test_a_list_of_savepoints(history, tmp_path, capsys):
    for name in ("b", "a", "damaged", "c.unfinished-1234"):
        shutil.copytree(history.savepoint, tmp_path / name)
    write(tmp_path / "damaged" / "savepoint.json", b"{")
    (tmp_path / "something else").mkdir()
    found, unusable = savepoint_ls(None, str(tmp_path))
    assert [Path(made.path).name for made in found] == ["a", "b"]
    assert [Path(problem.path).name for problem in unusable] == ["c.unfinished-1234", "damaged"]
    assert main(["savepoint", "ls", str(tmp_path)]) == 0
    assert "history" in capsys.readouterr().out
    assert main(["savepoint", "ls", str(tmp_path / "nowhere")]) == 1
    assert "There is no directory" in error_of(capsys)


def test_every_kind_of_damage_is_named(history, tmp_path, capsys):
    copy = shutil.copytree(history.savepoint, tmp_path / "copy")
    flipped, cut, gone = (copy / name for name in ("offsets/1", "commits/1", "sources/0/0"))
    content = bytearray(flipped.read_bytes())
    content[20] ^= 1
    flipped.write_bytes(content)
    cut.write_bytes(cut.read_bytes()[:-1])
    gone.unlink()
    (copy / "extra").write_bytes(b"")
    _, problems = savepoint_verify(None, str(copy))
    assert {problem.path: problem.what.split()[1] for problem in problems} == {
        str(flipped): "bytes",
        str(cut): "has",
        str(gone): "is",
        str(copy / "extra"): "does",
    }
    before = tree(copy)
    assert main(["savepoint", "verify", str(copy), "--json"]) == 1
    assert len(from_json(capsys)["problems"]) == 4
    assert main(["savepoint", "restore", str(copy), str(tmp_path / "new")]) == 1
    assert "is damaged" in error_of(capsys)
    assert not (tmp_path / "new").exists()
    assert tree(copy) == before
    assert main(["savepoint", "verify", str(history.savepoint)]) == 0


@pytest.mark.parametrize(
    ("content", "said"),
    [(b'{"savepoint_version": 99}', "has version 99"), (b'{"savepoint_ver', "cut short"), (None, "is not a savepoint")],
)
def test_a_foreign_or_half_made_savepoint(history, tmp_path, capsys, content, said):
    copy = shutil.copytree(history.savepoint, tmp_path / "copy")
    if content is None:
        (copy / "savepoint.json").unlink()
    else:
        (copy / "savepoint.json").write_bytes(content)
    for command in (["verify", str(copy)], ["restore", str(copy), str(tmp_path / "new")]):
        assert main(["savepoint", *command]) == 1
        assert said in error_of(capsys)
    assert not (tmp_path / "new").exists()


def test_an_altered_description(history, tmp_path, capsys):
    copy = shutil.copytree(history.savepoint, tmp_path / "copy")
    text = (copy / "savepoint.json").read_text()
    (copy / "savepoint.json").write_text(text.replace('"batch": 1', '"batch": 0'))
    assert main(["savepoint", "verify", str(copy)]) == 1
    assert "does not match its digest" in error_of(capsys)


def test_a_place_that_is_taken(history, checkpoint, tmp_path, capsys):
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").write_bytes(b"mine")
    assert main(["savepoint", "create", str(checkpoint), str(tmp_path / "taken")]) == 1
    assert "There is something at" in error_of(capsys)
    assert main(["savepoint", "restore", str(history.savepoint), str(tmp_path / "taken")]) == 1
    assert "There is something at" in error_of(capsys)
    assert tree(tmp_path / "taken").keys() == {"file"}
    (tmp_path / "empty").mkdir()
    assert main(["savepoint", "create", str(checkpoint), str(tmp_path / "empty")]) == 0


def test_bad_input(history, checkpoint, tmp_path, capsys):
    assert main(["savepoint", "create", str(tmp_path / "nowhere"), str(tmp_path / "new")]) == 1
    assert "There is nothing at" in error_of(capsys)
    assert main(["savepoint", "create", str(history.input), str(tmp_path / "new"), "--json"]) == 1
    assert "is not a checkpoint" in json.loads(error_of(capsys))["error"]["what"]
    assert main(["savepoint", "restore", str(checkpoint), str(tmp_path / "new")]) == 1
    assert "is not a savepoint" in error_of(capsys)
    assert main(["savepoint", "restore", str(history.savepoint), str(tmp_path / "new"), "--backend", "paper"]) == 1
    assert "the backend 'paper'" in error_of(capsys)
    assert main(["savepoint", "restore", str(history.savepoint), str(tmp_path / "new"), "--partitions", "0"]) == 2
    assert not (tmp_path / "new").exists()


def test_a_damaged_checkpoint_makes_no_savepoint(checkpoint, tmp_path, capsys):
    write(checkpoint / "commits" / "5", b"")
    before = tree(checkpoint)
    assert main(["savepoint", "create", str(checkpoint), str(tmp_path / "new")]) == 1
    assert f"{str(checkpoint / 'commits' / '5')!r} is damaged: it is empty" in error_of(capsys)
    (checkpoint / "commits" / "5").unlink()
    changelog = checkpoint / "state" / "0" / "1" / "5.changelog"
    content = bytearray(changelog.read_bytes())
    content[30] ^= 1
    changelog.write_bytes(content)
    assert main(["savepoint", "create", str(checkpoint), str(tmp_path / "new")]) == 1
    assert str(changelog) in error_of(capsys)
    changelog.unlink()
    assert main(["savepoint", "create", str(checkpoint), str(tmp_path / "new")]) == 1
    assert "--batch 3" in error_of(capsys)
    assert list(tmp_path.iterdir()) == [checkpoint]
    assert main(["savepoint", "create", str(checkpoint), str(tmp_path / "new"), "--batch", "3"]) == 0
    assert tree(checkpoint).keys() == before.keys() - {"commits/5", "state/0/1/5.changelog"}


def test_files_that_a_running_job_removes(checkpoint, tmp_path, monkeypatch):
    """Its maintenance may be faster than the copy."""
    real, removed = savepoints.copy_file, []

    def copy_file(source, path, target, to):
        if path.endswith("/commits/4") and not removed:
            removed.append(path)
            os.unlink(path)
        real(source, path, target, to)

    monkeypatch.setattr(savepoints, "copy_file", copy_file)
    with pytest.raises(CheckpointError, match="removed what is needed of micro-batch 4"):
        savepoint_create(None, str(checkpoint), str(tmp_path / "given"), batch=4)
    removed.clear()
    (checkpoint / "commits" / "4").write_bytes((checkpoint / "commits" / "5").read_bytes())
    shutil.rmtree(checkpoint / "state" / "0" / "0" / "SSTs")
    (checkpoint / "state" / "0" / "0" / "1.zip").unlink()

    def commits_meanwhile(source, path, target, to):
        if path.endswith("/commits/4") and not removed:
            removed.append(path)
            content = (checkpoint / "commits" / "4").read_bytes()
            (checkpoint / "commits" / "4").unlink()
            try:
                real(source, path, target, to)
            finally:
                write(checkpoint / "commits" / "4", content)
        real(source, path, target, to)

    monkeypatch.setattr(savepoints, "copy_file", commits_meanwhile)
    assert savepoint_create(None, str(checkpoint), str(tmp_path / "newest")).batch == 5
    assert removed
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["checkpoint", "newest"]


def test_neither_a_lock_nor_a_rescaling_is_part_of_it(checkpoint, tmp_path):
    offsets = (checkpoint / "offsets" / "5").read_text()
    write(checkpoint / "offsets" / "6", offsets.replace('shuffle.partitions":"2"', 'shuffle.partitions":"3"').encode())
    with holding(None, str(checkpoint), "job history"):
        made = savepoint_create(None, str(checkpoint), str(tmp_path / "new"))
    assert (made.batch, made.planned_batch) == (5, None)
    assert not [name for name in tree(tmp_path / "new") if "lock" in name or name == "offsets/6"]


def test_a_full_disk(history, checkpoint, small_disk, capsys):
    before = tree(checkpoint)
    assert main(["savepoint", "create", str(checkpoint), str(small_disk / "new")]) == 1
    assert "could not be written: No space left on device" in error_of(capsys)
    assert main(["savepoint", "restore", str(history.savepoint), str(small_disk / "new")]) == 1
    assert "free some space there" in error_of(capsys)
    assert list(small_disk.iterdir()) == []
    assert tree(checkpoint) == before


def test_no_permission(history, checkpoint, tmp_path, capsys):
    if os.geteuid() == 0:
        # Root may write anywhere, but not into the system's own.
        place = Path("/proc/holdfast")
    else:
        place = tmp_path / "closed" / "new"
        place.parent.mkdir(mode=0o500)
    before = tree(checkpoint)
    assert main(["savepoint", "create", str(checkpoint), str(place)]) == 1
    assert "could not be written" in error_of(capsys)
    assert main(["savepoint", "restore", str(history.savepoint), str(place)]) == 1
    assert "could not be written" in error_of(capsys)
    assert tree(checkpoint) == before


def test_the_history_was_left_alone(history):
    assert last_batch(history.checkpoint) == 5
    assert checkpoint_verify(None, str(history.checkpoint), files_only=True).is_whole
    assert savepoint_verify(None, str(history.savepoint))[1] == []
