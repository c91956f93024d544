"""`holdfast state schema`: what is kept, in words, and where else the authors' words are shown."""

from __future__ import annotations

import json

import pytest

from holdfast.cli.main import main
from holdfast.errors import CheckpointError
from holdfast.ops import StateReader, state_ls, state_schema, state_show

from .shared import copied, payments

COUNT, DUE = "How many payments.", "When the card was quiet for a while."


@pytest.fixture(scope="module")
def checkpoint():
    return payments().checkpoint


def test_everything_is_described(checkpoint):
    everything, running = state_schema(None, checkpoint)
    assert (everything.step, running.step) == ("everything", "running")
    assert everything.key == "card string"
    assert everything.windows == "FixedWindows(size 10 minutes), late by up to 1 minute"
    assert running.windows == "global"
    assert {cell.name: (cell.kind, cell.coder, cell.ttl, cell.doc) for cell in everything.cells} == {
        "count": ("value", "varint", None, COUNT),
        "amounts": ("bag", "plain", None, None),
        "kinds": ("set", "plain", None, None),
        "by_kind": ("map", "str to varint", "1 day of event time after a write", None),
        "times": ("ordered list", "plain", None, None),
        "total": ("combining (sum)", "plain", None, None),
        "secret": ("value", "pickle", None, None),
    }
    assert [(timer.name, timer.domain, timer.doc) for timer in everything.timers] == [("due", "event time", DUE)]


def test_one_step(checkpoint):
    assert [step.step for step in state_schema(None, checkpoint, step="running")] == ["running"]
    with pytest.raises(CheckpointError, match="has no step 'nothing'"):
        state_schema(None, checkpoint, step="nothing")


def test_the_words_are_shown_with_the_state(checkpoint, capsys):
    (count,) = [cell for cell in state_ls(None, checkpoint)[0].cells if cell.name == "count"]
    assert count.doc == COUNT
    assert state_show(None, checkpoint, key="card 1").docs == {"everything": {"count": COUNT, "due": DUE}}
    assert StateReader(checkpoint).steps()[0].docs == {"count": COUNT, "due": DUE}
    assert main(["state", "ls", checkpoint]) == 0
    assert "How many" in capsys.readouterr().out
    assert main(["state", "show", checkpoint, "--key", "card 1", "--cell", "count"]) == 0
    shown = capsys.readouterr().out
    assert f"count: {COUNT}" in shown
    assert DUE not in shown


def test_the_job_has_said_something_newer(tmp_path):
    """Key groups learn it when they are next opened; what is shown is the newest."""
    copy = copied(tmp_path / "copy")
    file = tmp_path / "copy" / "holdfast" / "manifest.json"
    manifest = json.loads(file.read_text())
    manifest["steps"]["everything"]["cells"][0]["doc"] = "Newer."
    file.write_text(json.dumps(manifest))
    assert state_schema(None, copy)[0].cells[0].doc == "Newer."
    assert state_ls(None, copy)[0].cells[0].doc == "Newer."


def test_the_command(checkpoint, capsys):
    assert main(["state", "schema", checkpoint]) == 0
    shown = capsys.readouterr().out
    assert COUNT.split()[0] in shown
    assert "everything" in shown
    assert main(["state", "schema", checkpoint, "--markdown", "--step", "everything"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "# State of payments"
    assert f"| `count` | value | `varint` |  | {COUNT} |" in lines
    assert main(["state", "schema", checkpoint, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["job"] == "payments"
    assert told["steps"][0]["timers"] == [{"name": "due", "domain": "event time", "doc": DUE}]
    assert main(["state", "schema", checkpoint, "--json", "--markdown"]) == 1
    assert "--markdown and --json" in capsys.readouterr().err
