"""What all commands share: output for people and for programs, and the Spark session.

Results go to standard output: tables for people, or with `--json` one JSON document. Everything else (progress, notes,
errors) goes to standard error.

What is shown comes from stored data, which is untrusted, so no control character may reach the terminal. `text` and `say`
make them visible before layout; the consoles block any that slipped through. JSON is ASCII.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Annotated, Any, TypeVar

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from holdfast.engine.stored.readable import visible
from holdfast.errors import HoldfastError, InputError, NeedsSpark

__all__ = [
    "AsJson",
    "Report",
    "check_confirmed",
    "console",
    "error_console",
    "give",
    "quiet_spark",
    "report_error",
    "say",
    "size_text",
    "spark_for",
    "table",
    "text",
    "with_spark_if_needed",
    "working",
]

R = TypeVar("R")

AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


class _SafeConsole(Console):
    """A console that writes only visible characters, apart from its own control codes for styles and progress."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control or (segment.text.isascii() and segment.text.isprintable()):
                yield segment
            else:
                yield Segment(visible(segment.text, keep="\n"), segment.style)


console = _SafeConsole(soft_wrap=True)
error_console = _SafeConsole(stderr=True, soft_wrap=True)

Report = Callable[[int, int], None]
"""Called with how much is done, and the total."""


def give(result: Any, as_json: bool, show: Callable[[], None]) -> None:
    """Prints a result: as JSON, or by calling `show`."""
    if as_json:
        sys.stdout.write(json.dumps(result, indent=2, default=str) + "\n")
    else:
        show()


@contextlib.contextmanager
def working(what: str, on: Console = error_console) -> Iterator[Report]:
    """Shows progress on a terminal; yields a function to report it to."""
    if not on.is_terminal:
        yield lambda done, total: None
        return
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=on, transient=True) as progress:
        task = progress.add_task(what, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


@contextlib.contextmanager
def _hushed() -> Iterator[Console]:
    """Silences standard error for processes started inside: Spark and its workers log much that is not about us. Yields a
    console that still writes to it."""
    sys.stderr.flush()
    kept = os.dup(2)
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        with os.fdopen(os.dup(kept), "w") as stream:
            yield _SafeConsole(file=stream)
    finally:
        os.dup2(kept, 2)
        os.close(kept)


@contextlib.contextmanager
def quiet_spark() -> Iterator[Any]:
    """A local session that logs nothing, for as long as a command runs; or the existing one."""
    from pyspark.sql import SparkSession

    from holdfast.spark.session.settings import session

    present = SparkSession.getActiveSession()
    if present is not None:
        yield present
        return
    with _hushed() as shown, working("Starting Spark", shown):
        spark = session("holdfast-tool")
        spark.sparkContext.setLogLevel("OFF")
    try:
        yield spark
    finally:
        spark.stop()


@contextlib.contextmanager
def spark_for(*paths: str, always: bool = False) -> Iterator[Any]:
    """A session if a path needs one, else None; local paths do not."""
    from holdfast.checkpoint.files.choice import is_local

    if not always and all(map(is_local, paths)):
        yield None
        return
    with quiet_spark() as spark:
        yield spark


def with_spark_if_needed(what: str, work: Callable[[Any, Report], R]) -> R:
    """The result of work that may not need Spark: first without a session, which takes long to start, then with one."""
    try:
        with working(what) as report:
            return work(None, report)
    except NeedsSpark:
        with quiet_spark() as spark, working(what) as report:
            return work(spark, report)


def text(content: object, style: str = "") -> Text:
    """Text for one line, in which square brackets and control characters have no special meaning."""
    return Text(visible(str(content)), style)


def say(content: object) -> None:
    """Prints a line."""
    console.print(text(content))


def check_confirmed(show: Callable[[], None], as_json: bool) -> None:
    """Shows what is about to be done, and asks. Raises InputError if there is nobody to ask."""
    if as_json or not sys.stdin.isatty():
        raise InputError(
            "Nothing was done: this needs confirmation.", todo="add --yes, or --dry-run to see what would be done"
        )
    show()
    typer.confirm("Do it?", abort=True)


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Table:
    """A table whose cells are shown literally; a cell that is a `Text` keeps its style."""
    made = Table(title=text(title) if title else None, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        made.add_column(text(column), overflow="fold")
    for row in rows:
        made.add_row(*(cell if isinstance(cell, Text) else text(cell) for cell in row))
    return made


def report_error(error: HoldfastError, as_json: bool) -> None:
    """Prints what went wrong, where, and what to do."""
    if as_json:
        context = {name: str(value) for name, value in error.context.items()}
        content = {"what": error.what, "detail": error.detail, "todo": error.todo, "where": context}
        sys.stderr.write(json.dumps({"error": content}, indent=2) + "\n")
    else:
        error_console.print(Text(visible(f"error: {error}", keep="\n")))


def size_text(size: float) -> str:
    """A number of bytes in readable units."""
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TB"
