"""The functions that the integration tests run, in a module of their own: workers import it."""

from __future__ import annotations

from typing import Any

import holdfast as hf


class Count(hf.DoFn):
    COUNT = hf.ValueStateSpec("count", hf.VarIntCoder())

    def process(self, element, count=hf.DoFn.StateParam(COUNT)):
        n = (count.read() or 0) + 1
        count.write(n)
        yield element[0], n


class CountFloats(Count):
    COUNT = hf.ValueStateSpec("count", hf.FloatCoder())

    def process(self, element, count=hf.DoFn.StateParam(COUNT)):
        yield element[0], 0


class Echo(hf.DoFn):
    """Gives the last value of a key back, through a cell: it must survive being stored."""

    LAST = hf.ValueStateSpec("last")

    def process(self, element, last=hf.DoFn.StateParam(LAST)):
        key, value = element
        before = last.read()
        last.write(_plain(value))
        yield key, value, before is not None


def _plain(value: Any) -> Any:
    """Named rows are tuples of their fields when they are stored."""
    if isinstance(value, tuple):
        return tuple(_plain(item) for item in value)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return {k: _plain(v) for k, v in value.items()} if isinstance(value, dict) else value


class Fragile(Count):
    def process(self, element, count=hf.DoFn.StateParam(Count.COUNT)):
        count.write((count.read() or 0) + 1)
        if element[1] == "bad":
            raise RuntimeError("cannot take this one")
        yield element[0], count.read()


class Both(hf.DoFn):
    """Evens to the main output, odds to a tag, and what each key has seen."""

    SEEN = hf.CombiningStateSpec("seen", sum)

    def process(self, element, seen=hf.DoFn.StateParam(SEEN)):
        key, value = element
        seen.add(1)
        if value % 2:
            yield hf.TaggedOutput("odd", (key, value))
        else:
            yield key, value, seen.read()


class Totals(hf.DoFn):
    """The sum of a window, when it ends."""

    TOTAL = hf.CombiningStateSpec("total", sum)

    def process(self, element, total=hf.DoFn.StateParam(TOTAL)):
        total.add(element[1])

    def on_window_expiration(self, key=hf.DoFn.KeyParam, window=hf.DoFn.WindowParam, total=hf.DoFn.StateParam(TOTAL)):
        yield key, total.read(), window.start


class Priced(hf.DoFn):
    def process(self, element, prices):
        yield element[0], prices.get(element[1], -1.0)


class Reminder(hf.DoFn):
    """A processing-time timer, due at once, and one of event time."""

    SOON = hf.TimerSpec("soon", hf.TimeDomain.REAL_TIME)
    LATER = hf.TimerSpec("later", hf.TimeDomain.WATERMARK)

    def process(self, element, at=hf.DoFn.TimestampParam, soon=hf.DoFn.TimerParam(SOON), later=hf.DoFn.TimerParam(LATER)):
        soon.set(hf.Timestamp.now())
        later.set(at + 5)

    @hf.on_timer(SOON)
    def on_soon(self, key=hf.DoFn.KeyParam):
        yield key, "soon"

    @hf.on_timer(LATER)
    def on_later(self, key=hf.DoFn.KeyParam):
        yield key, "later"


class WrongWidth(hf.DoFn):
    def process(self, element):
        yield (element[0],)


class WrongType(hf.DoFn):
    def process(self, element):
        yield element[0], "many"


class Extremes(hf.CombineFn):
    """The smallest and the largest value, in one of several shapes."""

    def __init__(self, shape: str) -> None:
        self.shape = shape

    def create_accumulator(self):
        return []

    def add_input(self, mutable_accumulator, element):
        return [min([*mutable_accumulator, element]), max([*mutable_accumulator, element])]

    def merge_accumulators(self, accumulators):
        values = [value for held in accumulators for value in held]
        return [min(values), max(values)] if values else []

    def extract_output(self, accumulator):
        low, high = accumulator
        shapes = {
            "tuple": (low, high),
            "dict": {"low": low, "high": high},
            "number": low,
            "short": (low,),
            "other names": {"least": low, "most": high},
        }
        return shapes[self.shape]


class Remember(hf.DoFn):
    """Keeps every text of a key."""

    TEXTS = hf.BagStateSpec("texts", hf.StrUtf8Coder())

    def process(self, element, texts=hf.DoFn.StateParam(TEXTS)):
        texts.add(element[1])
        yield element[0], len(texts.read())


class Yields(hf.DoFn):
    """Yields one thing, whatever comes; counts how often, which must be undone where it does not fit."""

    CALLS = hf.ValueStateSpec("calls", hf.VarIntCoder())

    def __init__(self, given: dict[Any, Any]) -> None:
        self._given = given

    def process(self, element, calls=hf.DoFn.StateParam(CALLS)):
        n = (calls.read() or 0) + 1
        calls.write(n)
        yield element[0], n, self._given[element[1]]
