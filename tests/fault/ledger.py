"""The step under test: for each element it gives a row that depends on all that its key's cells hold.

A lost, doubled or reordered element, and a lost or doubled write to any kind of cell, changes a row. The `pad` chains
the elements, and is large enough that key groups write snapshots every few micro-batches.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterator
from typing import Any

import holdfast as hf

__all__ = ["OUTPUT", "Ledger"]

OUTPUT = "k string, event string, life long, n long, value long, at long, total long, digest long"

LAST_MAX = 3
RECENT_SECONDS = 120
QUIET_SECONDS = 150
PAD_BYTES = 1500


class Ledger(hf.DoFn):
    """Counts the elements of a key; when it has been quiet for a while, gives a last row and begins its next life."""

    LIFE = hf.ValueStateSpec("life", hf.VarIntCoder())
    COUNT = hf.ValueStateSpec("count", hf.VarIntCoder())
    PAD = hf.ValueStateSpec("pad", hf.BytesCoder())
    TOTAL = hf.CombiningStateSpec("total", hf.VarIntCoder(), sum)
    LAST = hf.BagStateSpec("last", hf.VarIntCoder())
    TALLY = hf.MapStateSpec("tally", hf.VarIntCoder(), hf.VarIntCoder())
    RECENT = hf.OrderedListStateSpec("recent", hf.VarIntCoder())
    QUIET = hf.TimerSpec("quiet", hf.TimeDomain.WATERMARK)

    def process(
        self,
        element: tuple[str, int],
        time: hf.Timestamp = hf.DoFn.TimestampParam,
        life: Any = hf.DoFn.StateParam(LIFE),
        count: Any = hf.DoFn.StateParam(COUNT),
        pad: Any = hf.DoFn.StateParam(PAD),
        total: Any = hf.DoFn.StateParam(TOTAL),
        last: Any = hf.DoFn.StateParam(LAST),
        tally: Any = hf.DoFn.StateParam(TALLY),
        recent: Any = hf.DoFn.StateParam(RECENT),
        quiet: Any = hf.DoFn.TimerParam(QUIET),
    ) -> Iterator[tuple[Any, ...]]:
        key, value = element
        at = int(time)
        n = (count.read() or 0) + 1
        count.write(n)
        pad.write(hashlib.shake_128(f"{(pad.read() or b'')[:16].hex()} {value}".encode()).digest(PAD_BYTES))
        total.add(value)
        kept = [*last.read(), value]
        if len(kept) > LAST_MAX:
            last.clear()
            for old in kept[-LAST_MAX:]:
                last.add(old)
        else:
            last.add(value)
        tally.put(value % 7, (tally.get(value % 7) or 0) + 1)
        recent.add((time, value))
        recent.clear_range(0, at - RECENT_SECONDS)
        if value >= 0:
            quiet.set(at + QUIET_SECONDS)
        yield key, "element", life.read() or 0, n, value, at, total.read(), _digest(pad, last, tally, recent)

    @hf.on_timer(QUIET)
    def on_quiet(
        self,
        key: str = hf.DoFn.KeyParam,
        time: hf.Timestamp = hf.DoFn.TimestampParam,
        life: Any = hf.DoFn.StateParam(LIFE),
        count: Any = hf.DoFn.StateParam(COUNT),
        pad: Any = hf.DoFn.StateParam(PAD),
        total: Any = hf.DoFn.StateParam(TOTAL),
        last: Any = hf.DoFn.StateParam(LAST),
        tally: Any = hf.DoFn.StateParam(TALLY),
        recent: Any = hf.DoFn.StateParam(RECENT),
    ) -> Iterator[tuple[Any, ...]]:
        now = life.read() or 0
        digest = _digest(pad, last, tally, recent)
        yield key, "quiet", now, count.read() or 0, 0, int(time), total.read(), digest
        for cell in (count, pad, total, last, tally, recent):
            cell.clear()
        life.write(now + 1)


def _digest(pad: Any, last: Any, tally: Any, recent: Any) -> int:
    times = sorted((int(time), value) for time, value in recent.read())
    content = (pad.read(), list(last.read()), sorted(tally.items()), times)
    return zlib.crc32(repr(content).encode())
