"""Sensors: a rolling average, an alert when it is too high, and word when it has recovered."""

from __future__ import annotations

import math
from collections.abc import Iterator

import holdfast as hf
from holdfast.recipes.arguments import Recipe, Span
from holdfast.recipes.rows import number_in

__all__ = ["RollingAlert"]

Word = tuple[object, str, hf.Timestamp, float | None]


class RollingAlert(Recipe):
    """Says when the average over the last `span` rises above `above`, and when it falls below `below` again.

    `below` is the lower of the two: between them nothing is said, so an average that wavers about one of them does not
    alert again and again. The average is that of the readings of the last `span`, without one that is exactly as old; an
    alert begins only with at least `at_least` of them.

    What comes out is (key, "alert" or "recovered" or "silent", time, average). "silent" is said, with no average, when no
    reading has come for `span` during an alert: the alert is over then, since nobody knows.

    Keeps for each key and window: the readings of the last `span`, and whether there is an alert.

    Frees it: when the watermark is `span` beyond the last reading.

    Order: by event time, so the step needs `requires_time_sorted_input=True`. Late readings go to the output `late`.
    """

    needs_time_sorted_input = True

    READINGS = hf.OrderedListStateSpec("readings", hf.FloatCoder(), doc="The readings that count.")
    ALERT = hf.ValueStateSpec("alert", hf.BooleanCoder(), doc="Holds True during an alert.")
    SILENT = hf.TimerSpec("silent", hf.TimeDomain.WATERMARK)

    def __init__(
        self, span: Span, *, above: float, below: float | None = None, at_least: int = 1, field: str | None = None
    ) -> None:
        super().__init__()
        check = self._arguments
        self._span = check.span("span", span)
        self._above = check.number("above", above)
        self._below = self._above if below is None else check.number("below", below)
        if self._below > self._above and not check.problems:
            check.problems.append(f"below is {below!r}; it cannot be higher than above, which is {above!r}.")
        self._at_least = check.whole("at_least", at_least)
        self._field = check.optional_field("field", field)

    def process(
        self,
        element: tuple[object, object],
        at: hf.Timestamp = hf.DoFn.TimestampParam,
        readings: hf.OrderedListState[float] = hf.DoFn.StateParam(READINGS),
        alert: hf.ValueState[bool] = hf.DoFn.StateParam(ALERT),
        silent: hf.Timer = hf.DoFn.TimerParam(SILENT),
    ) -> Iterator[Word | hf.TimestampedValue]:
        key, value = element
        reading = number_in(value, self._field)
        known = readings.read()
        # A reading that comes exactly with the timer may come before it.
        if known and at >= known[-1][0] + self._span:
            for word in self._end(key, known[-1][0] + self._span, readings, alert):
                yield hf.TimestampedValue(word, word[2])
        readings.clear_range(hf.MIN_TIMESTAMP, (at - self._span).successor())
        readings.add((at, reading))
        silent.set(at + self._span)
        values = [held for _, held in readings.read()]
        average = math.fsum(values) / len(values)
        if alert.read():
            if average < self._below:
                alert.clear()
                yield key, "recovered", at, average
        elif average > self._above and len(values) >= self._at_least:
            alert.write(True)
            yield key, "alert", at, average

    @hf.on_timer(SILENT)
    def on_silent(
        self,
        key: object = hf.DoFn.KeyParam,
        at: hf.Timestamp = hf.DoFn.TimestampParam,
        readings: hf.OrderedListState[float] = hf.DoFn.StateParam(READINGS),
        alert: hf.ValueState[bool] = hf.DoFn.StateParam(ALERT),
    ) -> Iterator[Word]:
        yield from self._end(key, at, readings, alert)

    def _end(
        self, key: object, at: hf.Timestamp, readings: hf.OrderedListState[float], alert: hf.ValueState[bool]
    ) -> Iterator[Word]:
        readings.clear()
        if alert.read():
            alert.clear()
            yield key, "silent", at, None
