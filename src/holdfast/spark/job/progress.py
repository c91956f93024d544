"""Progress of a running job: one line that updates in place on a terminal, plain lines elsewhere."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any, TextIO

from holdfast.engine.stored.readable import visible
from holdfast.spark.job.executed import was_executed
from holdfast.spark.job.lag import source_lags

__all__ = ["Progress", "ProgressLine"]

_PLAIN_SECONDS = 5.0


_NO_WATERMARK = "1970-01-01T00:00:00.000Z"
"""Where Spark's begins, before there was an event."""


class ProgressLine:
    """The essentials of Spark's progress report, as one line."""

    def __init__(self, name: str) -> None:
        self._name = visible(name)
        self.rows = 0
        self._batch: int | None = None

    def begin(self) -> None:
        """Prepares for the reports of another query."""
        self._batch = None

    def lacks(self, report: Any) -> bool:
        """Whether reports before this one may not have been counted."""
        return self._batch is None or report.batchId > self._batch + 1

    def count(self, report: Any) -> None:
        """Adds the rows of one of Spark's reports, which may come more than once, but in their order."""
        if was_executed(report) and (self._batch is None or report.batchId > self._batch):
            self._batch = report.batchId
            self.rows += report.numInputRows

    def text(self, report: Any) -> str:
        """The line for one of Spark's reports, whose rows are counted."""
        self.count(report)
        seconds = (report.batchDuration or 0) / 1000
        rate = report.numInputRows / seconds if seconds else 0.0
        parts = [f"{self._name}: batch {report.batchId}", f"{rate:,.0f} rows/s", f"{self.rows:,} rows"]
        watermark = (report.eventTime or {}).get("watermark")
        if watermark and watermark != _NO_WATERMARK:
            parts.append(f"watermark {watermark}")
        lags = source_lags(report)
        if lags:
            parts.append(f"lag {sum(lags.values()):,}")
        parts.append(f"state {_size(_state_bytes(report))}")
        return "  ".join(parts)


def _state_bytes(report: Any) -> int:
    total = 0
    for operator in report.stateOperators:
        custom = operator.customMetrics or {}
        total += operator.memoryUsedBytes + int(custom.get("rocksdbSstFileSize", 0))
    return total


def _size(size: float) -> str:
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1024:
            return f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.1f} TB"


class Progress:
    """Shows reports as they come."""

    def __init__(self, name: str, stream: TextIO | None = None, enabled: bool = True) -> None:
        self._stream = stream or sys.stderr
        self._name = name
        self._line = ProgressLine(name)
        self._enabled = enabled
        self._terminal = self._stream.isatty()
        self._shown: tuple[Any, ...] | None = None
        self._shown_at = 0.0
        self._begun_at = 0.0
        self._open = False
        self._width = 0

    def begin(self, checkpoint: str) -> None:
        """Announces that a query is about to start."""
        self._begun_at = time.monotonic()
        self._shown_at = self._begun_at
        self._line.begin()
        self.note(f"{self._name}: starting from {checkpoint}")

    def waiting(self, doing: str) -> None:
        """Shows activity before the first report: at once on a terminal, else every few seconds."""
        now = time.monotonic()
        if not self._enabled or now - self._shown_at < (1.0 if self._terminal else _PLAIN_SECONDS):
            return
        self._shown_at = now
        self._line_of(f"{self._name}: before the first micro-batch, {now - self._begun_at:.0f} s  {doing}")

    def show(self, report: Any, recent: Callable[[], Iterable[Any]], final: bool = False) -> None:
        """Shows a new report: at once on a terminal, else every few seconds. `recent` gives the last ones: micro-batches may
        be shorter than the time between two looks."""
        if not self._enabled or report is None or (report.batchId, report.timestamp) == self._shown:
            return
        if self._line.lacks(report):
            for earlier in recent():
                if earlier.batchId < report.batchId:
                    self._line.count(earlier)
        text = self._line.text(report)
        if not self._terminal and not final and time.monotonic() - self._shown_at < _PLAIN_SECONDS:
            return
        self._shown = (report.batchId, report.timestamp)
        self._shown_at = time.monotonic()
        self._line_of(text)

    def _line_of(self, text: str) -> None:
        if self._terminal:
            # A wrapped line could not be updated in place.
            text = text[: shutil.get_terminal_size().columns - 1]
            self._stream.write("\r" + text.ljust(self._width))
            self._width = len(text)
            self._open = True
        else:
            self._stream.write(text + "\n")
        self._stream.flush()

    def note(self, text: str) -> None:
        """Prints a note on its own line."""
        if self._enabled:
            self.close()
            self._stream.write(f"{visible(text)}\n")
            self._stream.flush()

    def close(self) -> None:
        """Ends the line that updates in place."""
        if self._open:
            self._stream.write("\n")
            self._open = False
