"""Counts: how many values of a flat block belong to each key."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

import numpy as np

from holdfast.errors import CoderError

__all__ = ["decode_counts", "encode_counts", "split"]


def encode_counts(counts: Iterable[int]) -> bytes:
    return np.fromiter(counts, dtype="<u4").tobytes()


def decode_counts(data: bytes) -> list[int]:
    if len(data) % 4:
        raise CoderError(f"A column of counts has {len(data)} bytes, which is not a multiple of four.")
    counts: list[int] = np.frombuffer(data, dtype="<u4").tolist()
    return counts


def split(values: list[Any], counts: list[int]) -> list[list[Any]]:
    """Cuts a flat list into lists of these lengths."""
    if sum(counts) != len(values):
        raise CoderError(f"A block holds {len(values)} values, but its counts add up to {sum(counts)}.")
    rest = iter(values)
    return [list(islice(rest, count)) for count in counts]
