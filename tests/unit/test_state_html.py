"""State in a notebook: tables in which nothing that is stored becomes markup."""

from __future__ import annotations

from holdfast.ops.inspect.compare import Change, Diff
from holdfast.ops.inspect.showing import ShownCell, StateView
from holdfast.ops.inspect.summary import CellSummary, StepSummary

EVIL = "<script>alert(1)</script>\x1b[0m"
SHOWN = "&lt;script&gt;alert(1)&lt;/script&gt;\\x1b[0m"


def is_safe(html):
    return "<script" not in html and "\x1b" not in html and SHOWN in html


def test_a_view_has_a_row_for_each_key_and_window():
    cells = [
        ShownCell(EVIL, "a", "w1", "count", "value", "1", "1", None),
        ShownCell(EVIL, "a", "w1", EVIL, "value", "1", EVIL, "2026-01-01"),
        ShownCell(EVIL, EVIL, "w2", "count", "value", "2", "two", None),
    ]
    html = StateView(7, cells, more=True, step_names=[EVIL])._repr_html_()
    assert is_safe(html)
    assert "micro-batch 7" in html
    assert html.count("<tr>") == 3
    assert "(expires 2026-01-01)" in html
    assert "There is more" in html
    assert "There is more" not in StateView(7, cells, more=False, step_names=[EVIL])._repr_html_()


def test_a_view_says_what_the_authors_say_of_its_cells():
    cells = [ShownCell("step", "k", "global", name, "value", "1", "1", None) for name in ("count", "due[x]", "plain")]
    view = StateView(7, cells, more=False, step_names=["step"], docs={"step": {"count": EVIL, "due": "when it is due"}})
    html = view._repr_html_()
    assert "when it is due" in html
    assert html.count("<tr>") == 3
    assert EVIL not in html
    assert "when it is due" not in StateView(7, cells, more=False, step_names=["step"])._repr_html_()


def test_a_difference_has_a_row_for_each_change():
    changes = [
        Change("s", EVIL, "w", "c", "value", None, "1", "", EVIL),
        Change("s", "k", "w", "c", "value", "1", None, "1", ""),
    ]
    html = Diff(1, 2, changes, total=3)._repr_html_()
    assert is_safe(html)
    assert ("added" in html, "removed" in html, "changed" in html) == (True, True, False)
    assert "3 changes from micro-batch 1 to 2" in html
    assert "There is more" in html


def test_a_summary_has_a_row_for_each_cell():
    cells = [CellSummary(EVIL, "value", "varint", None, 1234, 5678)]
    html = StepSummary(EVIL, 0, 4, "heap", 3, cells, 2, 100, key="card string")._repr_html_()
    assert is_safe(html)
    assert "1,234" in html
    assert "3 keys by card string, 2 timers" in html
