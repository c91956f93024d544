"""Side inputs on Spark: a batch DataFrame is collected, shaped, and sent to the workers.

The first content is broadcast. A streaming query's plan is fixed when it starts, so newer content of a side input with
`refresh` goes another way: after a micro-batch, when its time has come, it is read again and added as a file of the
Spark context, numbered; Spark brings such files to every executor before its next task, and the worker takes the
newest. A micro-batch that is run again may therefore see newer content than it did before.
"""

from __future__ import annotations

import itertools
import tempfile
import time
from pathlib import Path
from typing import Any

from pyspark import SparkFiles, cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener

from holdfast.model.side_inputs import SideInput
from holdfast.model.step import Step

__all__ = ["Refresher", "Sent", "broadcasts"]

_numbers = itertools.count(1)


class Sent:
    """A side input as a worker sees it: its content, and a version that changes with it."""

    def __init__(self, broadcast: Any, name: str | None) -> None:
        self._broadcast = broadcast
        self._name = name
        """What the files with newer content are called, if there can be any."""

    def version(self) -> int:
        newest = self._newest()
        return 0 if newest is None else _version(newest)

    def value(self) -> Any:
        newest = self._newest()
        return self._broadcast.value if newest is None else cloudpickle.loads(newest.read_bytes())

    def _newest(self) -> Path | None:
        if self._name is None:
            return None
        files = Path(SparkFiles.getRootDirectory()).glob(f"{self._name}.*")
        return max(files, key=_version, default=None)


def _version(file: Path) -> int:
    return int(file.suffix[1:])


def broadcasts(spark: SparkSession, step: Step) -> dict[str, Sent]:
    """What each side input is sent as, by the name of its parameter; `*n` for those of `*args`."""
    named = {name: _send(spark, side_input) for name, side_input in step.side_inputs.items()}
    extra = {f"*{i:03d}": _send(spark, s) for i, s in enumerate(step.extra_side_inputs)}
    return named | extra


def _send(spark: SparkSession, side_input: SideInput) -> Sent:
    broadcast = spark.sparkContext.broadcast(_view(side_input))
    if side_input.refresh is None or not isinstance(side_input.source, DataFrame):
        return Sent(broadcast, None)
    name = f"holdfast-side-input-{next(_numbers)}"
    spark.streams.addListener(Refresher(spark, side_input, name))
    return Sent(broadcast, name)


def _view(side_input: SideInput) -> Any:
    """The content of a side input: of a DataFrame its rows as plain tuples, or bare values if it has one column."""
    source = side_input.source
    if isinstance(source, DataFrame):
        source = [row[0] if len(row) == 1 else tuple(row) for row in source.collect()]
    return side_input.view(source)


class Refresher(StreamingQueryListener):
    """Reads a side input again after a micro-batch, when its time has come."""

    def __init__(self, spark: SparkSession, side_input: SideInput, name: str) -> None:
        assert side_input.refresh is not None
        self._spark = spark
        self._side_input = side_input
        self._name = name
        self._seconds = float(side_input.refresh)
        self._read_at = time.monotonic()
        self._versions = itertools.count(1)
        self._folder = tempfile.TemporaryDirectory(prefix="holdfast-side-input-")

    def refresh(self) -> bool:
        """Reads the source again if it is time; whether it was."""
        if time.monotonic() - self._read_at < self._seconds:
            return False
        self._read_at = time.monotonic()
        file = Path(self._folder.name) / f"{self._name}.{next(self._versions)}"
        file.write_bytes(cloudpickle.dumps(_view(self._side_input)))  # type: ignore[no-untyped-call]
        self._spark.sparkContext.addFile(str(file))
        return True

    def onQueryStarted(self, event: Any) -> None:
        """Nothing: the first content has been broadcast."""

    def onQueryProgress(self, event: Any) -> None:
        self.refresh()

    def onQueryIdle(self, event: Any) -> None:
        self.refresh()

    def onQueryTerminated(self, event: Any) -> None:
        """Nothing: another query may use the step."""
