"""The terminal, to see what an output has."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame
from rich.box import ASCII, SIMPLE_HEAD
from rich.console import Console as Terminal
from rich.table import Table
from rich.text import Text

from holdfast.engine.stored.readable import counted, visible
from holdfast.errors import InvalidStep, SinkError
from holdfast.spark.sinks.base import BatchInfo, Sink
from holdfast.spark.sinks.upsert import CAN_UPSERT, Upsert

__all__ = ["Console"]


class Console(Sink):
    """Prints the first rows of each micro-batch to standard output, as a table. For trying out, not for keeping.

    At least once: a micro-batch that comes again, after a crash or a rollback, is printed again. It cannot upsert.

    `name` stands in the heading, to tell outputs apart. `rows`: how many are shown at most; the heading says how many there
    are. `width`: how many characters of a value are. Control characters are shown as escapes, so that no value can do
    anything to the terminal. Times are in UTC.
    """

    def __init__(self, name: str = "", *, rows: int = 20, width: int = 40) -> None:
        problems = [*_problems(name, rows, width)]
        if problems:
            raise InvalidStep.of("Console", problems)
        self.name = name
        self._rows = rows
        self._width = width

    def __repr__(self) -> str:
        return f"Console({self.name!r})" if self.name else "Console()"

    def upserting(self, upsert: Upsert) -> Sink:
        cannot = (
            f"{self!r} cannot upsert: what has been printed stays. Use {CAN_UPSERT}, or hf.sinks.Collect; or leave out mode "
            "and key."
        )
        raise InvalidStep.of_sink(self, [cannot])

    def write_batch(self, rows: DataFrame, info: BatchInfo) -> None:
        count = rows.count()
        shown = rows.limit(self._rows).toArrow() if count and self._rows else None
        try:
            self._print(info.batch_id, count, rows.columns, [] if shown is None else shown.to_pylist())
        except (OSError, ValueError) as error:
            raise SinkError(
                f"{self!r} could not be printed: {error}.",
                todo="keep standard output open, or use another sink",
            ) from error

    def _print(self, batch: int, count: int, names: list[str], rows: list[dict[str, Any]]) -> None:
        # The stream of now: a notebook, or a test, puts another in its place.
        encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
        heading = f"{self.name}: " if self.name else ""
        heading += f"micro-batch {batch}, {counted(count, 'row') if count else 'no rows'}"
        if 0 < len(rows) < count:
            heading += f", the first {len(rows):,}"
        table = Table(box=SIMPLE_HEAD if "utf" in encoding.lower() else ASCII, show_edge=False, pad_edge=False)
        for name in names:
            table.add_column(Text(self._cell(name, encoding)), no_wrap=True)
        for row in rows:
            table.add_row(*(Text(self._cell(_told(value), encoding)) for value in row.values()))
        # As wide as the values are, also where standard output is a file and has no width.
        wide = Terminal(file=sys.stdout, width=len(names) * (6 * self._width + 16) + 16, highlight=False)
        wide.print(Text(_encodable(visible(heading), encoding)), soft_wrap=True)
        if rows:
            wide.print(table, soft_wrap=True)
        sys.stdout.flush()

    def _cell(self, text: str, encoding: str) -> str:
        # Cut before it is made visible, too: a text may have millions of characters.
        told = _encodable(visible(text[: self._width + 1]), encoding)
        return told if len(told) <= self._width else told[: self._width - 3] + "..."


def _told(value: Any) -> str:
    """A value of a column, for people."""
    if value is None:
        return "null"
    if isinstance(value, (datetime.datetime, datetime.date)):
        return value.isoformat()
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {_told(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_told, value)) + "]"
    if isinstance(value, tuple):
        # A pair of a map.
        return " -> ".join(map(_told, value))
    return str(value)


def _encodable(text: str, encoding: str) -> str:
    """A text that standard output can take, whatever its encoding."""
    return text.encode(encoding, "backslashreplace").decode(encoding)


def _problems(name: Any, rows: Any, width: Any) -> Iterator[str]:
    if not isinstance(name, str):
        yield f"name is {name!r}; give a text."
    if not isinstance(rows, int) or isinstance(rows, bool) or rows < 0:
        yield f"rows is {rows!r}; give a whole number, from 0 on."
    if not isinstance(width, int) or isinstance(width, bool) or width < 4:
        yield f"width is {width!r}; give a whole number, from 4 on."
