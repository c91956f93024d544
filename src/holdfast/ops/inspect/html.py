"""State as HTML tables, for notebooks: everything in them is escaped, and they are no longer than what was asked for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

from holdfast.engine.stored.readable import counted, visible

if TYPE_CHECKING:
    from holdfast.ops.inspect.compare import Diff
    from holdfast.ops.inspect.showing import StateView
    from holdfast.ops.inspect.summary import StepSummary

__all__ = ["diff_html", "summary_html", "view_html"]

_CELL = "padding:.15em .8em .15em 0;text-align:left;vertical-align:top"
_COLOURS = {"added": "#1a7f37", "removed": "#cf222e", "changed": "#9a6700"}


def view_html(view: StateView) -> str:
    """A table for each step: a row for each key and window, a column for each cell and timer, below its name what its author
    says of it."""
    return _whole(
        f"<p>State after micro-batch {view.batch}</p>", *(_step(view, name) for name in view.step_names), *_more(view.more)
    )


def _step(view: StateView, name: str) -> str:
    own = [cell for cell in view.cells if cell.step == name]
    columns = list(dict.fromkeys(cell.cell for cell in own))
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for cell in own:
        expires = f" (expires {cell.expires_at})" if cell.expires_at else ""
        rows.setdefault((cell.key, cell.window), {})[cell.cell] = f"{cell.text}{expires}"
    body = [[key, window, *(cells.get(column, "") for column in columns)] for (key, window), cells in rows.items()]
    docs = view.docs.get(name, {})
    # A timer with tags has a column for each.
    told = [docs.get(column) or docs.get(column.partition("[")[0], "") for column in columns]
    if any(told):
        body.insert(0, ["", "", *told])
    return f"<p><b>{_text(name)}</b></p>{_table(['key', 'window', *columns], body)}"


def _more(more: bool) -> Iterable[str]:
    return ["<p>There is more: ask with a higher limit, or for one key.</p>"] if more else []


def diff_html(diff: Diff) -> str:
    """A row for each change, in the colour of what it did."""
    rows = "".join(
        _row("td", [change.step, change.key, change.window, change.cell, change.what, change.old, change.new], change.what)
        for change in diff.changes
    )
    head = _row("th", ["step", "key", "window", "cell", "what", "before", "after"])
    title = f"<p>{counted(diff.total, 'change')} from micro-batch {diff.from_batch} to {diff.to_batch}</p>"
    return _whole(title, f"<table>{head}{rows}</table>", *_more(diff.total > len(diff.changes)))


def summary_html(step: StepSummary) -> str:
    """What a step keeps, a row for each cell."""
    title = f"{step.step}: {counted(step.keys, 'key')} by {step.key}, {counted(step.timers, 'timer')}"
    has_docs = any(cell.doc for cell in step.cells)
    rows = [
        [cell.name, cell.kind, cell.coder, cell.ttl or "", f"{cell.keys:,}", f"{cell.bytes:,}"]
        + ([cell.doc or ""] if has_docs else [])
        for cell in step.cells
    ]
    columns = ["cell", "kind", "coder", "ttl", "keys and windows", "bytes", *(["doc"] if has_docs else [])]
    return _whole(f"<p><b>{_text(title)}</b></p>", _table(columns, rows))


def _whole(*parts: str) -> str:
    return f'<div class="holdfast-state" style="overflow-x:auto">{"".join(parts)}</div>'


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return f"<table>{_row('th', columns)}{''.join(_row('td', row) for row in rows)}</table>"


def _row(tag: str, cells: Sequence[str], what: str = "") -> str:
    style = f"{_CELL};color:{_COLOURS[what]}" if what else _CELL
    return "<tr>" + "".join(f'<{tag} style="{style}">{_text(cell)}</{tag}>' for cell in cells) + "</tr>"


def _text(text: str) -> str:
    return escape(visible(text))
