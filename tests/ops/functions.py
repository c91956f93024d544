"""The functions of the job that the checkpoints are of: every kind of cell, windows, timers, and two steps in a row."""

from __future__ import annotations

import holdfast as hf


class Everything(hf.DoFn):
    COUNT = hf.ValueStateSpec("count", hf.VarIntCoder())
    SEEN = hf.BagStateSpec("seen")
    LATEST = hf.MapStateSpec("latest", hf.StrUtf8Coder(), hf.VarIntCoder(), ttl=hf.Ttl("60 seconds", time="event"))
    KINDS = hf.SetStateSpec("kinds")
    ORDERED = hf.OrderedListStateSpec("ordered")
    TOTAL = hf.CombiningValueStateSpec("total", sum)
    DUE = hf.TimerSpec("due", hf.TimeDomain.WATERMARK)

    def process(
        self,
        element,
        count=hf.DoFn.StateParam(COUNT),
        seen=hf.DoFn.StateParam(SEEN),
        latest=hf.DoFn.StateParam(LATEST),
        kinds=hf.DoFn.StateParam(KINDS),
        ordered=hf.DoFn.StateParam(ORDERED),
        total=hf.DoFn.StateParam(TOTAL),
        due=hf.DoFn.TimerParam(DUE),
        at=hf.DoFn.TimestampParam,
    ):
        key, value = element
        n = (count.read() or 0) + 1
        count.write(n)
        seen.add(value)
        known = sorted(dict(latest.items()).items())
        latest.put(str(value % 3), value)
        kinds.add(value % 4)
        ordered.add((at, value))
        total.add(value)
        due.set(at + 45)
        cells = (n, sorted(seen.read()), known, sorted(kinds.read()), len(list(ordered.read())), total.read())
        yield key, n, str(cells), at

    @hf.on_timer(DUE)
    def fire(self, key=hf.DoFn.KeyParam, count=hf.DoFn.StateParam(COUNT), at=hf.DoFn.TimestampParam):
        yield key, -(count.read() or 0), "timer", at


class Totals(hf.DoFn):
    TOTAL = hf.CombiningValueStateSpec("total", sum)

    def process(self, element, total=hf.DoFn.StateParam(TOTAL)):
        key, (n, cells) = element
        total.add(n)
        yield key, total.read(), cells
