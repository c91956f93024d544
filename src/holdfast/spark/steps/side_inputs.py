"""Side inputs on Spark: a batch DataFrame is collected, shaped, and sent to the workers as a file of the Spark context.

Spark copies such files to every executor before its next task. (A broadcast variable would not do: Spark also unpickles the
processor in a process that has none.) A side input with `refresh` is read again after a micro-batch, when it is due, and
added under the next number; a worker takes the newest at the start of a task. A repeated micro-batch may therefore see newer
content than before.
"""

from __future__ import annotations

import itertools
import time
import uuid
import warnings
from pathlib import Path
from typing import Any

from pyspark import SparkFiles, cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener

from holdfast.checkpoint.files.local import temporary_folder
from holdfast.errors import InvalidStep
from holdfast.model.functions.side_inputs import SideInput, streaming_problem
from holdfast.model.functions.step import Step
from holdfast.spark.stages.pickling import pickled
from holdfast.spark.types.arrow import to_python

__all__ = ["Refresher", "Sent", "send_all"]


_PLAIN = "Give plain values: numbers, strings, lists, dicts"

_refreshers: list[Refresher] = []
"""Kept as long as the driver lives: executors fetch the files from here whenever they start."""


class Sent:
    """A side input as a worker sees it: its content, and a version that changes with it."""

    def __init__(self, name: str) -> None:
        self._name = name
        """The name of its files, before the version."""

    def version(self) -> int:
        return _version(self._newest())

    def value(self) -> Any:
        return cloudpickle.loads(self._newest().read_bytes())

    def _newest(self) -> Path:
        return max(Path(SparkFiles.getRootDirectory()).glob(f"{self._name}.*"), key=_version)


def _version(file: Path) -> int:
    return int(file.suffix[1:])


def send_all(spark: SparkSession, step: Step) -> dict[str, Sent]:
    """Sends each side input; by the name of its parameter, `*n` for those of `*args`."""
    extra = {f"*{i:03d}": side_input for i, side_input in enumerate(step.extra_side_inputs)}
    return {name: _send(spark, step.name, name, given) for name, given in {**step.side_inputs, **extra}.items()}


def _send(spark: SparkSession, step: str, parameter: str, side_input: SideInput) -> Sent:
    name = f"holdfast-side-input-{uuid.uuid4().hex}"
    refresher = Refresher(spark, side_input, name, step=step, parameter=parameter)
    refresher.send()
    _refreshers.append(refresher)
    if side_input.refresh is not None:
        spark.streams.addListener(refresher)
    return Sent(name)


def _rows(source: DataFrame) -> list[Any]:
    """The rows, with values like those of elements: `collect` would give times in the driver's time zone."""
    columns = [to_python(column.combine_chunks()) for column in source.toArrow().columns]
    return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))


class Refresher(StreamingQueryListener):
    """Sends a side input, and sends it again after a micro-batch when it is due."""

    def __init__(self, spark: SparkSession, side_input: SideInput, name: str, *, step: str, parameter: str) -> None:
        self._spark = spark
        self._side_input = side_input
        self._name = name
        self._step = step
        self._parameter = f"*args[{int(parameter[1:])}]" if parameter.startswith("*") else parameter
        self._sent_at = 0.0
        self._versions = itertools.count()
        self._folder = temporary_folder(self, "holdfast-side-input-")

    def send(self) -> None:
        """Reads the source and sends its content to the workers."""
        self._sent_at = time.monotonic()
        view = self._view()
        content = pickled(self._step, view, [(f"The side input {self._parameter!r}", view)], _PLAIN)
        file = self._folder / f"{self._name}.{next(self._versions)}"
        file.write_bytes(content)
        self._spark.sparkContext.addFile(str(file))

    def _view(self) -> Any:
        """The content of a side input; for a DataFrame its rows as plain tuples, or bare values if it has one column."""
        given = self._side_input.source
        source = given() if callable(given) else given
        if isinstance(source, DataFrame):
            refused = [*streaming_problem(source, f"The side input {self._parameter!r}")]
            if refused:
                raise InvalidStep(self._step, refused)
            source = _rows(source)
        return self._side_input.view(source)

    def _send_if_due(self) -> None:
        assert self._side_input.refresh is not None
        if time.monotonic() - self._sent_at < float(self._side_input.refresh):
            return
        try:
            self.send()
        except Exception as error:
            reason = str(error).strip().splitlines()[0]
            warnings.warn(
                f"A side input could not be read again and stays as it was: {reason:.200} A DataFrame over files that get "
                "replaced must be made anew; give a function: AsDict(lambda: spark.read.parquet(path), refresh=...).",
                stacklevel=2,
            )

    def onQueryStarted(self, event: Any) -> None:
        """Nothing: the first content has been sent."""

    def onQueryProgress(self, event: Any) -> None:
        self._send_if_due()

    def onQueryIdle(self, event: Any) -> None:
        self._send_if_due()

    def onQueryTerminated(self, event: Any) -> None:
        """Nothing: another query may use the step."""
