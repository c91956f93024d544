"""What the ledger must give for some micro-batches, computed in plain Python, without Holdfast and without Spark.

A micro-batch's watermark is the latest time in those before it, less the delay. A key's elements come
in the order of its files, then its timer if the watermark has reached it.
"""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import dataclass, field

from .stream import File

__all__ = ["WATERMARK_SECONDS", "Row", "expected_rows"]

WATERMARK_SECONDS = 10

Row = tuple[str, str, int, int, int, int, int, int]
"""key, event, life, n, value, at, total, digest"""


@dataclass
class _Account:
    """All that is remembered of a key."""

    life: int = 0
    count: int = 0
    total: int = 0
    pad: bytes | None = None
    last: list[int] = field(default_factory=list)
    tally: dict[int, int] = field(default_factory=dict)
    recent: list[tuple[int, int]] = field(default_factory=list)
    due: int | None = None

    def digest(self) -> int:
        content = (self.pad, self.last, sorted(self.tally.items()), sorted(self.recent))
        return zlib.crc32(repr(content).encode())

    def element(self, key: str, value: int, at: int) -> Row:
        self.count += 1
        self.total += value
        self.pad = hashlib.shake_128(f"{(self.pad or b'')[:16].hex()} {value}".encode()).digest(1500)
        self.last = [*self.last, value][-3:]
        self.tally[value % 7] = self.tally.get(value % 7, 0) + 1
        self.recent = [(time, old) for time, old in [*self.recent, (at, value)] if time >= at - 120]
        if value >= 0:
            self.due = at + 150
        return key, "element", self.life, self.count, value, at, self.total, self.digest()

    def quiet(self, key: str) -> Row:
        assert self.due is not None
        return key, "quiet", self.life, self.count, 0, self.due, self.total, self.digest()


def expected_rows(batches: list[File]) -> list[Row]:
    """All rows, in the order of the micro-batches; within one, the order over the keys means nothing."""
    accounts: dict[str, _Account] = {}
    rows: list[Row] = []
    latest: int | None = None
    for content in batches:
        for key, value, at in content:
            rows.append(accounts.setdefault(key, _Account()).element(key, value, at))
        for key, account in accounts.items():
            if latest is not None and account.due is not None and account.due <= latest - WATERMARK_SECONDS:
                rows.append(account.quiet(key))
                accounts[key] = _Account(life=account.life + 1)
        latest = max([*(element.at for element in content), *([] if latest is None else [latest])])
    return rows
