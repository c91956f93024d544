"""What reaches a terminal: everything can be seen, and nothing of what was stored does anything."""

from __future__ import annotations

import io
import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table

from holdfast.cli import output, state_views
from holdfast.cli.main import main
from holdfast.cli.output import console, error_console, give, report_error, say, table, text
from holdfast.engine.stored.readable import counted, to_text, visible
from holdfast.errors import HoldfastError
from holdfast.ops.inspect.compare import Change
from holdfast.ops.inspect.showing import ShownCell
from holdfast.ops.inspect.summary import CellSummary, StepSummary
from holdfast.spark.job.progress import Progress

HOSTILE = [
    "\x1b[2J",
    "\x1b]0;title\x07",
    "\x9b31m",
    "\x00",
    "\x7f",
    "\r",
    "\x08",
    "a\u202eb",
    "\u2066x\u2069",
    "\u200e",
    "\u061c",
    "a\u200bb",
    "\ufeff",
    "\u2028",
    "\u2029",
    "\x85",
    "\U000e0041",
    "\ud800",
    "\u3164",
]
CODES = [letter for letter in "".join(HOSTILE) if not letter.isascii() or not letter.isprintable()]


def harmless(shown: str) -> bool:
    return all(unicodedata.category(letter) not in ("Cc", "Cf", "Cs", "Zl", "Zp") or letter == "\n" for letter in shown)


@pytest.fixture
def printed(capsys):
    """What was shown, to people and as errors."""
    return lambda: "".join(capsys.readouterr())


@given(st.text(st.characters()))
def test_every_character_can_be_seen(content):
    shown = visible(content)
    assert harmless(shown)
    assert "\n" not in shown
    assert visible(shown) == shown


@pytest.mark.parametrize("content", HOSTILE, ids=ascii)
def test_controls_are_written_out(content):
    shown = visible(content)
    assert not set(shown) & set(CODES)
    # Written as Python would write it, so that one can say what it was.
    assert (
        shown.encode("ascii").decode("unicode_escape").encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
        == content
    )


@pytest.mark.parametrize("content", ["card 3", "käse", "日本語", "a b", "🙂", "[red]x[/red]", "C:\\temp"])
def test_what_can_be_seen_stays(content):
    assert visible(content) == content


@pytest.mark.parametrize("content", [*HOSTILE, "[red]x[/red]", "[/nothing]", ":smile:"], ids=ascii)
def test_nothing_that_was_stored_reaches_the_terminal_as_it_is(content, printed):
    wanted = visible(content)
    cell = ShownCell(content, content, content, content, "value", "1", to_text(content), content)
    change = Change(content, content, content, content, "value", None, "1", to_text(content), content, 1)
    summary = CellSummary(content, content, content, content, 1, 1)
    say(content)
    console.print(table(content, [content], [[content]]))
    state_views.show_step(content, 1, [cell])
    state_views.show_step(content, 1, [])
    console.print(state_views.changes_table([change], batches=True))
    console.print(state_views.step_table(StepSummary(content, 0, 1, content, 1, [summary], 1, 1, 1, content, content)))
    report_error(HoldfastError(content, detail=content, todo=content, context={"key": content}), as_json=False)
    shown = printed()
    assert harmless(shown)
    assert shown.replace("\n", "").count(wanted.replace(" ", "")) >= 4


@pytest.mark.parametrize("content", HOSTILE, ids=ascii)
def test_the_consoles_let_nothing_through_that_was_forgotten(content, printed):
    forgotten = Table()
    forgotten.add_column(content)
    for each in (console, error_console):
        each.print(f"x{content}x", markup=False)
        each.print(forgotten)
    assert harmless(printed())


@pytest.mark.parametrize("content", [*HOSTILE, "käse"], ids=ascii)
def test_json_is_faithful_and_ascii(content, capsys):
    give({"key": content}, True, lambda: None)
    told = capsys.readouterr().out
    assert told.isascii()
    assert json.loads(told) == {"key": content}
    report_error(HoldfastError(content), as_json=True)
    told = capsys.readouterr().err
    assert told.isascii()
    assert json.loads(told)["error"]["what"] == content


def test_the_name_of_a_job_in_its_progress():
    shown = io.StringIO()
    Progress("a\x1b[2J", shown).note("stored\x1b]0;x\x07")
    assert harmless(shown.getvalue())


def test_a_progress_bar_takes_no_markup(monkeypatch):
    """A name with brackets in it once was markup, and could end the command."""
    shown = io.StringIO()
    on = output._SafeConsole(file=shown, force_terminal=True)
    with output.working("Waiting for a[/b] to stop", on) as report:
        report(1, 2)
    assert "a[/b]" in shown.getvalue()


@pytest.mark.parametrize(("number", "told"), [(0, "0 keys"), (1, "1 key"), (2, "2 keys"), (1000, "1,000 keys")])
def test_counts(number, told):
    assert counted(number, "key") == told
    assert counted(1, "micro-batch", "micro-batches") == "1 micro-batch"
    assert counted(2, "micro-batch", "micro-batches") == "2 micro-batches"


def test_a_step_with_one_of_each(printed):
    cell = CellSummary("total", "value", "plain", None, 1, 1)
    console.print(state_views.step_table(StepSummary("s", 0, 1, "heap", 1, [cell], 1, 1, 1, "FixedWindows", "k string")))
    told = " ".join(printed().split())
    assert "1 key by k string, 1 timer, 1 window of FixedWindows, 1 B stored in 1 key group (heap)" in told


def test_the_version(capsys):
    import holdfast

    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"holdfast {holdfast.__version__}\n"


WINDOW = "2026-03-01T10:00:00Z to 2026-03-01T10:10:00Z"


def shown(key, name, value, window="", kind="value", expires=None):
    return ShownCell("s", key, window, name, kind, value, value, expires)


def test_many_keys_that_fit_are_one_table(monkeypatch, capsys):
    monkeypatch.setattr(console, "_width", 80)
    state_views.show_step("totals", 5, [shown(f"card {n}", "total", str(n)) for n in range(20)])
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert lines[0] == ["totals", "after", "micro-batch", "5"]
    assert lines[1] == ["key", "total"]
    assert lines[3:] == [["card", str(n), str(n)] for n in range(20)]


def test_what_does_not_fit_has_a_line_for_each_cell(monkeypatch, capsys):
    monkeypatch.setattr(console, "_width", 80)
    long = ", ".join(map(str, range(60)))
    cells = [
        shown("card 1", "amounts", long, WINDOW),
        shown("card 1", "due", "2026-03-01T10:05:00Z", WINDOW, "timer"),
        shown("card 2", "by_kind", "{'a': 1}", WINDOW, expires="2026-03-02T00:00:00Z"),
    ]
    state_views.show_step("cells", 5, cells)
    told = capsys.readouterr().out
    assert max(map(len, told.splitlines())) <= 80
    assert f"card 1  {WINDOW}\n" in told
    assert "  due      ⏱ 2026-03-01T10:05:00Z" in told
    assert "  by_kind  {'a': 1} (until 2026-03-02T00:00:00Z)" in told
    # Nothing of a long value is cut.
    assert "".join(told.split()).count("".join(long.split())) == 1


def test_a_text_may_have_a_style():
    assert text("x\x1b", "bold").plain == "x\\x1b"
