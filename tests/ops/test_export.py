"""State as Parquet and back."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdfast.checkpoint.lock import holding
from holdfast.cli.main import main
from holdfast.errors import CheckpointError, CorruptState, InputError
from holdfast.ops.inspect.state_frame import read_state
from holdfast.ops.move.export import read_export, state_export
from holdfast.ops.move.importing import state_import

from .payments import Payments
from .trees import checksums


@pytest.fixture(scope="module")
def payments(spark, tmp_path_factory):
    """A job that has run for three micro-batches, its export, and what it gave for one more."""
    made: Any = Payments(spark, tmp_path_factory.mktemp("payments"))
    made.add(0, 1, 2)
    made.run()
    made.export = str(made.folder / "export")
    state_export(spark, made.checkpoint, made.export)
    made.stopped = str(made.folder / "stopped")
    shutil.copytree(made.checkpoint, made.stopped)
    made.state = cells(spark, made.checkpoint)
    made.add(3)
    made.expected = made.run()
    return made


@pytest.fixture
def export(payments, tmp_path):
    """A copy of the export, to edit."""
    shutil.copytree(payments.export, tmp_path / "export")
    return tmp_path / "export"


def cells(spark, checkpoint):
    frame = read_state(spark, checkpoint, hidden=True).drop("key_group")
    return sorted(str(row) for row in frame.collect())


def edit(export, change, step="everything"):
    """Rewrites the rows of a step, as a list of dicts."""
    folder = export / "state" / step
    table = pq.read_table(folder)
    rows = table.to_pylist()
    for file in folder.iterdir():
        file.unlink()
    pq.write_table(pa.Table.from_pylist(change(rows), schema=table.schema), folder / "edited.parquet")


def test_the_round_trip_is_exact_and_the_job_goes_on(spark, payments, tmp_path):
    checkpoint = str(tmp_path / "imported")
    made = state_import(spark, payments.export, checkpoint, key_groups=3)
    assert made.batch == 3
    assert cells(spark, checkpoint) == payments.state
    assert payments.run(checkpoint, key_groups=3) == payments.expected


@pytest.mark.night
@pytest.mark.parametrize("form", ["avro", "json"])
def test_every_format_is_as_exact(spark, payments, tmp_path, form):
    made = state_export(spark, payments.stopped, str(tmp_path / "export"), format=form)
    assert made == read_export(spark, str(tmp_path / "export"))
    assert {file.suffix for file in (tmp_path / "export" / "state").glob("*/*")} == {f".{form}"}
    state_import(spark, str(tmp_path / "export"), str(tmp_path / "imported"))
    assert cells(spark, str(tmp_path / "imported")) == payments.state


@pytest.mark.night
def test_json_is_edited_line_by_line(spark, payments, tmp_path, capsys):
    out = tmp_path / "export"
    assert main(["state", "export", payments.stopped, str(out), "--format", "json", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["format"] == "json"
    files = sorted((out / "state" / "running").glob("*.json"))
    new = [{"key": {"card": "new"}, "cell": "total", "value": 5}]
    for file in files:
        rows = [json.loads(line) for line in file.read_text().splitlines()]
        for row in rows:
            row.update({"value": 7} if row["key"] == {"card": "card 1"} else {})
        kept = [row for row in rows if row["key"] != {"card": "card 2"}]
        file.write_text("".join(json.dumps(row) + "\n" for row in [*kept, *(new if file == files[0] else [])]))
    state_import(spark, str(out), str(tmp_path / "imported"))
    told = {row.key: row.value for row in read_state(spark, str(tmp_path / "imported"), step="running").collect()}
    assert (told["card 1"], told["new"]) == ("7", "5")
    assert "card 2" not in told
    file.write_text('{"key": {"card": 5}, "cell": "total", "value": 5}')
    with pytest.raises(InputError, match="A line is not a row of an export"):
        state_import(spark, str(out), str(tmp_path / "other"))
    assert not (tmp_path / "other").exists()


@pytest.mark.night
def test_what_was_edited_is_what_the_job_sees(spark, payments, export, tmp_path):
    def change(rows):
        for row in rows:
            if row["cell"] == "total" and row["key"]["card"] == "card 1":
                row["value"] = "1000000"
        return [row for row in rows if row["key"]["card"] != "card 2"]

    edit(export, change, "running")
    checkpoint = str(tmp_path / "imported")
    state_import(spark, str(export), checkpoint)

    told = {row.key: row.value for row in read_state(spark, checkpoint, step="running").collect()}
    assert told["card 1"] == "1000000"
    assert "card 2" not in told


WRONG = {
    "no such cell": (lambda row: {**row, "cell": "nothing"}, "There is no cell 'nothing'"),
    "no key": (lambda row: {**row, "key": None}, "The row has no key"),
    "not JSON": (lambda row: {**row, "value": "{"}, "is not a value"),
    "another type": (lambda row: {**row, "value": '"text"', "cell": "count", "encoded": None}, "does not accept|count"),
    "another window": (lambda row: {**row, "window": {"start": _time(1), "end": _time(601)}}, "is not one of the step's"),
    "no window": (lambda row: {**row, "window": None}, "has no window"),
    "damaged": (lambda row: {**row, "encoded": b"\xc1"}, "is damaged"),
}


def _time(second):
    import datetime

    return datetime.datetime.fromtimestamp(second, datetime.timezone.utc)


def test_rows_that_are_wrong_are_named_and_nothing_is_written(spark, export, tmp_path):
    changes = list(WRONG.values())

    def change(rows):
        visible = [row for row in rows if row["kind"] == "value" and row["cell"] == "count"]
        return [change(row) for (change, _), row in zip(changes, visible, strict=False)]

    edit(export, change)
    with pytest.raises(InputError) as refused:
        state_import(spark, str(export), str(tmp_path / "imported"))
    for _, told in changes:
        assert refused.match(told)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["export"]


def edited(rows, cell, nth=0, **changes):
    """The rows, of which one of a cell is another."""
    place = [number for number, row in enumerate(rows) if row["cell"] == cell][nth]
    return [{**row, **changes} if number == place else row for number, row in enumerate(rows)]


OTHER_TYPES = {
    "a text for a number": ("total", '"many"', "it has the type str, but all stored values are int"),
    "a broken number": ("total", "5.5", "it has the type float, but all stored values are int"),
    "in a bag": ("amounts", '[1, "two"]', "one of its values has the type str"),
    "a text for a bag": ("amounts", '"abc"', "which a bag cell cannot have"),
    "in an ordered list": ("times", '[{"$tuple": [{"$timestamp": 5}, "x"]}]', "one of its values has the type str"),
    "in a set": ("kinds", '{"$set": [7]}', "one of its values has the type int"),
    "a list for a set": ("kinds", '["kind 1"]', "which a set cell cannot have"),
    "a list for a map": ("by_kind", "[]", "which a map cell cannot have"),
}


@pytest.mark.night
def test_values_of_another_type_are_told_all_together(spark, export, tmp_path):
    """Also where the coder of the cell takes anything, in all steps, and with every other problem."""

    def change(rows):
        for nth, (cell, value, _) in enumerate(OTHER_TYPES.values()):
            rows = edited(rows, cell, nth, value=value)
        return edited(rows, "count", kind="bag", value='"x"')

    edit(export, change)
    edit(export, lambda rows: edited(rows, "total", value="[1]"), "running")
    with pytest.raises(InputError) as refused:
        state_import(spark, str(export), str(tmp_path / "imported"))
    told = str(refused.value)
    for _, _, problem in OTHER_TYPES.values():
        assert problem in told
    assert "The kind is 'bag', but that of the cell is 'value'." in told
    assert "The coder 'varint' cannot encode 'x' of type str." in told
    assert "- running, key" in told
    assert "it has the type list, but all stored values are int" in told
    assert sorted(path.name for path in tmp_path.iterdir()) == ["export"]


@pytest.mark.night
def test_another_type_for_a_whole_cell(spark, export, tmp_path):
    """Code that keeps another type from now on: without the stored form there is nothing that the values must fit."""

    def change(rows):
        other = {"encoded": None}
        return [{**row, **other, "value": f"{row['value']}.5"} if row["cell"] == "total" else row for row in rows]

    edit(export, change, "running")
    state_import(spark, str(export), str(tmp_path / "imported"))
    told = [row.value for row in read_state(spark, str(tmp_path / "imported"), step="running").collect()]
    assert told
    assert all(value.endswith(".5") for value in told)


def test_an_export_apart_from_its_checkpoint(spark, payments, export, tmp_path):
    before = checksums(payments.stopped)
    for directory in (f"{payments.stopped}/export", payments.stopped):
        with pytest.raises(CheckpointError, match=r"lies in|the same directory"):
            state_export(spark, payments.stopped, directory)
    with pytest.raises(CheckpointError, match="lies in"):
        state_import(spark, str(export), str(export / "new"))
    assert checksums(payments.stopped) == before


@pytest.mark.night
def test_an_export_with_more_than_a_checkpoint_has(spark, export, tmp_path):
    (export / "checkpoint" / "holdfast" / "lock.json").write_text("{}")
    with pytest.raises(CorruptState, match="is not a file of an export"):
        state_import(spark, str(export), str(tmp_path / "new"))
    (export / "checkpoint" / "holdfast" / "lock.json").unlink()
    (export / "checkpoint" / "sources" / "link").symlink_to("/etc")
    with pytest.raises(CheckpointError, match="links are not followed"):
        state_import(spark, str(export), str(tmp_path / "new"))
    assert not (tmp_path / "new").exists()


def test_a_row_that_comes_twice(spark, export, tmp_path):
    edit(export, lambda rows: [*rows, rows[0]])
    with pytest.raises(InputError, match="there are 2 rows"):
        state_import(spark, str(export), str(tmp_path / "imported"))


def test_other_columns(spark, export, tmp_path):
    folder = export / "state" / "running"
    table = pq.read_table(folder).drop(["value"]).replace_schema_metadata(None)
    for file in folder.iterdir():
        file.unlink()
    pq.write_table(table, folder / "edited.parquet")
    with pytest.raises(InputError, match="the column 'value' is missing"):
        state_import(spark, str(export), str(tmp_path / "imported"))


BY_NIGHT = [pytest.param(policy, marks=pytest.mark.night) for policy in ("keep", "merge", "replace")]


@pytest.mark.parametrize("policy", [*BY_NIGHT, "fail"])
def test_into_state_that_exists(spark, payments, export, tmp_path, policy):
    checkpoint = str(tmp_path / "checkpoint")
    shutil.copytree(payments.stopped, checkpoint)
    card = "card 1"
    totals = {row.key: int(row.value) for row in read_state(spark, checkpoint, step="running").collect()}

    def change(rows):
        mine = [row for row in rows if row["key"]["card"] == card]
        return [{**row, "value": "7"} for row in mine] + [{**row, "key": {"card": "new"}} for row in mine]

    edit(export, change, "running")
    edit(export, lambda rows: [])
    before = checksums(tmp_path / "checkpoint")
    if policy == "fail":
        with pytest.raises(InputError, match="has something else in the cell 'total' already"):
            state_import(spark, str(export), checkpoint, on_conflict=policy)
        assert checksums(tmp_path / "checkpoint") == before
        return
    state_import(spark, str(export), checkpoint, on_conflict=policy)

    expected = {"keep": totals[card], "replace": 7, "merge": totals[card] + 7}[policy]
    told = {row.key: int(row.value) for row in read_state(spark, checkpoint, step="running").collect()}
    assert told == {**totals, card: expected, "new": totals[card]}


def test_what_cannot_be_imported(spark, payments, tmp_path):
    with pytest.raises(CheckpointError, match="is not an export"):
        state_import(spark, str(tmp_path), str(tmp_path / "new"))
    with pytest.raises(CheckpointError, match="There is something at"):
        state_import(spark, payments.export, payments.stopped)
    with pytest.raises(InputError, match="'xml' is not a format"):
        state_export(spark, payments.stopped, str(tmp_path / "export"), format="xml")
    with pytest.raises(InputError, match="not a policy"):
        state_import(spark, payments.export, payments.stopped, on_conflict="guess")


def test_the_commands(spark, payments, tmp_path, capsys):
    out = str(tmp_path / "export")
    assert main(["state", "export", payments.stopped, out, "--batch", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["batch"] == 1
    assert main(["state", "import", out, str(tmp_path / "new")]) == 0
    assert "resumes after micro-batch 1" in capsys.readouterr().out
    assert main(["state", "export", payments.stopped, out]) == 1
    assert "There is something at" in capsys.readouterr().err


def test_a_full_disk(spark, payments, small_disk, capsys):
    before = checksums(payments.stopped)
    assert main(["state", "export", payments.stopped, str(small_disk / "export")]) == 1
    assert "No space left on device" in capsys.readouterr().err
    assert main(["state", "import", payments.export, str(small_disk / "new")]) == 1
    assert "No space left on device" in capsys.readouterr().err
    assert list(small_disk.iterdir()) == []
    assert checksums(payments.stopped) == before


def test_a_checkpoint_that_is_in_use(spark, payments, tmp_path, capsys):
    checkpoint = str(tmp_path / "checkpoint")
    shutil.copytree(payments.stopped, checkpoint)
    with holding(None, checkpoint, "job payments"):
        before = checksums(tmp_path / "checkpoint")
        assert main(["state", "import", payments.export, checkpoint, "--on-conflict", "keep"]) == 1
        assert checksums(tmp_path / "checkpoint") == before
    assert "is in use: job payments" in capsys.readouterr().err


def test_an_export_of_another_version(spark, export, tmp_path, capsys):
    content = json.loads((export / "export.json").read_text())
    (export / "export.json").write_text(json.dumps({**content, "export_version": 99}))
    assert main(["state", "import", str(export), str(tmp_path / "new")]) == 1
    assert "has version 99" in capsys.readouterr().err
    (export / "export.json").write_text("{")
    assert main(["state", "import", str(export), str(tmp_path / "new")]) == 1
    assert "is damaged" in capsys.readouterr().err
