"""`holdfast state rm`: state that an operator removes, and what becomes of the job."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from holdfast.checkpoint.layout import open_checkpoint
from holdfast.checkpoint.lock import current_lock, holding
from holdfast.cli import output
from holdfast.cli.main import main
from holdfast.errors import CheckpointError, CheckpointLocked, InputError
from holdfast.ops import checkpoint_repair, checkpoint_verify, read_state, remove_state

from .payments import Payments
from .trees import checksums

CARD = "card 1"
FIRST, REST = (0, 1), (2,)


@pytest.fixture(scope="module")
def payments(spark, tmp_path_factory):
    """A job that has run for two micro-batches, what it gave for one more, and what a job gives that begins with it."""
    made: Any = Payments(spark, tmp_path_factory.mktemp("payments"))
    made.add(*FIRST)
    made.run()
    made.stopped = str(made.folder / "stopped")
    shutil.copytree(made.checkpoint, made.stopped)
    made.before = cells(spark, made.stopped)
    made.add(*REST)
    made.expected = made.run()
    later: Any = Payments(spark, made.folder / "later")
    later.add(*REST)
    made.anew = later.run()
    made.later = later.checkpoint
    return made


@pytest.fixture
def checkpoint(payments, tmp_path) -> str:
    shutil.copytree(payments.stopped, tmp_path / "checkpoint")
    return str(tmp_path / "checkpoint")


def cells(spark, checkpoint: str, *, hidden: bool = True) -> set[tuple[str, ...]]:
    """Every stored cell, with the engine's own: step, key, window, cell, value."""
    rows = read_state(spark, checkpoint, hidden=hidden).collect()
    return {(row.step, row.key, str(row.window), row.cell, row.value) for row in rows}


def test_a_key_begins_anew_and_the_others_go_on(spark, payments, checkpoint):
    removed = remove_state(spark, checkpoint, key=CARD)
    assert removed.done
    assert removed.batch == 2
    assert set(removed.keys) == {"everything", "running"}
    assert cells(spark, checkpoint) == {cell for cell in payments.before if cell[1] != CARD}
    found = payments.run(checkpoint)
    assert [row for row in found if row[0] != CARD] == [row for row in payments.expected if row[0] != CARD]
    mine = [row for row in found if row[0] == CARD]
    assert mine == [row for row in payments.anew if row[0] == CARD]
    assert mine != [row for row in payments.expected if row[0] == CARD]
    own = {cell for cell in cells(spark, checkpoint) if cell[1] == CARD}
    assert own == {cell for cell in cells(spark, payments.later) if cell[1] == CARD}
    assert checkpoint_verify(spark, checkpoint, deep=True).problems == []


def unlocked(checkpoint):
    """The checksums of all files but the lock, into which its holder writes the time now and then."""
    return {name: digest for name, digest in checksums(Path(checkpoint)).items() if name != "holdfast/lock.json"}


@pytest.mark.night
def test_a_dry_run_shows_it_and_changes_nothing(spark, payments, checkpoint):
    before = checksums(Path(checkpoint))
    with holding(None, checkpoint, "job payments"):
        during = unlocked(checkpoint)
        shown = remove_state(spark, checkpoint, key=CARD, dry_run=True, limit=1_000)
        assert unlocked(checkpoint) == during
    assert checksums(Path(checkpoint)) == before
    assert not shown.done
    expected = {cell[:2] + cell[3:4] for cell in cells(spark, checkpoint, hidden=False) if cell[1] == CARD}
    assert {(cell.step, cell.key, cell.cell) for cell in shown.cells} == expected
    assert shown.total == len(shown.cells)
    assert len(remove_state(spark, checkpoint, key=CARD, dry_run=True, limit=2).cells) == 2


@pytest.mark.night
def test_one_cell_with_its_time_to_live(spark, payments, checkpoint):
    remove_state(spark, checkpoint, key=CARD, cell="by_kind")
    gone = payments.before - cells(spark, checkpoint)
    assert {(cell[1], cell[3]) for cell in gone} == {(CARD, "by_kind"), (CARD, "~ttl:by_kind")}


@pytest.mark.night
def test_a_timer_of_all_keys(spark, payments, checkpoint):
    remove_state(spark, checkpoint, cell="due")
    gone = payments.before - cells(spark, checkpoint)
    assert {cell[3] for cell in gone} == {"due"}
    assert {cell[1] for cell in gone} == {cell[1] for cell in payments.before if cell[3] == "due"}


@pytest.mark.night
def test_by_a_condition(spark, payments, checkpoint):
    condition = "cell = 'total' and cast(value as long) > 21"
    removed = remove_state(spark, checkpoint, step="running", where=condition)
    large = {cell for cell in payments.before if cell[0] == "running" and int(cell[4]) > 21}
    assert 0 < len(large) < sum(cell[0] == "running" for cell in payments.before)
    assert payments.before - cells(spark, checkpoint) == large
    assert removed.keys == {"running": len(large)}


@pytest.mark.night
def test_whole_keys_by_a_condition(spark, payments, checkpoint):
    remove_state(spark, checkpoint, step="everything", where="cell = 'count' and value = '7'", whole_keys=True)
    keys = {cell[1:3] for cell in payments.before if cell[0] == "everything" and cell[3:] == ("count", "7")}
    expected = {cell for cell in payments.before if cell[0] == "everything" and cell[1:3] in keys}
    assert {cell[3] for cell in expected} > {"count", "due", "~ttl:by_kind"}
    assert payments.before - cells(spark, checkpoint) == expected


@pytest.mark.night
def test_nothing_matches(spark, checkpoint, capsys):
    before = checksums(Path(checkpoint))
    for choice in ({"key": "nobody"}, {"window": "2020-01-01T00:00:00Z"}, {"where": "value = 'no such'"}):
        removed = remove_state(spark, checkpoint, **choice)
        assert (removed.done, removed.total, removed.keys) == (False, 0, {})
    assert main(["state", "rm", checkpoint, "--key", "nobody"]) == 0
    assert "nothing is removed" in capsys.readouterr().out
    assert {name for name in checksums(Path(checkpoint)) if name in before} == set(before)


WRONG = {
    "nothing chosen": ({"step": "running"}, InputError, "Nothing says what to remove"),
    "no such step": ({"step": "walking", "key": CARD}, CheckpointError, "has no step 'walking'"),
    "no such cell": ({"cell": "nope"}, InputError, "There is no cell or timer 'nope'"),
    "not SQL": ({"where": "value ="}, InputError, "is not a condition on the rows of state"),
    "no such column": ({"where": "amount > 5"}, InputError, "over the columns step, key, window"),
    "not a condition": ({"where": "value"}, InputError, "is not a condition"),
    "cannot be evaluated": ({"where": "cast(value as int) > 0"}, InputError, "could not be evaluated"),
}


@pytest.mark.parametrize("choice", WRONG)
def test_what_cannot_be_removed(spark, payments, choice):
    before = checksums(Path(payments.stopped))
    given, error, told = WRONG[choice]
    with pytest.raises(error, match=told):
        remove_state(spark, payments.stopped, **given)
    assert {name: now for name, now in checksums(Path(payments.stopped)).items() if name in before} == before


def test_a_job_that_runs(spark, checkpoint):
    with holding(None, checkpoint, "job payments"):
        before = checksums(Path(checkpoint))
        with pytest.raises(CheckpointLocked, match="is in use: job payments"):
            remove_state(spark, checkpoint, key=CARD)
        assert checksums(Path(checkpoint)) == before


class Killed(BaseException):
    pass


@pytest.mark.parametrize("renames", [pytest.param(0, marks=pytest.mark.night), 1, pytest.param(2, marks=pytest.mark.night)])
def test_killed_it_is_as_before_or_as_after(spark, payments, checkpoint, monkeypatch, renames):
    """Before the state is moved, while there is none, and before the rest is cleaned up."""
    files = type(open_checkpoint(None, checkpoint).files)
    real, done = files.move, []

    def move(self, path, to):
        moved = f"{checkpoint}/state" in (path, to)
        if moved and len(done) == renames:
            raise Killed
        real(self, path, to)
        done.extend([to] if moved else [])
        if len(done) == renames == 2:
            raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(files, "move", move)
        with pytest.raises(Killed):
            remove_state(spark, checkpoint, key=CARD)
    assert current_lock(None, checkpoint) is None
    checkpoint_repair(spark, checkpoint)
    left = {cell for cell in payments.before if renames < 2 or cell[1] != CARD}
    assert cells(spark, checkpoint) == left
    remove_state(spark, checkpoint, key=CARD)
    assert cells(spark, checkpoint) == {cell for cell in payments.before if cell[1] != CARD}


@pytest.mark.night
def test_a_planned_micro_batch_is_processed_over_what_is_left(spark, payments, tmp_path):
    """As a job leaves it that fails on a key, again and again."""
    checkpoint = str(tmp_path / "checkpoint")
    shutil.copytree(payments.stopped, checkpoint)
    last = max(int(file.name) for file in (tmp_path / "checkpoint" / "commits").iterdir() if file.name.isdigit())
    for name in (str(last), f".{last}.crc"):
        (tmp_path / "checkpoint" / "commits" / name).unlink(missing_ok=True)
    removed = remove_state(spark, checkpoint, key=CARD)
    assert (removed.batch, removed.planned_batch) == (last - 1, last)
    found = payments.run(checkpoint)
    assert [row for row in found if row[0] == CARD] == [row for row in payments.anew if row[0] == CARD]


@pytest.mark.night
def test_the_command(spark, payments, checkpoint, capsys, monkeypatch):
    before = checksums(Path(checkpoint))
    command = ["state", "rm", checkpoint, "--key", CARD, "--step", "running"]
    assert main([*command, "--dry-run"]) == 0
    assert "to remove: running, 1 key and window" in capsys.readouterr().out
    assert main(command) == 1
    assert "needs confirmation" in capsys.readouterr().err
    assert main([*command, "--json"]) == 1
    assert "needs confirmation" in capsys.readouterr().err
    monkeypatch.setattr(output.sys.stdin, "isatty", lambda: True, raising=False)
    answers = iter([False, True])

    def confirm(question, *, abort):
        if not next(answers):
            raise output.typer.Abort

    monkeypatch.setattr(output.typer, "confirm", confirm)
    assert main(command) == 1
    assert checksums(Path(checkpoint)) == before
    capsys.readouterr()
    assert main(command) == 0
    shown = capsys.readouterr().out
    assert "to remove: running, 1 key and window" in shown
    assert "removed: running, 1 key and window" in shown
    assert {cell[1] for cell in cells(spark, checkpoint) if cell[0] == "running"} == {
        cell[1] for cell in payments.before if cell[0] == "running" and cell[1] != CARD
    }


@pytest.mark.night
def test_the_command_for_a_program(spark, payments, checkpoint, capsys):
    assert main(["state", "rm", checkpoint, "--window", "1970-01-01T00:05:00Z", "--yes", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["done"]
    assert told["keys"] == {"everything": len({cell[1] for cell in payments.before if cell[0] == "everything"})}
    assert {cell[0] for cell in cells(spark, checkpoint)} == {"running"}
