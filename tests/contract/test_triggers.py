"""Triggers: when an aggregation gives results, how often, and what each pane says of itself.

A trigger is looked at once for each bundle, and whenever a clock has reached what it waits for.
"""

from __future__ import annotations

import pytest

from holdfast import (
    AfterAll,
    AfterAny,
    AfterCount,
    AfterEach,
    AfterProcessingTime,
    AfterWatermark,
    Always,
    CombinePerKey,
    DefaultTrigger,
    Duration,
    FixedWindows,
    GlobalWindows,
    GroupByKey,
    InvalidStep,
    OrFinally,
    PaneInfo,
    PaneInfoTiming,
    Repeatedly,
    Sessions,
    SlidingWindows,
)
from holdfast.testing import TestStream

from .reading import GLOBAL, at, by_key, panes

EARLY, ON_TIME, LATE = PaneInfoTiming.EARLY, PaneInfoTiming.ON_TIME, PaneInfoTiming.LATE
WINDOW = (0.0, 10.0)


def bundles(*bundles, time=1):
    """Each list of values as one bundle of the key k."""
    stream = TestStream()
    for values in bundles:
        stream.add_elements(at(*[("k", value, time) for value in values]))
    return stream


def results(out, key="k"):
    return [result for result, *_ in panes(out).get(key, [])]


def timed(out, key="k"):
    return [(result, timing) for result, _, timing in panes(out).get(key, [])]


def discarding(trigger, **more):
    return {"windowing": FixedWindows(10), "trigger": trigger, "accumulation_mode": "discarding", **more}


def accumulating(trigger, **more):
    return {**discarding(trigger, **more), "accumulation_mode": "accumulating"}


class TestAfterCount:
    def test_at_least_so_many(self, run):
        stream = bundles([1], [2, 4, 8], [16], [32, 64]).advance_watermark_to(10)
        out = run(CombinePerKey(sum), stream, **discarding(Repeatedly(AfterCount(2))))
        assert timed(out) == [(15, "EARLY"), (112, "EARLY")]

    def test_what_is_left_comes_out_when_the_window_ends(self, run):
        stream = bundles([1, 2], [4]).crash().advance_watermark_to(10)
        out = run(CombinePerKey(sum), stream, **discarding(Repeatedly(AfterCount(2))))
        assert timed(out) == [(3, "EARLY"), (4, "ON_TIME")]
        assert out.keys() == []

    def test_with_lateness_what_is_left_waits_for_the_end_of_that(self, run):
        stream = bundles([1]).advance_watermark_to(19)
        options = discarding(Repeatedly(AfterCount(2)), allowed_lateness=10)
        assert results(run(CombinePerKey(sum), stream, **options)) == []
        assert results(run(CombinePerKey(sum), stream.advance_watermark_to(20), **options)) == [1]

    def test_each_key_and_each_window_counts_by_itself(self, run):
        stream = TestStream().add_elements(at(("k", 1, 1), ("j", 2, 1), ("k", 4, 11))).add_elements(at(("k", 8, 12)))
        out = run(CombinePerKey(sum), stream, **discarding(Repeatedly(AfterCount(2))))
        assert panes(out) == {"k": [(12, (10.0, 20.0), "EARLY")]}

    def test_each_of_the_sliding_windows_counts_by_itself(self, run):
        stream = TestStream().add_elements(at(("k", 1, 7), ("k", 2, 12)))
        options = discarding(Repeatedly(AfterCount(2))) | {"windowing": SlidingWindows(10, 5)}
        assert panes(run(CombinePerKey(sum), stream, **options)) == {"k": [(3, (5.0, 15.0), "EARLY")]}

    def test_sessions_that_merge_count_together(self, run):
        stream = TestStream().add_elements(at(("k", 1, 0))).add_elements(at(("k", 2, 16))).crash()
        stream.add_elements(at(("k", 4, 8)))
        options = discarding(Repeatedly(AfterCount(3))) | {"windowing": Sessions(10)}
        assert panes(run(CombinePerKey(sum), stream, **options)) == {"k": [(7, (0.0, 26.0), "EARLY")]}


class TestAfterWatermark:
    def test_early_on_time_and_late(self, run):
        stream = bundles([1], [2], [4]).advance_watermark_to(10).add_elements(at(("k", 8, 1))).crash()
        stream.add_elements(at(("k", 16, 1))).advance_watermark_to(30)
        trigger = AfterWatermark(early=AfterCount(2), late=AfterCount(1))
        out = run(CombinePerKey(sum), stream, **discarding(trigger, allowed_lateness=20))
        assert timed(out) == [(3, "EARLY"), (4, "ON_TIME"), (8, "LATE"), (16, "LATE")]
        out = run(CombinePerKey(sum), stream, **accumulating(trigger, allowed_lateness=20))
        assert timed(out) == [(3, "EARLY"), (7, "ON_TIME"), (15, "LATE"), (31, "LATE")]
        assert out.keys() == []

    def test_late_elements_may_be_gathered(self, run):
        stream = bundles([1]).advance_watermark_to(10)
        for value in (2, 4, 8):
            stream.add_elements(at(("k", value, 1)))
        options = discarding(AfterWatermark(late=AfterCount(2)), allowed_lateness=20)
        out = run(CombinePerKey(sum), stream.advance_watermark_to(30), **options)
        assert timed(out) == [(1, "ON_TIME"), (6, "LATE"), (8, "LATE")]

    def test_a_pane_without_anything_new_confirms_only_when_accumulating(self, run):
        stream = bundles([1, 2]).advance_watermark_to(10)
        trigger = AfterWatermark(early=AfterCount(2))
        assert timed(run(CombinePerKey(sum), stream, **discarding(trigger))) == [(3, "EARLY")]
        assert timed(run(CombinePerKey(sum), stream, **accumulating(trigger))) == [(3, "EARLY"), (3, "ON_TIME")]

    def test_without_an_early_part_it_is_as_without_a_trigger(self, run):
        stream = bundles([1], [2]).advance_watermark_to(10).add_elements(at(("k", 4, 1))).advance_watermark_to_infinity()
        default = run(CombinePerKey(sum), stream, windowing=FixedWindows(10), outputs=["late"])
        for trigger in (AfterWatermark(), DefaultTrigger(), AfterWatermark(late=AfterCount(5))):
            out = run(CombinePerKey(sum), stream, **discarding(trigger, outputs=["late"]))
            assert list(out) == list(default)
        assert timed(default) == [(3, "ON_TIME")]
        assert by_key(default, "late") == {"k": [4]}

    def test_an_element_on_the_way_with_the_watermark_is_early(self, run):
        stream = TestStream().advance_watermark_to(9).add_elements(at(("k", 1, 1))).advance_watermark_to(10)
        out = run(CombinePerKey(sum), stream, **accumulating(AfterWatermark(early=AfterCount(1))))
        assert timed(out) == [(1, "EARLY"), (1, "ON_TIME")]

    def test_the_first_element_of_a_window_may_be_late(self, run):
        stream = TestStream().advance_watermark_to(15).add_elements(at(("k", 1, 1))).add_elements(at(("k", 2, 1)))
        options = accumulating(AfterWatermark(early=AfterCount(5), late=AfterCount(1)), allowed_lateness=20)
        assert timed(run(CombinePerKey(sum), stream, **options)) == [(1, "LATE"), (3, "LATE")]

    def test_a_session_is_early_until_the_watermark_has_passed_all_of_it(self, run):
        stream = TestStream().add_elements(at(("k", 1, 0))).add_elements(at(("k", 2, 8))).advance_watermark_to(18)
        options = accumulating(AfterWatermark(early=AfterCount(1))) | {"windowing": Sessions(10)}
        assert panes(run(CombinePerKey(sum), stream, **options)) == {
            "k": [(1, (0.0, 10.0), "EARLY"), (3, (0.0, 18.0), "EARLY"), (3, (0.0, 18.0), "ON_TIME")]
        }

    def test_a_session_that_was_on_time_does_not_hide_the_count_of_one_that_it_merges_with(self, run):
        stream = TestStream().add_elements(at(("k", 1, 0))).advance_watermark_to(12).add_elements(at(("k", 2, 16)))
        stream.add_elements(at(("k", 4, 9)))
        trigger = AfterWatermark(early=AfterCount(2), late=AfterCount(1))
        options = discarding(trigger, allowed_lateness=50) | {"windowing": Sessions(10)}
        assert panes(run(CombinePerKey(sum), stream, **options)) == {
            "k": [(1, (0.0, 10.0), "ON_TIME"), (6, (0.0, 26.0), "EARLY")]
        }


class TestPanes:
    def info(self, run, trigger, stream, **more):
        return [output.pane for output in run(CombinePerKey(sum), stream, **accumulating(trigger, **more))]

    def test_each_says_which_it_is(self, run):
        stream = bundles([1], [2]).advance_watermark_to(10).crash().add_elements(at(("k", 4, 1)))
        trigger = AfterWatermark(early=AfterCount(1), late=AfterCount(1))
        found = self.info(run, trigger, stream.add_elements(at(("k", 8, 1))), allowed_lateness=20)
        assert found == [
            PaneInfo(True, False, EARLY, 0, 0),
            PaneInfo(False, False, EARLY, 1, 0),
            PaneInfo(False, False, ON_TIME, 2, 0),
            PaneInfo(False, False, LATE, 3, 1),
            PaneInfo(False, False, LATE, 4, 2),
        ]

    def test_the_only_one_is_the_first_and_the_last(self, run):
        stream = bundles([1]).advance_watermark_to(10)
        out = run(CombinePerKey(sum), stream, windowing=FixedWindows(10))
        assert [output.pane for output in out] == [PaneInfo(True, True, ON_TIME, 0, 0)]

    def test_while_more_may_come_none_is_the_last(self, run):
        stream = bundles([1]).advance_watermark_to(10).add_elements(at(("k", 2, 1))).advance_watermark_to_infinity()
        out = run(CombinePerKey(sum), stream, windowing=FixedWindows(10), allowed_lateness=20)
        assert [output.pane for output in out] == [
            PaneInfo(True, False, ON_TIME, 0, 0),
            PaneInfo(False, False, LATE, 1, 1),
        ]

    def test_the_rest_that_comes_when_the_window_ends_is_the_last(self, run):
        stream = bundles([1, 2], [4]).advance_watermark_to(30)
        found = self.info(run, Repeatedly(AfterCount(2)), stream, allowed_lateness=20)
        assert found[0] == PaneInfo(True, False, EARLY, 0, 0)
        assert [(pane.is_last, pane.index) for pane in found] == [(False, 0), (True, 1)]

    @pytest.mark.parametrize("trigger", [None, Repeatedly(AfterCount(5))], ids=["default", "counted"])
    def test_at_the_end_of_the_input_the_global_windows_is_the_last(self, run, trigger):
        stream = bundles([1]).advance_watermark_to_infinity()
        options = {"allowed_lateness": 5, "trigger": trigger, "accumulation_mode": "discarding"}
        out = run(CombinePerKey(sum), stream, windowing=GlobalWindows(), **options)
        assert [output.pane for output in out] == [PaneInfo(True, True, ON_TIME, 0, 0)]


class TestProcessingTime:
    def test_so_long_after_the_first_element(self, run):
        stream = bundles([1]).advance_processing_time(4).add_elements(at(("k", 2, 1))).advance_processing_time(1)
        trigger = Repeatedly(AfterProcessingTime(5))
        out = run(CombinePerKey(sum), stream, **discarding(trigger))
        assert timed(out) == [(3, "EARLY")]
        stream.crash().add_elements(at(("k", 4, 1))).advance_processing_time(4)
        assert results(run(CombinePerKey(sum), stream, **discarding(trigger))) == [3]
        assert results(run(CombinePerKey(sum), stream.advance_processing_time(1), **discarding(trigger))) == [3, 4]

    def test_without_a_delay_after_the_bundle(self, run):
        out = run(CombinePerKey(sum), bundles([1, 2], [4]), **discarding(Repeatedly(AfterProcessingTime())))
        assert results(out) == [3, 4]

    @pytest.mark.parametrize("delay", [90, "90 seconds", Duration(90), "1.5 minutes"], ids=repr)
    def test_the_delay_is_any_duration(self, run, delay):
        assert AfterProcessingTime(delay) == AfterProcessingTime(90)
        options = discarding(Repeatedly(AfterProcessingTime(delay)))
        assert results(run(CombinePerKey(sum), bundles([1]).advance_processing_time(90), **options)) == [1]

    def test_before_the_end_of_the_window(self, run):
        trigger = AfterWatermark(early=AfterProcessingTime(5), late=AfterCount(1))
        stream = bundles([1]).advance_processing_time(5).add_elements(at(("k", 2, 1))).advance_watermark_to(10)
        stream.advance_processing_time(5)
        out = run(CombinePerKey(sum), stream, **accumulating(trigger))
        assert timed(out) == [(1, "EARLY"), (3, "ON_TIME")]
        assert out.timers("k") == []

    def test_the_end_of_the_input_does_not_wait(self, run):
        stream = bundles([1]).advance_watermark_to_infinity()
        options = discarding(Repeatedly(AfterProcessingTime(5))) | {"windowing": GlobalWindows()}
        out = run(CombinePerKey(sum), stream, **options)
        assert panes(out) == {"k": [(1, GLOBAL, "ON_TIME")]}
        assert out.timers("k") == []

    def test_a_session_waits_from_its_first_element(self, run):
        stream = TestStream().add_elements(at(("k", 1, 0))).advance_processing_time(3).add_elements(at(("k", 2, 8)))
        options = discarding(Repeatedly(AfterProcessingTime(5))) | {"windowing": Sessions(10)}
        assert results(run(CombinePerKey(sum), stream.advance_processing_time(1), **options)) == []
        out = run(CombinePerKey(sum), stream.advance_processing_time(1), **options)
        assert panes(out) == {"k": [(3, (0.0, 18.0), "EARLY")]}


class TestComposites:
    def test_always(self, run):
        stream = bundles([1, 2], [4]).advance_watermark_to(10)
        assert timed(run(CombinePerKey(sum), stream, **discarding(Always()))) == [(3, "EARLY"), (4, "EARLY")]

    def test_any(self, run):
        stream = bundles([1], [2, 4]).add_elements(at(("k", 8, 1))).advance_processing_time(5)
        trigger = Repeatedly(AfterAny(AfterCount(3), AfterProcessingTime(5)))
        assert results(run(CombinePerKey(sum), stream, **discarding(trigger))) == [7, 8]

    def test_all(self, run):
        trigger = Repeatedly(AfterAll(AfterCount(2), AfterProcessingTime(5)))
        stream = bundles([1]).advance_processing_time(5)
        assert results(run(CombinePerKey(sum), stream, **discarding(trigger))) == []
        stream.crash().add_elements(at(("k", 2, 1))).add_elements(at(("k", 4, 1), ("k", 8, 1)))
        assert results(run(CombinePerKey(sum), stream, **discarding(trigger))) == [3]
        assert results(run(CombinePerKey(sum), stream.advance_processing_time(5), **discarding(trigger))) == [3, 12]

    def test_one_after_the_other(self, run):
        trigger = AfterEach(AfterCount(1), AfterCount(2), Repeatedly(AfterCount(3)))
        stream = bundles([1], [1], [1], [1], [1]).crash().add_elements(at(*[("k", 1, 1)] * 4))
        out = run(CombinePerKey(sum), stream, **discarding(trigger))
        assert results(out) == [1, 2, 6]

    def test_until_another_fires_and_then_anew(self, run):
        trigger = Repeatedly(OrFinally(Repeatedly(AfterCount(2)), AfterCount(3)))
        out = run(CombinePerKey(sum), bundles([1], [2], [4], [8], [16]), **discarding(trigger))
        assert results(out) == [3, 4, 24]

    def test_the_same_trigger_for_lists(self, run):
        stream = bundles(["a"], ["b", "c"], ["d"]).crash().advance_watermark_to(10)
        trigger = AfterWatermark(early=Repeatedly(AfterCount(2)))
        assert timed(run(GroupByKey(), stream, **discarding(trigger))) == [(["a", "b", "c"], "EARLY"), (["d"], "ON_TIME")]
        out = run(GroupByKey(), stream, **accumulating(trigger))
        assert timed(out) == [(["a", "b", "c"], "EARLY"), (["a", "b", "c", "d"], "ON_TIME")]

    @pytest.mark.parametrize("windowing", [FixedWindows(10), SlidingWindows(10, 5), Sessions(10)], ids=repr)
    def test_nothing_stays_behind(self, run, windowing):
        trigger = AfterWatermark(early=AfterAny(AfterCount(2), AfterProcessingTime(60)), late=AfterCount(2))
        stream = bundles([1], [2, 4], [8]).advance_watermark_to(11).add_elements(at(("k", 16, 2)))
        options = accumulating(trigger, allowed_lateness=5) | {"windowing": windowing}
        out = run(GroupByKey(), stream.advance_watermark_to(100), **options)
        assert out.keys() == []
        assert out.timers("k") == []


UNSAFE = [
    AfterCount(3),
    AfterProcessingTime(3),
    AfterAny(AfterCount(3), Repeatedly(AfterCount(1))),
    AfterAll(AfterCount(3), AfterCount(1)),
    AfterEach(AfterCount(3), AfterCount(1)),
    OrFinally(Repeatedly(AfterCount(3)), AfterCount(10)),
]


class TestRefusals:
    @pytest.mark.parametrize("trigger", UNSAFE, ids=repr)
    def test_a_trigger_that_may_end_and_lose_what_comes_then(self, run, trigger):
        with pytest.raises(InvalidStep, match="unsafe") as caught:
            run(CombinePerKey(sum), TestStream(), **discarding(trigger))
        assert "Repeatedly(...)" in str(caught.value)
        assert repr(trigger) in str(caught.value)

    @pytest.mark.parametrize("trigger", UNSAFE, ids=repr)
    def test_repeated_it_is_safe(self, run, trigger):
        out = run(CombinePerKey(sum), bundles([1], [2]).advance_watermark_to(10), **discarding(Repeatedly(trigger)))
        assert sum(results(out)) == 3

    def test_nothing_for_the_late_elements_that_are_allowed(self, run):
        with pytest.raises(InvalidStep, match=r"add late=AfterCount\(1\)"):
            run(CombinePerKey(sum), TestStream(), **discarding(AfterWatermark(early=AfterCount(1)), allowed_lateness=5))

    def test_a_trigger_without_a_mode(self, run):
        with pytest.raises(InvalidStep, match="accumulation_mode"):
            run(CombinePerKey(sum), TestStream(), windowing=FixedWindows(10), trigger=Repeatedly(AfterCount(2)))

    def test_the_default_trigger_needs_no_mode(self, run):
        for trigger in (DefaultTrigger(), AfterWatermark(late=AfterCount(1))):
            stream = bundles([1]).advance_watermark_to(10)
            assert results(run(CombinePerKey(sum), stream, windowing=FixedWindows(10), trigger=trigger)) == [1]

    @pytest.mark.parametrize("trigger", [AfterCount, 5, "AfterCount(5)"], ids=repr)
    def test_what_is_no_trigger(self, run, trigger):
        with pytest.raises(InvalidStep, match="The trigger is"):
            run(CombinePerKey(sum), TestStream(), **discarding(trigger))

    def test_an_unknown_mode(self, run):
        with pytest.raises(InvalidStep, match="'discarding' or 'accumulating'"):
            run(CombinePerKey(sum), TestStream(), windowing=FixedWindows(10), accumulation_mode="retracting")


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: AfterCount(0), "of at least 1"),
        (lambda: AfterCount(True), "of at least 1"),
        (lambda: AfterCount(2.5), "of at least 1"),
        (lambda: AfterProcessingTime(-1), "cannot be negative"),
        (lambda: Repeatedly(3), "Repeatedly takes triggers"),
        (lambda: AfterWatermark(early=AfterCount), "not the class AfterCount"),
        (lambda: AfterAny(AfterCount(1)), "two triggers or more"),
        (lambda: AfterAll(AfterCount(1), 2), "AfterAll takes triggers"),
        (lambda: AfterEach(), "two triggers or more"),
    ],
)
def test_triggers_that_cannot_be(make, says):
    with pytest.raises(InvalidStep, match=says):
        make()
