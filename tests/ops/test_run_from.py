"""`holdfast run -s`: a job that begins from a savepoint, and goes on with it when the command is given again."""

from __future__ import annotations

import json
import shutil
import textwrap

import pytest

from holdfast.checkpoint import destination
from holdfast.cli.main import main
from holdfast.errors import CheckpointError
from holdfast.ops.move.begin_from import BeginFrom
from holdfast.ops.move.savepoint import savepoint_create
from ops.checkpoints import SAVED_AFTER, last_batch, tree, without_commit


@pytest.fixture
def command(history, tmp_path):
    """Runs the job's script with `holdfast run`; returns the exit code and the rows by micro-batch."""
    script, rows = tmp_path / "job.py", tmp_path / "rows.json"
    script.write_text(
        textwrap.dedent(f"""
            import json, sys
            from pathlib import Path
            from holdfast.testing.spark_runtime import scripted_session
            from ops.checkpoints import run_job
            found = run_job(scripted_session(), {str(history.input)!r}, sys.argv[1])
            Path({str(rows)!r}).write_text(json.dumps(found, default=str))
        """)
    )

    def command(*options, checkpoint=tmp_path / "new"):
        rows.unlink(missing_ok=True)
        code = main(["run", *map(str, options), str(script), str(checkpoint)])
        return code, {int(batch): found for batch, found in json.loads(rows.read_text()).items()} if rows.exists() else None

    return command


def expected(history, after):
    rows = {batch: rows for batch, rows in history.rows.items() if batch > after}
    return {int(batch): found for batch, found in json.loads(json.dumps(rows, default=str)).items()}


def partitions_of(checkpoint):
    return sum(entry.name.isdigit() for entry in (checkpoint / "state" / "0").iterdir())


def test_it_begins_once_and_then_goes_on(history, command, tmp_path):
    options = ["-s", history.savepoint, "-p", 3]
    code, rows = command(*options)
    assert (code, rows) == (0, expected(history, SAVED_AFTER))
    assert partitions_of(tmp_path / "new") == 3
    # What a kill leaves: the last micro-batch was not committed. The same command does it anew, and nothing else.
    last = last_batch(tmp_path / "new")
    without_commit(tmp_path / "new", last)
    assert command(*options) == (0, expected(history, last - 1))
    # The savepoint may have been moved meanwhile.
    moved = shutil.copytree(history.savepoint, tmp_path / "moved")
    assert command("--savepoint", moved, "--partitions", 3) == (0, {})
    assert command("-s", moved) == (0, {})


@pytest.mark.night
def test_after_a_restore_by_hand_it_goes_on_too(history, command, tmp_path):
    assert main(["savepoint", "restore", str(history.savepoint), str(tmp_path / "new")]) == 0
    assert command("-s", history.savepoint) == (0, expected(history, SAVED_AFTER))


@pytest.mark.night
def test_an_empty_directory_is_no_checkpoint(history, command, tmp_path):
    (tmp_path / "new").mkdir()
    assert command("-s", history.savepoint)[0] == 0


def test_another_checkpoint_is_refused_and_stays_as_it_is(history, command, checkpoint, capsys):
    before = tree(checkpoint)
    assert command("-s", history.savepoint, checkpoint=checkpoint) == (1, None)
    said = capsys.readouterr().err
    assert f"The checkpoint '{checkpoint}' is there already, and was not made from the savepoint" in said
    assert "leave out -s to go on with it" in said
    assert tree(checkpoint) == before


def test_one_made_from_another_savepoint_is_refused(spark, history, command, tmp_path, capsys):
    other = tmp_path / "other"
    savepoint_create(spark, str(history.checkpoint), str(other))
    assert main(["savepoint", "restore", str(other), str(tmp_path / "new")]) == 0
    assert command("-s", history.savepoint) == (1, None)
    assert "was not made from the savepoint" in capsys.readouterr().err


@pytest.mark.parametrize("notice", [b"", b"[]", b'{"savepoint": 5}', b"\xff"])
def test_a_notice_that_makes_no_sense_is_no_notice(history, command, tmp_path, notice):
    assert main(["savepoint", "restore", str(history.savepoint), str(tmp_path / "new")]) == 0
    (tmp_path / "new" / "holdfast" / "restored.json").write_bytes(notice)
    assert command("-s", history.savepoint) == (1, None)


@pytest.mark.night
def test_other_partitions_than_it_has_are_refused(history, command, tmp_path, capsys):
    assert main(["savepoint", "restore", str(history.savepoint), str(tmp_path / "new")]) == 0
    assert command("-s", history.savepoint, "-p", 5) == (1, None)
    said = capsys.readouterr().err
    assert "has been made from the savepoint already, and has 2 partitions, not 5" in said
    assert f"holdfast rescale {tmp_path / 'new'} --partitions 5" in said
    assert command("-s", history.savepoint, "-p", 2)[0] == 0


def test_what_is_no_savepoint_is_told_before_the_script_runs(command, tmp_path, capsys):
    (tmp_path / "nothing").mkdir()
    assert command("-s", tmp_path / "nothing") == (1, None)
    assert "is not a savepoint" in capsys.readouterr().err


def test_a_damaged_savepoint_makes_no_checkpoint(history, command, tmp_path, capsys):
    damaged = shutil.copytree(history.savepoint, tmp_path / "damaged")
    (damaged / "commits" / str(SAVED_AFTER)).write_bytes(b"")
    assert command("-s", damaged) == (1, None)
    assert "is damaged" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_the_savepoint_of_another_job_is_refused(spark, history, tmp_path):
    begins = BeginFrom(str(history.savepoint))
    with pytest.raises(CheckpointError, match="is of the job 'history', and the script starts the job 'other'"):
        begins(spark, "other", str(tmp_path / "new"))
    assert not (tmp_path / "new").exists()
    assert begins(spark, "history", str(tmp_path / "new")).endswith(f"it resumes after micro-batch {SAVED_AFTER}")
    assert begins(spark, "history", str(tmp_path / "new")) is None
    # A second job of the script is nobody's business.
    assert begins(spark, "other", str(tmp_path / "elsewhere")) is None


def test_a_script_without_a_job_is_told(history, tmp_path, capsys):
    script = tmp_path / "empty.py"
    script.write_text("import sys; sys.exit(int(sys.argv[1]))")
    assert main(["run", "-s", str(history.savepoint), str(script), "0"]) == 1
    assert "has ended without starting a job" in capsys.readouterr().err
    assert main(["run", "-s", str(history.savepoint), str(script), "7"]) == 7


def test_partitions_alone_are_wrong_usage(tmp_path, capsys):
    assert main(["run", "-p", "8", str(tmp_path / "job.py")]) == 2
    assert "it needs -s" in capsys.readouterr().err


def test_who_comes_second_does_not_remove_what_the_first_has_made(spark, history, tmp_path, monkeypatch):
    """Both have found nothing there; the first is done, and its job runs, when the second comes to its end."""
    first, moved = BeginFrom(str(history.savepoint)), []
    make_way = destination._make_way

    def overtaken(files, path):
        if not moved:
            moved.append(path)
            first(spark, "history", path)
        make_way(files, path)

    monkeypatch.setattr(destination, "_make_way", overtaken)
    with pytest.raises(CheckpointError, match="There is something at"):
        BeginFrom(str(history.savepoint))(spark, "history", str(tmp_path / "new"))
    assert moved == [str(tmp_path / "new")]
    assert last_batch(tmp_path / "new") == SAVED_AFTER
    assert [path.name for path in tmp_path.iterdir()] == ["new"]
