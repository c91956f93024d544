"""The input of the Spark benchmarks: Parquet files, one for each micro-batch, drawn from a seed."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

__all__ = ["SCHEMAS", "as_keys", "linked", "random_batches", "write_batches"]

SCHEMAS = {"string": "key string, value double", "long": "key long, value double"}
"""What the files hold, by the type of the key."""


def random_batches(rows: int, keys: int, batch_rows: int, seed: int) -> list[np.ndarray]:
    """The numbers of the keys, batch by batch: each row's key is drawn evenly from all keys."""
    generator = np.random.default_rng(seed)
    return [generator.integers(0, keys, size=batch_rows) for _ in range(rows // batch_rows)]


def as_keys(numbers: np.ndarray, key_type: str) -> pa.Array:
    """The keys with these numbers."""
    column = pa.array(numbers, pa.int64())
    return column if key_type == "long" else pc.binary_join_element_wise("user-", column.cast(pa.string()), "")


def write_batches(directory: Path, batches: Sequence[np.ndarray], key_type: str) -> None:
    """Adds files to a directory, to be read in this order. Each has four row groups, so that all cores can read it."""
    directory.mkdir(parents=True, exist_ok=True)
    first = len(list(directory.iterdir()))
    # Spark reads files by the time of their last change, so these are an hour ago and a second apart.
    start = time.time() - 3600
    for place, numbers in enumerate(batches, start=first):
        table = pa.table({"key": as_keys(numbers, key_type), "value": np.ones(len(numbers))})
        file = directory / f"batch-{place:05d}.parquet"
        pq.write_table(table, file, row_group_size=max(1, -(-len(numbers) // 4)))
        os.utime(file, (start + place, start + place))


def linked(source: Path, target: Path) -> Path:
    """A directory with the same files, to which one contestant can add its own."""
    target.mkdir(parents=True)
    for file in sorted(source.iterdir()):
        os.link(file, target / file.name)
    return target
