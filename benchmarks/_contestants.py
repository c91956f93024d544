"""The contestants: a running count by key, in each of the ways that Spark and Holdfast have for it.

All take the columns (key, value) and give (key, count). Those that are called for every element give a row for every
element; Spark's own aggregation can only give a row for every key of a micro-batch.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _data import SCHEMAS
from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import LongType, StructField, StructType

import holdfast as hf

__all__ = ["CONTESTANTS", "SCHEMAS", "Contestant"]

_COUNT = StructType([StructField("count", LongType())])
_OutputRow = Row("key", "count")


class RunningCounter(hf.DoFn):
    COUNT = hf.ValueStateSpec("count", hf.VarIntCoder())

    def process(self, element: Any, count: Any = hf.DoFn.StateParam(COUNT)) -> Any:
        key, _ = element
        n = (count.read() or 0) + 1
        count.write(n)
        yield key, n


class TimedCounter(RunningCounter):
    """The same, and its worker writes down how long it took to read each key group from the state store."""

    def __init__(self, log: Path) -> None:
        self._log = log

    def setup(self) -> None:
        from holdfast.engine.backends.heap import HeapBackend

        log, plain_open = self._log, HeapBackend.open
        if hasattr(plain_open, "__wrapped__"):
            return

        def timed_open(backend: HeapBackend, store: Any) -> Any:
            before, start = backend.loads + backend.catch_ups, time.perf_counter()
            state = plain_open(backend, store)
            if backend.loads + backend.catch_ups > before:
                entry = {"worker": os.getpid(), "seconds": time.perf_counter() - start}
                with log.open("a") as file:
                    file.write(json.dumps(entry) + "\n")
            return state

        timed_open.__wrapped__ = plain_open  # type: ignore[attr-defined]
        HeapBackend.open = timed_open  # type: ignore[method-assign]


class RowCounter(StatefulProcessor):
    """For transformWithState."""

    def init(self, handle: Any) -> None:
        self._count = handle.getValueState("count", _COUNT)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        n = (self._count.get() or (0,))[0]
        for _ in rows:
            n += 1
            yield _OutputRow(key[0], n)
        self._count.update((n,))

    def close(self) -> None:
        """Nothing to release."""


class PandasCounter(RowCounter):
    """For transformWithStateInPandas."""

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        n = (self._count.get() or (0,))[0]
        for frame in rows:
            yield _counted(key[0], n, len(frame))
            n += len(frame)
        self._count.update((n,))


def _counted(key: Any, before: int, rows: int) -> Any:
    import pandas as pd

    return pd.DataFrame({"key": [key] * rows, "count": range(before + 1, before + rows + 1)})


def _count_group(key: Any, frames: Iterator[Any], state: Any) -> Iterator[Any]:
    """For applyInPandasWithState."""
    n = state.get[0] if state.exists else 0
    for frame in frames:
        yield _counted(key[0], n, len(frame))
        n += len(frame)
    state.update((n,))


def _holdfast(rows: DataFrame, output: str, options: dict[str, Any]) -> DataFrame:
    log = options.get("load_log")
    fn = TimedCounter(Path(log)) if log else RunningCounter()
    backend = options.get("backend", "heap")
    stream = hf.keyed(rows, key="key", value="value")
    frame: DataFrame = stream.par_do(fn, output=output, key_groups=options["key_groups"], backend=backend)
    return frame


def _native(rows: DataFrame, output: str, options: dict[str, Any]) -> DataFrame:
    return rows.groupBy("key").count()


def _row(rows: DataFrame, output: str, options: dict[str, Any]) -> DataFrame:
    return rows.groupBy("key").transformWithState(RowCounter(), output, "Update", "None")


def _pandas(rows: DataFrame, output: str, options: dict[str, Any]) -> DataFrame:
    return rows.groupBy("key").transformWithStateInPandas(PandasCounter(), output, "Update", "None")


def _apply(rows: DataFrame, output: str, options: dict[str, Any]) -> DataFrame:
    return rows.groupBy("key").applyInPandasWithState(_count_group, output, "count long", "update", "NoTimeout")


@dataclass(frozen=True)
class Contestant:
    title: str
    build: Callable[[DataFrame, str, dict[str, Any]], DataFrame]
    """From the rows, the schema of the output, and options."""
    output_mode: str
    is_python_api: bool = False
    """One of Spark's own Python state APIs: called once for each key, and run on a slice of the data."""


CONTESTANTS = {
    "holdfast": Contestant("Holdfast", _holdfast, "append"),
    "native": Contestant("Spark groupBy().count()", _native, "update"),
    "row": Contestant("transformWithState (Row)", _row, "update", True),
    "pandas": Contestant("transformWithStateInPandas", _pandas, "update", True),
    "apply": Contestant("applyInPandasWithState", _apply, "update", True),
}
