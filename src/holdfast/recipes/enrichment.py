"""Enrichment: rows get what a slowly changing table said about their key at their time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

import holdfast as hf
from holdfast.recipes.arguments import Recipe
from holdfast.recipes.rows import plain, read

__all__ = ["TemporalJoin"]


class TemporalJoin(Recipe):
    """Gives each row the entry of its key that was valid at its time: (key, the fields `row`…, the fields `table`…).

    Rows and changes of the table come in one stream, with the field `side` to tell them apart: it is `change` for a change
    of the table, and anything else for a row. On Spark, `unionByName(allowMissingColumns=True)` puts them together. A change
    is valid from its time on, until the next one; one whose fields are all None ends the entry. With `how="left"` a row
    without a valid entry gets None, with "inner" it is left out.

    Of a row and a change with equal times, the one that arrives first comes first. Results come when the watermark has
    passed a row's time: until then an earlier change may still come. Use it in the global window, the default: in others
    each window would have a table of its own, which begins empty.

    Keeps for each key: the entry that is valid. (Rows wait in the step until it is their turn.)

    Frees it: with a change whose fields are all None. So there is as much as the table has entries.

    Order: by event time, so the step needs `requires_time_sorted_input=True`. Late rows go to the output `late`. So do late
    changes, and the entry stays as it was: declare that output, and give an `allowed_lateness` that changes keep to.
    """

    needs_time_sorted_input = True

    ENTRY = hf.ValueStateSpec("entry", doc="The fields of the entry that is valid.")

    def __init__(
        self,
        row: Iterable[str],
        table: Iterable[str],
        *,
        side: str = "side",
        change: object = "table",
        how: Literal["left", "inner"] = "left",
    ) -> None:
        super().__init__()
        check = self._arguments
        self._row, self._table = check.fields("row", row), check.fields("table", table)
        self._side, self._change = check.field("side", side), change
        self._is_outer = check.choice("how", how, ("left", "inner")) == "left"

    def state_parameters(self) -> dict[str, object]:
        return {"table": list(self._table)}

    def process(
        self,
        element: tuple[object, object],
        entry: hf.ValueState[tuple[object, ...]] = hf.DoFn.StateParam(ENTRY),
    ) -> Iterator[tuple[object, ...]]:
        key, value = element
        if read(value, self._side) == self._change:
            fields = tuple(plain(read(value, field)) for field in self._table)
            if all(field is None for field in fields):
                entry.clear()
            else:
                entry.write(fields)
        else:
            valid = entry.read()
            if valid is not None or self._is_outer:
                yield (key, *(read(value, field) for field in self._row), *(valid or [None] * len(self._table)))
