"""Panes as rows: key columns, the window, the results, and which pane it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from holdfast.engine.run.runner import PaneBlock, SessionBlock
from holdfast.engine.state.keys import keys_of
from holdfast.model.windows.values import PaneInfo, WindowedValue
from holdfast.spark.types.rows import OutputWriter

__all__ = ["PANE_DDL", "WINDOW_DDL", "PaneLayout", "PaneWriter"]

WINDOW_DDL = "struct<start:timestamp,end:timestamp>"
PANE_DDL = "struct<timing:string,index:int,nonspeculative_index:int,is_first:boolean,is_last:boolean>"

_TIME = pa.timestamp("us", tz="UTC")

_Sides = tuple[pa.Array, pa.Array]
"""The starts and the ends of windows, one for each row."""


@dataclass(frozen=True)
class PaneLayout:
    """The columns of a row of results."""

    keys: int
    """How many of the first columns belong to the key."""
    windowed: bool
    single: bool
    """Whether one result fills all value columns, rather than each result its own."""
    panes: bool


class PaneWriter:
    """Makes record batches of panes."""

    def __init__(self, schema: pa.Schema, step: str, tag: str, layout: PaneLayout) -> None:
        self._schema = schema
        self._layout = layout
        self._plain = [index for index in range(len(schema)) if index not in (self._window_at, self._pane_at)]
        fields = [schema.field(index) for index in self._plain]
        self._values = OutputWriter(pa.schema(fields), step, tag)
        self._spread = OutputWriter(pa.schema(fields[layout.keys :]), step, tag)
        """Reads one result over several columns: a tuple, a dict by name, or an object with such attributes."""

    @property
    def _window_at(self) -> int:
        return self._layout.keys if self._layout.windowed else -1

    @property
    def _pane_at(self) -> int:
        return len(self._schema) - 1 if self._layout.panes else -1

    def write_blocks(self, blocks: Sequence[PaneBlock]) -> pa.RecordBatch:
        keys = keys_of([slot for block in blocks for slot in block.slots])
        results = [list(chain.from_iterable(parts)) for parts in zip(*(block.results for block in blocks), strict=True)]
        counts = [len(block.slots) for block in blocks]
        windows = _repeated(*_sides([block.window for block in blocks]), counts)
        return self._write(keys, windows, results, [block.panes for block in blocks])

    def write_sessions(self, block: SessionBlock) -> pa.RecordBatch:
        sides = pa.array(block.starts, type=_TIME), pa.array(block.ends, type=_TIME)
        return self._write(keys_of(block.slots), sides, block.results, [block.panes])

    def write_values(self, items: Sequence[WindowedValue]) -> pa.RecordBatch:
        keys, results = zip(*(item.value for item in items), strict=True)
        windows, panes = [item.windows[0] for item in items], [[item.pane_info] for item in items]
        return self._write(keys, _sides(windows), _columns(results), panes)

    def _write(
        self,
        keys: Sequence[Any],
        windows: _Sides,
        results: list[list[Any]],
        panes: list[list[PaneInfo]],
    ) -> pa.RecordBatch:
        key_columns = [list(keys)] if self._layout.keys == 1 else _columns(keys)
        if self._layout.single and len(self._plain) - self._layout.keys > 1:
            results = _columns([self._spread.row(result) for result in results[0]])
        columns = dict(zip(self._plain, self._values.write_columns([*key_columns, *results]).columns, strict=True))
        if self._layout.windowed:
            columns[self._window_at] = _window_column(windows, self._schema.field(self._window_at).type)
        if self._layout.panes:
            columns[self._pane_at] = pa.array(
                [(p.timing.name, p.index, p.nonspeculative_index, p.is_first, p.is_last) for p in chain(*panes)],
                type=self._schema.field(self._pane_at).type,
            )
        return pa.record_batch([columns[index] for index in range(len(self._schema))], schema=self._schema)


def _columns(rows: Sequence[Any]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]


def _sides(windows: list[Any]) -> _Sides:
    """The starts and the ends of windows."""
    starts = [window.start.micros if hasattr(window, "start") else None for window in windows]
    return pa.array(starts, type=_TIME), pa.array([window.end.micros for window in windows], type=_TIME)


def _repeated(starts: pa.Array, ends: pa.Array, counts: list[int]) -> _Sides:
    """Each start and end so many times."""
    rows = pa.array(np.repeat(np.arange(len(counts)), counts))
    return starts.take(rows), ends.take(rows)


def _window_column(windows: _Sides, kind: pa.DataType) -> pa.Array:
    return pa.StructArray.from_arrays(windows, fields=[kind.field(index) for index in range(kind.num_fields)])
