"""A handoff: the output of a step as the input of a later one, without leaving Arrow on the way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.spark.stages.hashing import key_groups_of

__all__ = ["Handoff"]


@dataclass(frozen=True)
class Handoff:
    """Which columns of an output are time, keys and values of a later step's elements."""

    route: int
    """The input of that step."""
    key_groups: int
    slot: int
    time: int | None
    keys: tuple[int, ...]
    values: tuple[int, ...]
    lift: Callable[[], Callable[[pa.RecordBatch], pa.RecordBatch]] | None = None
    """Combines elements beforehand, as the pack stage does."""

    def prepared(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows as they are packed: key group, time, keys, values."""
        keys = [_normalised(batch.column(number)) for number in self.keys]
        groups = pa.array(key_groups_of(keys, self.key_groups), pa.int32())
        columns = {"group": groups}
        if self.time is not None:
            columns["time"] = batch.column(self.time).cast(pa.int64())
        columns |= {f"k{number}": key for number, key in enumerate(keys)}
        columns |= {f"v{number}": batch.column(position) for number, position in enumerate(self.values)}
        rows = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
        return rows if self.lift is None else self.lift()(rows)


def _normalised(keys: pa.Array) -> pa.Array:
    """0.0 and -0.0 are one key."""
    return pc.add(keys, pa.scalar(0.0, keys.type)) if pa.types.is_floating(keys.type) else keys
