"""Looking inside: after every retained micro-batch the state is the one that it had then."""

from __future__ import annotations

import json

import pytest

from holdfast.cli.main import main
from holdfast.errors import CheckpointError, InputError
from holdfast.ops import read_state, state_ls, state_show
from holdfast.ops.inspect.compare import state_diff, state_history

from .oracle import states
from .payments import Payments

FILES = 5
BATCHES = FILES + 1


@pytest.fixture(scope="module")
def payments(spark, tmp_path_factory):
    made = Payments(spark, tmp_path_factory.mktemp("payments"))
    made.add(*range(FILES))
    made.run()
    return made


def readable(row):
    """The place of a row of `read_state`, and its value in the form of the oracle."""
    start = None if row.window is None else int(row.window.start.timestamp())
    value = json.loads(row.value)
    if row.cell == "kinds":
        value = sorted(value["$set"])
    elif row.cell == "times":
        value = [(_seconds(pair["$tuple"][0]), pair["$tuple"][1]) for pair in value]
    elif row.kind == "timer":
        value = _seconds(value)
    return (row.step, row.key, start, row.cell), value


def _seconds(shown):
    from holdfast import Timestamp

    return Timestamp.from_rfc3339(shown["$timestamp"]).micros // 1_000_000


@pytest.mark.parametrize(
    "batch", [pytest.param(n, marks=[pytest.mark.night] * (n not in (0, 3, BATCHES - 1))) for n in range(BATCHES)]
)
def test_the_state_after_each_micro_batch_is_what_it_was(spark, payments, batch):
    rows = read_state(spark, payments.checkpoint, batch=batch).collect()

    found = dict(readable(row) for row in rows if row.cell != "secret")

    assert found == states(FILES)[batch]


def test_a_pickle_stays_closed(spark, payments):
    closed = read_state(spark, payments.checkpoint).where("cell = 'secret'").first().value
    opened = read_state(spark, payments.checkpoint, trust_pickle=True).where("cell = 'secret'").first().value
    assert "$opaque" in closed
    assert "$frozenset" in opened


def test_ls_counts_everything(spark, payments, capsys):
    expected = states(FILES)[-1]
    for step in state_ls(spark, payments.checkpoint):
        here = [place for place in expected if place[0] == step.step]
        assert step.keys == len({place[1] for place in here})
        assert step.timers == sum(place[3] == "due" for place in here)
        for cell in step.cells:
            if cell.name != "secret":
                assert cell.keys == sum(place[3] == cell.name for place in here)


def test_show_one_key_in_one_window(spark, payments):
    view = state_show(
        spark, payments.checkpoint, step="everything", key="card 3", window="1970-01-01T00:12:00Z", batch=BATCHES - 1
    )
    expected = states(FILES)[-1]
    assert view.cells
    assert {cell.window for cell in view.cells} == {"1970-01-01T00:10:00Z to 1970-01-01T00:20:00Z"}
    shown = {cell.cell: cell for cell in view.cells}
    assert shown["count"].value == str(expected["everything", "card 3", 600, "count"])
    assert shown["by_kind"].expires_at is not None


def test_show_is_limited_and_says_so(spark, payments):
    view = state_show(spark, payments.checkpoint, step="running", limit=3)
    assert len({cell.key for cell in view.cells}) == 3
    assert view.more


def test_diff_is_the_difference_of_two_states(spark, payments):
    before, after = states(FILES)[2], states(FILES)[4]
    changed = {place for place in before.keys() | after.keys() if before.get(place) != after.get(place)}

    diff = state_diff(spark, payments.checkpoint, 2, 4)

    found = {(c.step, c.key, c.window, c.cell): c for c in diff.changes if c.cell != "secret"}
    expected = {(step, key, _window(start), cell) for step, key, start, cell in changed}
    assert set(found) == expected
    for step, key, start, cell in changed:
        change = found[step, key, _window(start), cell]
        assert (change.before is None) == ((step, key, start, cell) not in before)
        assert (change.after is None) == ((step, key, start, cell) not in after)


def _window(start):
    from holdfast import Timestamp

    if start is None:
        return ""
    return " to ".join(Timestamp(second).to_rfc3339() for second in (start, start + 600))


def test_history_tells_every_change_of_a_key(spark, payments):
    changes = state_history(spark, payments.checkpoint, "card 3", step="running")
    told = {change.batch: json.loads(change.after) for change in changes}
    place = ("running", "card 3", None, "total")
    expected, last = {}, None
    for batch, state in enumerate(states(FILES)):
        if state.get(place) != last:
            last = expected[batch] = state[place]
    assert told == expected


def test_what_cannot_be_asked(spark, payments, tmp_path):
    with pytest.raises(CheckpointError, match="The state after micro-batch 99 is not in"):
        read_state(spark, payments.checkpoint, batch=99)
    with pytest.raises(CheckpointError, match="has no step 'nothing'"):
        state_show(spark, payments.checkpoint, step="nothing")
    with pytest.raises(CheckpointError, match="has no state"):
        state_show(spark, payments.checkpoint, key="nobody")
    with pytest.raises(InputError, match="There is no window 'yesterday'") as refused:
        state_show(spark, payments.checkpoint, step="everything", window="yesterday")
    assert "1970-01-01T00:10:00Z to 1970-01-01T00:20:00Z" in refused.value.detail
    with pytest.raises(InputError, match="There is no window 'yesterday'") as refused:
        state_show(spark, payments.checkpoint, step="running", window="yesterday")
    assert "There are: global." in refused.value.detail
    with pytest.raises(InputError, match="There is no cell or timer 'nope'") as refused:
        state_show(spark, payments.checkpoint, cell="nope")
    assert "everything has 'count', 'amounts'" in refused.value.todo
    assert "'due'; running has 'total'" in refused.value.todo
    with pytest.raises(CheckpointError, match="There is nothing at"):
        read_state(spark, str(tmp_path / "missing"))
    with pytest.raises(CheckpointError, match="is not a checkpoint"):
        read_state(spark, str(tmp_path))


@pytest.mark.parametrize(
    "arguments",
    [["ls"], ["show", "--limit", "2"], ["diff", "--from", "1", "--to", "2"], ["history", "--key", "card 1"]],
    ids=lambda arguments: arguments[0],
)
def test_the_commands_speak_to_people_and_to_programs(spark, payments, capsys, arguments):
    command, *options = arguments
    assert main(["state", command, payments.checkpoint, *options]) == 0
    assert "running" in capsys.readouterr().out
    assert main(["state", command, payments.checkpoint, *options, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("command", ["ls", "show"])
def test_a_command_that_cannot_says_why(spark, tmp_path, capsys, command):
    assert main(["state", command, str(tmp_path / "missing")]) == 1
    assert "There is nothing at" in capsys.readouterr().err


def test_a_window_by_the_beginning_of_its_text(spark, payments):
    """Also if it is no time, and not of the first window that there is."""
    view = state_show(spark, payments.checkpoint, step="everything", window="1970-01-01T00:1", cell="count")
    assert {cell.window for cell in view.cells} == {"1970-01-01T00:10:00Z to 1970-01-01T00:20:00Z"}


def test_a_cell_that_one_step_has(spark, payments):
    assert state_show(spark, payments.checkpoint, cell="due").step_names == ["everything"]


@pytest.mark.parametrize("option", ["--cell", "--window"])
def test_what_is_not_there_is_no_success(spark, payments, capsys, option):
    assert main(["state", "show", payments.checkpoint, option, "garbage"]) == 1
    assert "There is no" in capsys.readouterr().err


def test_wrong_usage(capsys):
    assert main(["state", "diff", "somewhere"]) == 2
