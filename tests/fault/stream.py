"""The input of the fault tests: files of elements, each the input of one micro-batch, made from a seed.

Keys are drawn unevenly, so that some are busy and others quiet long enough for their timers to fire. Every sixth file
has one key only: there, most key groups have no input, and only their timers can wake them. The last two files hold
nothing but the key `end`: the first of them moves event time far ahead, and in the micro-batch of the second all timers
that are still set must fire. So what a run gives does not depend on whether Spark adds empty micro-batches.
"""

from __future__ import annotations

import datetime
import json
import os
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

__all__ = ["BEGIN", "END", "Element", "File", "Line", "iso", "make_files", "write_files"]

END = "end"
KEYS = 200
FILE_SECONDS = 60
BEGIN = 1_700_000_000


class Element(NamedTuple):
    """A row of a file."""

    key: str
    value: int
    at: int
    """In seconds since the epoch."""

    def columns(self) -> dict[str, object]:
        """As a line of a file has it."""
        return {"k": self.key, "v": self.value, "at": iso(self.at)}


File = list[Element]


class Line(Protocol):
    """Whatever can be a row of a file."""

    def columns(self) -> Mapping[str, object]: ...


def make_files(seed: int, files: int = 40, rows: int = 250, *, end: bool = True) -> list[File]:
    """The content of so many files."""
    draw = random.Random(f"stream {seed}")
    keys = [f"key-{number:03d}" for number in range(KEYS)]
    weights = [1 / (1 + number / 20) for number in range(KEYS)]
    made: list[File] = []
    for number in range(files - 2 if end else files):
        chosen = draw.choices(keys, weights, k=rows)
        if number % 6 == 5:
            chosen = [draw.choice(keys)] * 5
        base = BEGIN + number * FILE_SECONDS
        made.append([Element(key, draw.randrange(1000), base + draw.randrange(-20, FILE_SECONDS)) for key in chosen])
    if end:
        far = BEGIN + (files + 1000) * FILE_SECONDS
        made += [[Element(END, -1, far)], [Element(END, -1, far + 1)]]
    return made


def write_files(directory: Path, files: Sequence[Sequence[Line]], *, first: int = 0) -> None:
    """Writes them so that Spark reads them in this order: it goes by the time of the last change."""
    directory.mkdir(parents=True, exist_ok=True)
    for number, content in enumerate(files, start=first):
        path = directory / f"{number:04d}.json"
        partial = directory / f".{path.name}.partial"
        partial.write_text("".join(json.dumps(line.columns()) + "\n" for line in content))
        os.utime(partial, (BEGIN + number * 10, BEGIN + number * 10))
        partial.replace(path)


def iso(seconds: int) -> str:
    """A time as files have it."""
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).isoformat()
