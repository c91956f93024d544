"""Steps that share a stateful operator: every command gives for each what it gives for the same step in a job of its own."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdfast.checkpoint.layout import open_checkpoint
from holdfast.cli.main import main
from holdfast.errors import CorruptState
from holdfast.ops import read_state, state_ls, state_show
from holdfast.ops.inspect.compare import state_diff, state_history
from holdfast.ops.inspect.overview import checkpoint_show
from holdfast.ops.move.export import read_export, state_export
from holdfast.ops.move.importing import state_import
from holdfast.ops.move.rescale import rescale
from holdfast.ops.move.restore import savepoint_restore
from holdfast.ops.move.savepoint import savepoint_create, savepoint_verify
from holdfast.ops.reading.blobs import steps_of
from holdfast.ops.upkeep.measure import measure
from holdfast.ops.upkeep.verify import checkpoint_verify

from .checkpoints import moved_copy, write
from .readings import KEY_GROUPS, Readings

STEPS = sorted(KEY_GROUPS)
PLACES = {"alarms": (1, 0), "levels": (1, 1), "rooms": (0, 2)}
"""The operator and the slot of each."""
FILES = 2


@pytest.fixture(scope="module")
def readings(spark, tmp_path_factory):
    """A job that has run for two files, the same steps in jobs of their own, and what the job gave for one more."""
    made: Any = Readings(spark, tmp_path_factory.mktemp("readings"))
    made.add(*range(FILES))
    made.checkpoint = made.folder / "checkpoint"
    first = made.run(made.checkpoint)
    made.stopped = moved_copy(made.checkpoint, made.folder / "stopped")
    chain, lone = made.folder / "chain", made.folder / "lone"
    assert made.run(chain, "rooms")["rooms"] == first["rooms"]
    assert made.run(lone, "levels")["levels"] == first["levels"]
    made.own = {"alarms": str(chain), "rooms": str(chain), "levels": str(lone)}
    made.add(FILES)
    made.expected = made.run(made.checkpoint)
    assert any(number < 0 for _, number, _ in made.expected["alarms"]), "no timer has fired since"
    return made


@pytest.fixture(scope="module")
def exported(spark, readings):
    """An export of all steps, after the first two files."""
    state_export(spark, str(readings.stopped), str(readings.folder / "export"))
    return readings.folder / "export"


@pytest.fixture
def stopped(readings, tmp_path):
    """A copy of the checkpoint after the first two files."""
    return str(moved_copy(readings.stopped, tmp_path / "stopped"))


def cells(spark, checkpoint, step=None, batch=None):
    frame = read_state(spark, str(checkpoint), batch, step=step, hidden=True)
    return sorted(map(str, frame.collect()))


def grouped(spark, checkpoint):
    return {(row.step, row.key, row.cell): row.value for row in read_state(spark, str(checkpoint)).collect()}


def is_whole(spark, checkpoint):
    found = checkpoint_verify(spark, str(checkpoint), deep=True)
    return found.problems == [] and found.notes == []


def test_which_steps_are_where(spark, readings, stopped):
    place = open_checkpoint(spark, stopped)
    found = {step.name: (step.operator, step.slot) for step in steps_of(spark, place, place.check_batch(None))}
    assert found == PLACES
    shown = checkpoint_show(None, stopped)
    assert {operator.number: operator.steps for operator in shown.operators} == {0: ["rooms"], 1: ["alarms", "levels"]}


@pytest.mark.night
def test_cells(spark, readings):
    for step in STEPS:
        found = cells(spark, readings.stopped, step)
        assert found == cells(spark, readings.own[step], step)
        assert len(found) > KEY_GROUPS[step]


def test_summaries(spark, readings):
    found = {summary.step: summary for summary in state_ls(spark, str(readings.stopped))}
    assert sorted(found) == STEPS
    for step, path in readings.own.items():
        own = next(summary for summary in state_ls(spark, path) if summary.step == step)
        for name in ("key_groups", "backend", "keys", "cells", "timers", "windows", "window_fn", "key"):
            assert getattr(found[step], name) == getattr(own, name)


def test_one_key(spark, readings):
    for step, key in (("alarms", "room 3"), ("levels", "4")):
        views = [state_show(spark, str(place), step=step, key=key) for place in (readings.stopped, readings.own[step])]
        assert views[0].cells == views[1].cells != []
        histories = [state_history(spark, str(place), key, step=step) for place in (readings.stopped, readings.own[step])]
        assert histories[0] == histories[1] != []


def test_all_keys(spark, readings):
    """In the order of labels, which in another slot is another."""
    views = [state_show(spark, str(place), step="levels", limit=100) for place in (readings.stopped, readings.own["levels"])]
    assert sorted(map(str, views[0].cells)) == sorted(map(str, views[1].cells))


def test_differences(spark, readings):
    found = state_diff(spark, str(readings.stopped), 0, 1)
    expected = [state_diff(spark, readings.own[step], 0, 1, step=step) for step in STEPS]
    assert found.changes == [change for each in expected for change in each.changes]
    assert found.total == sum(each.total for each in expected) > 0


def test_sizes(spark, readings, capfd):
    found = {step.step: step for step in measure(spark, str(readings.stopped)).steps}
    assert {name: step.shares_with for name, step in found.items()} == {
        "alarms": ("levels",),
        "levels": ("alarms",),
        "rooms": (),
    }
    operators = {operator.number: operator for operator in open_checkpoint(None, str(readings.stopped)).operators()}
    files = sum(partition.size for partition in operators[1].partitions)
    assert found["alarms"].file_bytes + found["levels"].file_bytes == pytest.approx(files, abs=2)
    assert main(["advise", str(readings.stopped)]) == 0
    assert "alarms, levels share an operator" in capfd.readouterr().out.replace("\n", " ")


def test_other_key_groups_and_partitions(spark, readings, stopped):
    before = grouped(spark, stopped)
    done = rescale(spark, stopped, key_groups=5, partitions=2)
    assert (done.key_groups, done.partitions) == (dict.fromkeys(STEPS, 5), 2)
    assert grouped(spark, stopped) == before
    assert is_whole(spark, stopped)
    assert readings.run(stopped, key_groups=5) == readings.expected


def test_a_savepoint(spark, readings, stopped, tmp_path):
    savepoint, restored = str(tmp_path / "savepoint"), str(tmp_path / "restored")
    savepoint_create(None, stopped, savepoint)
    assert savepoint_verify(None, savepoint)[1] == []
    savepoint_restore(None, savepoint, restored)
    assert cells(spark, restored) == cells(spark, stopped)
    assert is_whole(spark, restored)
    assert readings.run(restored) == readings.expected
    shutil.rmtree(tmp_path / "stopped" / "state" / "1")
    with pytest.raises(CorruptState, match="state/1' is missing"):
        savepoint_create(None, stopped, str(tmp_path / "lacking"))


@pytest.mark.night
def test_out_and_in(spark, readings, exported, tmp_path):
    found = read_export(spark, str(exported))
    assert {step.name: (step.operator, step.slot) for step in found.steps} == PLACES
    state_export(spark, readings.own["levels"], str(tmp_path / "own"))
    assert rows_of_export(exported, "levels") == rows_of_export(tmp_path / "own", "levels")
    made = str(tmp_path / "made")
    state_import(spark, str(exported), made, key_groups=3)
    assert grouped(spark, made) == grouped(spark, readings.stopped)
    assert is_whole(spark, made)
    assert readings.run(made, key_groups=3) == readings.expected


def rows_of_export(export, step):
    return sorted(map(str, pq.read_table(export / "state" / step).to_pylist()))


@pytest.mark.night
def test_one_step_into_what_is_there(spark, exported, stopped, tmp_path):
    """The step that it shares an operator with keeps its state."""
    export = tmp_path / "export"
    shutil.copytree(exported, export)
    described = json.loads((export / "export.json").read_text())
    described["steps"] = {"levels": described["steps"]["levels"]}
    (export / "export.json").write_text(json.dumps(described))
    folder = export / "state" / "levels"
    table = pq.read_table(folder)
    shutil.rmtree(folder)
    folder.mkdir()
    rows = [{**row, "value": "1000"} if row["cell"] == "count" else row for row in table.to_pylist()]
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), folder / "edited.parquet")
    before = grouped(spark, stopped)
    assert main(["state", "import", str(export), stopped, "--on-conflict", "replace"]) == 0
    changed = {place: "1000" if place[0::2] == ("levels", "count") else value for place, value in before.items()}
    assert grouped(spark, stopped) == changed != before
    assert is_whole(spark, stopped)


def test_two_steps_of_an_export_in_one_place(spark, exported, tmp_path):
    shutil.copytree(exported, tmp_path / "export")
    described = json.loads((tmp_path / "export" / "export.json").read_text())
    del described["steps"]["levels"]["manifest"]["slot"]
    (tmp_path / "export" / "export.json").write_text(json.dumps(described))
    with pytest.raises(CorruptState, match="the same place in an operator"):
        read_export(spark, str(tmp_path / "export"))


def test_state_that_is_not_where_the_job_looks(spark, stopped):
    file = Path(stopped) / "holdfast" / "manifest.json"
    manifest = json.loads(file.read_text())
    manifest["steps"]["levels"]["slot"] = 7
    manifest["steps"]["rooms"]["operator"] = 1
    write(file, json.dumps(manifest).encode())
    problems = checkpoint_verify(spark, stopped).problems
    assert [(problem.path, problem.what) for problem in problems] == [
        (f"{stopped}/state/0", "it has state of 'rooms' in slot 2, but the job has it in slot 2 of state/1"),
        (f"{stopped}/state/1", "it has state of 'levels' in slot 1, but the job has it in slot 7 of state/1"),
    ]
