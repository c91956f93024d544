"""Which cells to remove: the rows of state that are meant, in the workers that read it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast.checkpoint.layout import Checkpoint
from holdfast.engine.state.keys import slot_to_bytes
from holdfast.engine.stored.readable import time_text, to_json, to_text
from holdfast.engine.stored.reading import HIDDEN, Blobs, StoredCell, read_group
from holdfast.errors import InputError
from holdfast.model.time.timestamps import Timestamp
from holdfast.ops.inspect.showing import WantedWindow, steps_with_cell
from holdfast.ops.inspect.state_frame import clamped, window_struct
from holdfast.ops.reading.blobs import StepRef, choose_step, map_groups, step_blobs, steps_of
from holdfast.ops.reading.keys import find_key, key_text
from holdfast.ops.reading.naming import named_values, window_text

__all__ = ["HELD_BACK", "Choice", "chosen_rows", "chosen_steps"]

HELD_BACK = "held back"
"""The kind under which elements are shown that wait for their turn."""

_COLUMNS = (
    "step string, key string, window struct<start:timestamp,end:timestamp>, cell string, kind string, value string, "
    "expires_at timestamp, label int, slot binary, place binary, stored string, tag string, shown_window string, "
    "shown string, expires string"
)
_PLACE = ("label", "slot", "place")
_ABOUT = "step, key, window, cell, kind, value, expires_at"


class Choice(NamedTuple):
    """What to remove."""

    step: str | None
    key: str | None
    cell: str | None
    window: str | None
    where: str | None
    whole_keys: bool

    @property
    def is_whole(self) -> bool:
        """Whether everything goes that a key has in a window, not single cells."""
        return self.whole_keys or (self.cell is None and self.where is None)

    def check(self) -> None:
        """Raises InputError if it chooses everything."""
        if self.key is self.cell is self.window is self.where is None:
            raise InputError(
                "Nothing says what to remove.",
                todo="choose with --key, --cell, --window or --where; to begin without state, start with a new checkpoint",
            )


def chosen_steps(spark: SparkSession, place: Checkpoint, batch: int, choice: Choice) -> list[StepRef]:
    """The steps that a choice is about. Raises InputError if it cannot be made there."""
    steps = steps_with_cell(choose_step(steps_of(spark, place, batch), choice.step, place.path), choice.cell)
    for step in () if choice.is_whole else steps:
        if step.manifest.get("grouping") is not None:
            raise InputError(
                f"The step {step.name!r} is an aggregation, whose cells are one thing: none can go without the others.",
                todo="remove keys as a whole: add --whole-keys; or choose another step: --step",
            )
    return steps


def chosen_rows(
    spark: SparkSession, place: Checkpoint, step: StepRef, batch: int, choice: Choice, trust_pickle: bool
) -> DataFrame:
    """A row for each cell and timer that is to go, also the engine's own if whole keys go: what it is, and where."""
    rows = _rows(spark, place, step, batch, choice, trust_pickle)
    if choice.cell is None and choice.where is None:
        return rows
    picked = rows.where(F.col("kind") != HIDDEN)
    if choice.cell is not None:
        tagged = (F.col("kind") == "timer") & (F.split("cell", r"\[")[0] == choice.cell)
        picked = picked.where((F.col("cell") == choice.cell) | tagged)
    if choice.where is not None:
        picked = _where(picked, choice.where)
    if not choice.whole_keys:
        return picked
    return rows.join(picked.select(*_PLACE).distinct(), [*_PLACE], "left_semi").select(*rows.columns)


def _where(rows: DataFrame, condition: str) -> DataFrame:
    try:
        return rows.where(F.expr(condition))
    except (AnalysisException, ParseException) as error:
        why = str(error).strip().partition("\n")[0]
        raise InputError(
            f"{condition!r} is not a condition on the rows of state: {why:.400}",
            todo=f"write it in SQL, over the columns {_ABOUT}",
        ) from error


def _rows(
    spark: SparkSession, place: Checkpoint, step: StepRef, batch: int, choice: Choice, trust_pickle: bool
) -> DataFrame:
    key = None if choice.key is None else find_key(spark, step, choice.key)
    slots = None if key is None else [key.slot]
    window = WantedWindow(choice.window)

    def rows(label: int, blobs: Blobs) -> Iterator[tuple[Any, ...]]:
        group = read_group(blobs, trust_pickle=trust_pickle)
        for cell in group.cells(slots):
            if window.has(cell):
                yield from ((step.name, *row) for row in _told(label, cell))

    frame = step_blobs(spark, place, step, batch)
    if key is not None and key.label is not None:
        frame = frame.where(F.col("label") == key.label)
    return map_groups(frame, rows, _COLUMNS)


def _told(label: int, cell: StoredCell) -> Iterator[tuple[Any, ...]]:
    """What is known of a cell; of a timer with tags, of each of them."""
    stored, window = cell.spec.name, cell.window.window
    tags = list(cell.entry) if stored.startswith("~tags:") else [None]
    kind = HELD_BACK if stored == "~held" else cell.kind
    expires = None if cell.expires_micros is None else time_text(Timestamp(micros=cell.expires_micros))
    for (name, value), tag in zip(named_values(cell.table, cell.slot), tags, strict=True):
        about = (name, kind, to_json(value), clamped(cell.expires_micros))
        where = (label, slot_to_bytes(cell.slot), cell.window.data, stored, tag)
        yield (key_text(cell.slot), window_struct(window), *about, *where, window_text(window), to_text(value), expires)
