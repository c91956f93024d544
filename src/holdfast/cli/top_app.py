"""The screen of `holdfast top`: jobs above, the chosen one below, its steps, keys and symptoms. Needs the extra `top`.

Files are read on a thread, one look at a time; the screen only shows what the last look found.
"""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical, VerticalScroll
from textual.events import Resize
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import DataTable, Footer, Static

from holdfast.cli.output import text
from holdfast.cli.top_jobs import JobsLookedAt, Seen
from holdfast.cli.top_texts import (
    JOB_COLUMNS,
    STEP_COLUMNS,
    detail,
    fitting,
    health_lines,
    job_row,
    key_lines,
    step_rows,
)
from holdfast.engine.stored.readable import counted
from holdfast.watch.health.texts import time_text

__all__ = ["TopApp"]

_WIDE = 120
_SHORT = 32
"""A screen of fewer lines has no room for bars."""

_HELP = """\
[b]holdfast top[/b]

[b]↑ ↓  k j[/b]     choose a job, or a step
[b]tab[/b]          from the jobs to the steps, the symptoms, and back
[b]r[/b]            look now
[b]?[/b]            this help
[b]q[/b]            quit

[b]rows/s[/b]       rows of the last ten micro-batches, by the clock
[b]time[/b]         duration of the last micro-batch
[b]wm lag[/b]       how far the watermark is behind the latest event time
[b]src lag[/b]      records that wait in the sources
[b]update[/b]       what a bundle takes to open and store its state

Each column of a sparkline is a micro-batch, the newest on the right.
What the levels mean: docs/health.md
"""


class HelpScreen(ModalScreen[None]):
    """The keys, and what the columns mean. Any key closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,question_mark,enter,space", "dismiss", "close")]

    def compose(self) -> ComposeResult:
        yield Static(_HELP, id="help")


class TopApp(App[None]):
    """Renews itself every so many seconds."""

    class Looked(Message):
        """What a look found."""

        def __init__(self, found: list[Seen]) -> None:
            super().__init__()
            self.found = found

    TITLE = "holdfast top"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    Screen { layout: vertical; background: $background; overflow: hidden; }
    #title { height: 1; background: $primary-darken-2; color: $text; padding: 0 1; }
    #jobs { height: auto; max-height: 35%; overflow-x: hidden; scrollbar-size: 1 1; }
    #body { height: auto; layout: vertical; border-top: solid $primary-darken-2; }
    #body.wide { layout: horizontal; }
    #detail, #right { height: auto; }
    #detail, #keys, #symptoms { padding: 0 1; }
    #body.wide #detail, #body.wide #right { width: 1fr; }
    #steps { height: auto; max-height: 10; overflow-x: hidden; scrollbar-size: 1 1; }
    #keys { height: auto; }
    #body.wide #keys { padding: 1 1 0 1; }
    #health { height: 1fr; min-height: 2; border-top: solid $primary-darken-2; scrollbar-size: 1 1; }
    #health:focus { border-top: solid $primary; }
    DataTable { background: $background; }
    DataTable > .datatable--header { background: $background; color: $text-muted; text-style: none; }
    HelpScreen { align: center middle; }
    #help { width: auto; max-width: 90%; height: auto; padding: 1 2; border: round $primary; background: $surface; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "quit"),
        Binding("tab", "switch", "jobs/steps/health", priority=True),
        Binding("j,down", "move(1)", "down", show=False),
        Binding("k,up", "move(-1)", "up", show=False),
        Binding("r", "look", "look now"),
        Binding("question_mark", "help", "help"),
    ]

    def __init__(self, jobs: JobsLookedAt, every_seconds: float = 1.0) -> None:
        super().__init__()
        self._jobs = jobs
        self._every = every_seconds
        self._seen: dict[str, Seen] = {}
        self._job: str | None = None
        self._step: dict[str, str] = {}
        """The chosen step of each job."""

    def compose(self) -> ComposeResult:
        yield Static(id="title")
        yield DataTable(id="jobs", cursor_type="row")
        with Container(id="body"):
            yield Static(id="detail")
            with Vertical(id="right"):
                yield DataTable(id="steps", cursor_type="row")
                yield Static(id="keys")
        with VerticalScroll(id="health"):
            yield Static(id="symptoms")
        yield Footer()

    def on_mount(self) -> None:
        self._table("#jobs").focus()
        self.action_look()
        self.set_interval(self._every, self.action_look)

    def on_unmount(self) -> None:
        self._jobs.close()

    def on_resize(self, event: Resize) -> None:
        self.query_one("#body").set_class(event.size.width >= _WIDE, "wide")
        # When everything has found its place.
        self.call_after_refresh(self._show_all)

    def action_look(self) -> None:
        """Looks at all jobs, unless the last look is not done yet."""
        if not any(worker.group == "look" and not worker.is_finished for worker in self.workers):
            self.run_worker(self._look, group="look", thread=True, exit_on_error=True)

    def action_switch(self) -> None:
        """From the jobs to the steps, to the symptoms, and back."""
        places = [self._table("#jobs"), self._table("#steps"), self.query_one("#health")]
        focused = next((number for number, place in enumerate(places) if place.has_focus), -1)
        places[(focused + 1) % len(places)].focus()

    def action_move(self, by: int) -> None:
        health = self.query_one("#health")
        if health.has_focus:
            health.scroll_relative(y=by, animate=False)
            return
        table = self._table("#steps" if self._table("#steps").has_focus else "#jobs")
        table.move_cursor(row=max(0, min(table.cursor_row + by, table.row_count - 1)))

    def action_help(self) -> None:
        self.push_screen(HelpScreen())

    def on_data_table_row_highlighted(self, event: DataTable.RowHighlighted) -> None:
        chosen = event.row_key.value
        if chosen is None:
            return
        if event.data_table.id == "jobs":
            self._job = chosen
            self._show_job()
        elif self._job is not None:
            self._step[self._job] = chosen
            self._show_keys()

    def _look(self) -> None:
        # The only way back from a thread that does not wait for the screen, which may be closing.
        self.post_message(self.Looked(self._jobs.look()))

    def on_top_app_looked(self, message: Looked) -> None:
        found = message.found
        self._seen = {seen.checkpoint: seen for seen in found}
        if self._job not in self._seen:
            self._job = next(iter(self._seen), None)
        at = time_text(max((seen.health.at_ms for seen in found), default=0))
        title = text(f"holdfast top   {counted(len(found), 'job')}   {at}")
        self.screen_stack[0].query_one("#title", Static).update(title)
        self._show_all()

    def _show_all(self) -> None:
        if self._seen and self.screen_stack:
            rows = {seen.checkpoint: job_row(seen) for seen in self._seen.values()}
            _fill(self._table("#jobs"), fitting(JOB_COLUMNS, self.size.width), rows)
        self._show_job()

    def _show_job(self) -> None:
        seen = self._seen.get(self._job or "")
        if seen is None or not self.screen_stack:
            return
        self._static("#detail").update(detail(seen, self._width - 2, is_short=self._is_short))
        _fill(self._table("#steps"), fitting(STEP_COLUMNS, self._width), step_rows(seen))
        self._static("#symptoms").update(health_lines(seen.health))
        self._show_keys()

    def _show_keys(self) -> None:
        seen = self._seen.get(self._job or "")
        if seen is None or seen.history.last is None or not self.screen_stack:
            return
        steps = sorted(seen.history.last.steps)
        chosen = self._step.get(seen.checkpoint)
        step = chosen if chosen in steps else next(iter(steps), None)
        self._static("#keys").update(key_lines(seen, step, self._width - 2, is_short=self._is_short))

    @property
    def _is_short(self) -> bool:
        return self.size.height < _SHORT

    @property
    def _width(self) -> int:
        """Of one of the two columns, or of the only one."""
        return self.size.width // 2 if self.size.width >= _WIDE else self.size.width

    def _static(self, name: str) -> Static:
        return self.screen_stack[0].query_one(name, Static)

    def _table(self, name: str) -> DataTable[Text]:
        return self.screen_stack[0].query_one(name, DataTable)


def _fill(table: DataTable[Text], columns: list[str], rows: dict[str, dict[str, Text]]) -> None:
    """Changes cells in place where it can, so that the cursor stays where it is."""
    known = [key.value for key in table.rows]
    if known == list(rows) and [key.value for key in table.columns] == columns:
        for name, cells in rows.items():
            for column in columns:
                table.update_cell(name, column, cells.get(column, text("")), update_width=True)
        return
    chosen = known[table.cursor_row] if 0 <= table.cursor_row < len(known) else None
    table.clear(columns=True)
    for column in columns:
        table.add_column(text(column), key=column)
    for name, cells in rows.items():
        table.add_row(*(cells.get(column, text("")) for column in columns), key=name)
    if chosen in rows:
        table.move_cursor(row=list(rows).index(chosen))
