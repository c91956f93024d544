"""Metrics: what a step counts by itself, and what a function counts on its own."""

from __future__ import annotations

import pytest

from holdfast import CombiningStateSpec, DoFn, FixedWindows, Metrics, SlidingWindows, TimerSpec, on_timer
from holdfast.testing import TestStream

from .reading import at


class Measures(DoFn):
    """Counts in every method, by class and by name."""

    COUNT = CombiningStateSpec("count", sum)
    TIMER = TimerSpec("timer")

    def __init__(self):
        self.seen = Metrics.counter("orders", "seen")

    def process(self, element, count=DoFn.StateParam(COUNT), timer=DoFn.TimerParam(TIMER)):
        self.seen.inc()
        Metrics.counter(self.__class__, "total").inc(element[1])
        Metrics.distribution("orders", "amount").update(element[1])
        Metrics.gauge("orders", "last").set(element[1])
        count.add(1)
        timer.set(5)

    @on_timer(TIMER)
    def fires(self, key=DoFn.KeyParam, count=DoFn.StateParam(COUNT)):
        Metrics.counter("orders", "fired").inc()
        self.seen.dec(count.read())
        yield key, count.read()


@pytest.mark.parametrize("key_groups", [1, 7])
def test_counters_of_the_function(run, feed, key_groups):
    stream = feed(TestStream(), at(("k", 2, 0), ("j", 3, 0), ("k", 7, 0)))
    metrics = run(Measures(), stream, key_groups=key_groups).metrics
    assert metrics["orders/seen"] == 3
    assert metrics[f"{Measures.__module__}.Measures/total"] == 12
    assert metrics["orders/never"] == 0
    metrics = run(Measures(), stream.advance_watermark_to(5), key_groups=key_groups).metrics
    assert metrics["orders/fired"] == 2
    assert metrics["orders/seen"] == 0


def test_distributions_and_gauges(run, feed):
    user = run(Measures(), feed(TestStream(), [("k", 2), ("k", 3), ("k", 7)])).metrics.user
    amount = user.distributions["orders/amount"]
    assert (amount.count, amount.sum, amount.min, amount.max, amount.mean) == (3, 12, 2, 7, 4)
    assert user.gauges == {"orders/last": 7}


def test_counting_outside_of_a_bundle_goes_nowhere(run):
    Metrics.counter("orders", "seen").inc(100)
    assert run(Measures(), TestStream().add_elements([("k", 2)])).metrics["orders/seen"] == 1


def test_what_the_step_counts(run, feed):
    stream = feed(TestStream(), at(("k", 1, 0), ("j", 2, 0), ("k", 3, 12))).advance_watermark_to(10)
    feed(stream, at(("k", 4, 3))).advance_watermark_to(20)
    metrics = run(Measures(), stream, windowing=FixedWindows(10)).metrics
    assert metrics.elements == 4
    assert metrics.calls == 3
    assert metrics.late == 1
    assert metrics.timers_fired == 3
    assert metrics.outputs == 3
    assert metrics.windows_expired == 2
    assert metrics.dead_letters == 0
    assert metrics.delta_bytes + metrics.snapshot_bytes > 0


def test_bundles_are_counted_where_something_was_done(run):
    stream = TestStream().add_elements([("k", 1), ("k", 2)]).advance_watermark_to(1).add_elements([("k", 3)])
    assert run(Measures(), stream).metrics.bundles == 2


def test_calls_are_counted_for_each_window(run):
    stream = TestStream().add_elements(at(("k", 1, 7)))
    metrics = run(Measures(), stream, windowing=SlidingWindows(10, 2)).metrics
    assert (metrics.elements, metrics.calls, metrics["orders/seen"]) == (1, 5, 5)


def test_a_bundle_that_changes_nothing_stores_nothing(run):
    stream = TestStream().add_elements([("k", 1)])
    stored = run(Measures(), stream).metrics.delta_bytes
    assert run(Measures(), stream.advance_watermark_to(1).advance_processing_time(9)).metrics.delta_bytes == stored
