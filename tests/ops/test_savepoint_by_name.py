"""`holdfast savepoint NAME DEST`: by the name of a running job. What is copied is a checkpoint; the job only pretends."""

from __future__ import annotations

import json

import pytest

from holdfast.checkpoint.presence import Presence
from holdfast.cli.main import main
from holdfast.ops.move.savepoint import savepoint_verify
from ops.checkpoints import moved_copy


@pytest.fixture(autouse=True)
def own_registry(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def running(history, tmp_path):
    checkpoint = moved_copy(history.checkpoint, tmp_path / "checkpoint")
    presence = Presence("alerts", str(checkpoint))
    presence.begin(None, runs=lambda: True, stop=lambda: None, abandon=lambda taken_by: None)
    yield checkpoint
    presence.end()


def test_a_running_job(running, tmp_path, capsys):
    for number, words in enumerate((["savepoint"], ["savepoint", "create"])):
        assert main([*words, "alerts", str(tmp_path / f"saved{number}"), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["checkpoint"] == str(running)
        assert savepoint_verify(None, str(tmp_path / f"saved{number}"))[1] == []


def test_a_checkpoint_in_the_short_form(history, tmp_path, capsys):
    assert main(["savepoint", str(history.checkpoint), str(tmp_path / "saved"), "--batch", "3"]) == 0
    assert "after micro-batch 3" in capsys.readouterr().out


def test_a_directory_of_the_same_name_is_told_apart(running, tmp_path, monkeypatch, capsys):
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "alerts").mkdir(parents=True)
    monkeypatch.chdir(elsewhere)
    assert main(["savepoint", "alerts", str(tmp_path / "saved")]) == 1
    said = capsys.readouterr().err
    assert f"'alerts' is a running job, whose checkpoint is '{running}', and something else in this directory." in said
    assert f"give a path: {running} or ./alerts" in said
    assert not (tmp_path / "saved").exists()
    (elsewhere / "alerts").rmdir()
    (elsewhere / "alerts").symlink_to(running)
    assert main(["savepoint", "alerts", str(tmp_path / "saved")]) == 0


def test_nobody_of_that_name(tmp_path, capsys):
    assert main(["savepoint", "alerts", str(tmp_path / "saved")]) == 1
    assert "No job 'alerts' is running" in capsys.readouterr().err
    assert main(["savepoint", "alerts"]) == 2
    assert "No such command 'alerts'" in capsys.readouterr().err


def test_a_mistyped_command_is_no_job(tmp_path, capsys):
    assert main(["savepoint", "restor", str(tmp_path / "saved"), str(tmp_path / "new")]) == 2
    assert "No such command 'restor'" in capsys.readouterr().err
