"""Aggregations: what is combined, in which windows, when it comes out, and what becomes of late elements."""

from __future__ import annotations

import pytest

from holdfast import (
    AfterCount,
    Always,
    AsList,
    CombineFn,
    CombinePerKey,
    Count,
    DoFn,
    FixedWindows,
    GlobalWindows,
    GroupByKey,
    InputError,
    IntervalWindow,
    InvalidStep,
    Max,
    Mean,
    Min,
    NonMergingWindowFn,
    Repeatedly,
    Sessions,
    SlidingWindows,
    Sum,
    Top,
    UserCodeError,
    WindowFn,
)
from holdfast.testing import TestStream

from .reading import GLOBAL, at, by_key, panes, stamped


def main(out):
    """The results of each key with their windows, in order."""
    return {key: [(result, window) for result, window, _ in rest] for key, rest in panes(out).items()}


class Spread(CombineFn):
    """The distance between the smallest and the largest value. Changes its accumulators in place."""

    def create_accumulator(self):
        return {}

    def add_input(self, mutable_accumulator, element):
        mutable_accumulator["low"] = min(element, mutable_accumulator.get("low", element))
        mutable_accumulator["high"] = max(element, mutable_accumulator.get("high", element))
        return mutable_accumulator

    def merge_accumulators(self, accumulators):
        first, *others = accumulators
        for other in others:
            for value in other.values():
                first = self.add_input(first, value)
        return first

    def extract_output(self, accumulator):
        return accumulator["high"] - accumulator["low"] if accumulator else None


class TestWindows:
    def test_the_global_window_gives_its_result_at_the_end_of_the_input(self, run):
        stream = TestStream().add_elements(at(("k", 1, 5), ("j", 7, 9))).advance_watermark_to(10**9)
        assert list(run(CombinePerKey(sum), stream)) == []
        out = run(CombinePerKey(sum), stream.advance_watermark_to_infinity())
        assert main(out) == {"k": [(1, GLOBAL)], "j": [(7, GLOBAL)]}
        assert out.keys() == []

    def test_the_global_window_with_a_trigger(self, run):
        stream = TestStream().add_elements(at(("k", 1, 5))).add_elements(at(("k", 2, 3), ("j", 7, 9)))
        out = run(
            CombinePerKey(sum),
            stream.advance_watermark_to_infinity(),
            windowing=GlobalWindows(),
            trigger=Repeatedly(AfterCount(2)),
            accumulation_mode="accumulating",
        )
        # What is left at the end of the input comes out then.
        assert panes(out) == {"k": [(3, GLOBAL, "EARLY")], "j": [(7, GLOBAL, "ON_TIME")]}

    def test_fixed_windows_give_one_result_for_each_key_when_the_watermark_passes_their_end(self, run):
        stream = TestStream().add_elements(at(("k", 1, 0), ("k", 2, 9.999999), ("k", 4, 10), ("j", 8, 3)))
        stream.advance_watermark_to(9.999999)
        assert list(run(CombinePerKey(sum), stream, windowing=FixedWindows(10))) == []
        out = run(CombinePerKey(sum), stream.advance_watermark_to(10), windowing=FixedWindows(10))
        assert main(out) == {"k": [(3, (0.0, 10.0))], "j": [(8, (0.0, 10.0))]}
        assert out.state("k", IntervalWindow(10, 20)) == {"value": 4}
        assert out.keys() == ["k"]
        assert out.metrics.windows_expired == 1

    def test_fixed_windows_with_an_offset(self, run):
        stream = TestStream().add_elements(at(("k", 1, 2), ("k", 2, 3), ("k", 4, 12.5))).advance_watermark_to_infinity()
        out = run(CombinePerKey(sum), stream, windowing=FixedWindows(10, offset=3))
        assert main(out) == {"k": [(1, (-7.0, 3.0)), (6, (3.0, 13.0))]}

    def test_a_result_has_the_last_timestamp_of_its_window(self, run):
        stream = TestStream().add_elements(at(("k", 1, 2))).advance_watermark_to(10)
        out = run(CombinePerKey(sum), stream, windowing=FixedWindows(10))
        assert stamped(out) == {"k": [(1, 9.999999, (0.0, 10.0))]}

    def test_an_element_counts_in_each_of_its_sliding_windows(self, run):
        stream = TestStream().add_elements(at(("k", 1, 7), ("k", 2, 12))).advance_watermark_to(15)
        out = run(CombinePerKey(sum), stream, windowing=SlidingWindows(10, 5))
        assert main(out) == {"k": [(1, (0.0, 10.0)), (3, (5.0, 15.0))]}
        out = run(CombinePerKey(sum), stream.advance_watermark_to_infinity(), windowing=SlidingWindows(10, 5))
        assert main(out)["k"][2:] == [(2, (10.0, 20.0))]

    def test_sliding_windows_with_gaps_leave_elements_out(self, run):
        stream = TestStream().add_elements(at(("k", 1, 4), ("k", 2, 6), ("k", 4, 11))).advance_watermark_to_infinity()
        out = run(CombinePerKey(sum), stream, windowing=SlidingWindows(5, 10))
        assert main(out) == {"k": [(1, (0.0, 5.0)), (4, (10.0, 15.0))]}

    def test_windows_that_end_together_give_results_in_order_of_their_ends(self, run):
        stream = TestStream().add_elements(at(("k", 3, 25), ("k", 1, 5), ("k", 2, 15))).advance_watermark_to(100)
        out = run(CombinePerKey(sum), stream, windowing=FixedWindows(10))
        assert main(out)["k"] == [(1, (0.0, 10.0)), (2, (10.0, 20.0)), (3, (20.0, 30.0))]

    def test_a_window_function_of_ones_own(self, run):
        stream = TestStream().add_elements(at(*[("k", value, 5) for value in (1, 2, 3, 4, -1)]))
        out = run(CombinePerKey(sum), stream.advance_watermark_to_infinity(), windowing=EvenAndOdd())
        assert main(out) == {"k": [(4, (0.0, 10.0)), (6, (0.0, 20.0))]}

    def test_a_merging_window_function_of_ones_own(self, run):
        stream = TestStream().add_elements(at(("k", 1, 3))).add_elements(at(("k", 2, 17), ("k", 4, 5), ("j", 8, 4)))
        out = run(CombinePerKey(sum), stream.advance_watermark_to_infinity(), windowing=SameDecade())
        assert main(out) == {"k": [(5, (3.0, 6.0)), (2, (17.0, 18.0))], "j": [(8, (4.0, 5.0))]}


class EvenAndOdd(NonMergingWindowFn):
    """Two windows for each ten seconds, by the value of the element; none for negative values."""

    def assign(self, assign_context):
        _, value = assign_context.element
        if value < 0:
            return []
        start = int(assign_context.timestamp) // 10 * 10
        return [IntervalWindow(start, start + (10 if value % 2 else 20))]


class SameDecade(WindowFn):
    """One second for each element; those within the same ten seconds become one window."""

    def assign(self, assign_context):
        start = int(assign_context.timestamp)
        return [IntervalWindow(start, start + 1)]

    def merge(self, merge_context):
        decades = {}
        for window in merge_context.windows:
            decades.setdefault(int(window.start) // 10, []).append(window)
        for windows in decades.values():
            if len(windows) > 1:
                start, end = min(w.start for w in windows), max(w.end for w in windows)
                merge_context.merge(windows, IntervalWindow(start, end))


class TestSessions:
    def test_a_session_lasts_as_long_as_elements_are_less_than_the_gap_from_each_other(self, run):
        stream = TestStream().add_elements(at(("k", 1, 0), ("k", 2, 9), ("k", 4, 19), ("j", 8, 3)))
        out = run(CombinePerKey(sum), stream.advance_watermark_to_infinity(), windowing=Sessions(10))
        assert main(out) == {"k": [(3, (0.0, 19.0)), (4, (19.0, 29.0))], "j": [(8, (3.0, 13.0))]}
        assert out.keys() == []

    def test_sessions_of_several_bundles_become_one(self, run):
        stream = TestStream().add_elements(at(("k", 1, 0))).add_elements(at(("k", 4, 16))).crash()
        stream.add_elements(at(("k", 2, 8))).advance_watermark_to(25)
        assert list(run(CombinePerKey(sum), stream, windowing=Sessions(10))) == []
        out = run(CombinePerKey(sum), stream.advance_watermark_to(26), windowing=Sessions(10))
        assert panes(out) == {"k": [(7, (0.0, 26.0), "ON_TIME")]}
        assert out.keys() == []

    def test_a_session_that_grows_gives_its_result_later(self, run):
        stream = TestStream().add_elements(at(("k", 1, 0))).advance_watermark_to(9).add_elements(at(("k", 2, 9)))
        stream.advance_watermark_to(10)
        assert list(run(CombinePerKey(sum), stream, windowing=Sessions(10))) == []
        out = run(CombinePerKey(sum), stream.advance_watermark_to(19), windowing=Sessions(10))
        assert main(out) == {"k": [(3, (0.0, 19.0))]}

    def test_an_element_is_late_by_the_session_that_it_would_be_in(self, run):
        stream = TestStream().add_elements(at(("k", 1, 15))).advance_watermark_to(20)
        stream.add_elements(at(("k", 2, 8), ("j", 4, 8))).advance_watermark_to(25)
        out = run(CombinePerKey(sum), stream, windowing=Sessions(10), outputs=["late"])
        # Both would have been in a session that ended at 18; that of k reaches on to 25.
        assert main(out) == {"k": [(3, (8.0, 25.0))]}
        assert stamped(out, "late") == {"j": [(4, 8.0, (8.0, 18.0))]}
        assert out.metrics.late == 1

    def test_a_late_element_joins_a_session_that_has_given_its_result(self, run):
        stream = TestStream().add_elements(at(("k", 1, 0))).advance_watermark_to(10).add_elements(at(("k", 2, -5)))
        for mode, total in (("discarding", 2), ("accumulating", 3)):
            out = run(CombinePerKey(sum), stream, windowing=Sessions(10), allowed_lateness=100, accumulation_mode=mode)
            assert panes(out) == {"k": [(1, (0.0, 10.0), "ON_TIME"), (total, (-5.0, 10.0), "LATE")]}

    def test_a_session_that_grows_beyond_the_watermark_waits_for_it_again(self, run):
        stream = TestStream().add_elements(at(("k", 1, 0))).advance_watermark_to(15).add_elements(at(("k", 2, 8)))
        stream.advance_watermark_to(17)
        options = {"windowing": Sessions(10), "allowed_lateness": 100}
        assert panes(run(CombinePerKey(sum), stream, **options)) == {"k": [(1, (0.0, 10.0), "ON_TIME")]}
        out = run(CombinePerKey(sum), stream.advance_watermark_to(18), **options)
        assert panes(out)["k"][1:] == [(2, (0.0, 18.0), "ON_TIME")]

    def test_sessions_that_merge_bring_their_lists_together_in_order_of_arrival(self, run):
        stream = TestStream().add_elements(at(("k", "c", 20))).add_elements(at(("k", "a", 0))).crash()
        stream.add_elements(at(("k", "d", 25))).add_elements(at(("k", "e", 12), ("k", "b", 6)))
        out = run(GroupByKey(), stream.advance_watermark_to_infinity(), windowing=Sessions(10))
        assert panes(out) == {"k": [(["c", "a", "d", "e", "b"], (0.0, 35.0), "ON_TIME")]}


class TestCombining:
    @pytest.mark.parametrize(
        ("fn", "result"), [(sum, 6), (max, 3), (min, 1), (Sum(), 6), (Count(), 3), (Mean(), 2.0), (Top(2), [3, 2])], ids=repr
    )
    def test_functions_and_ready_combiners(self, run, fn, result):
        stream = TestStream().add_elements(at(("k", 1, 0), ("k", 3, 1))).add_elements(at(("k", 2, 2)))
        out = run(CombinePerKey(fn), stream.advance_watermark_to(10), windowing=FixedWindows(10))
        assert out.values == [("k", result)]

    def test_several_at_once_come_out_by_name(self, run):
        stream = TestStream().add_elements(at(("k", 1, 0), ("k", 3, 1), ("j", 5, 2))).advance_watermark_to(10)
        combined = CombinePerKey({"n": Count(), "total": sum, "spread": Spread()})
        out = run(combined, stream, windowing=FixedWindows(10))
        assert by_key(out) == {
            "k": [{"n": 2, "total": 4, "spread": 2}],
            "j": [{"n": 1, "total": 5, "spread": 0}],
        }

    def test_fields_of_the_elements_are_combined_without_none(self, run):
        rides = [{"fare": 7.5, "tip": None}, {"fare": 2.5, "tip": 1.0}]
        stream = TestStream().add_elements(at(*[("k", ride, 0) for ride in rides])).advance_watermark_to(10)
        combined = CombinePerKey({"rides": Count(), "tipped": Count("tip"), "fares": Sum("fare"), "best": Max("tip")})
        out = run(combined, stream, windowing=FixedWindows(10))
        assert out.values == [("k", {"rides": 2, "tipped": 1, "fares": 10.0, "best": 1.0})]

    @pytest.mark.parametrize("windowing", [FixedWindows(10), SlidingWindows(10, 5), Sessions(6)], ids=repr)
    def test_an_accumulator_that_is_changed_in_place_belongs_to_one_key_and_window(self, run, windowing):
        stream = TestStream().add_elements(at(("k", 1, 6), ("k", 5, 7), ("j", 100, 6))).crash()
        stream.add_elements(at(("k", -3, 6.5))).advance_watermark_to_infinity()
        out = run(CombinePerKey(Spread()), stream, windowing=windowing)
        assert set(by_key(out)["k"]) == {8}
        assert set(by_key(out)["j"]) == {0}

    @pytest.mark.parametrize("trigger", [None, Always()], ids=["default", "always"])
    def test_a_result_stays_as_it_was_although_its_accumulator_goes_on(self, run, trigger):
        stream = TestStream().advance_watermark_to(10)
        stream.add_elements(at(("k", 1, 1))).add_elements(at(("k", 2, 1)))
        options = {"windowing": FixedWindows(10), "allowed_lateness": 10, "accumulation_mode": "accumulating"}
        out = run(CombinePerKey(Handed()), stream, trigger=trigger, **options)
        assert out.values == [("k", [1]), ("k", [1, 2])]

    def test_each_key_has_its_own_result_whatever_its_type(self, run):
        keys = ["1", 1, 1.5, ("1", 1), True, b"1"]
        stream = TestStream().add_elements(at(*[(key, place, 1) for place, key in enumerate(keys)]))
        out = run(CombinePerKey(sum), stream.advance_watermark_to(10), windowing=FixedWindows(10))
        assert {repr(key): total for key, total in out.values} == {repr(key): place for place, key in enumerate(keys)}

    def test_an_element_without_a_key_is_an_error(self, run):
        with pytest.raises(InputError, match="has no key"):
            run(CombinePerKey(sum), TestStream().add_elements(at((None, 1, 1))), windowing=FixedWindows(10))

    @pytest.mark.parametrize("windowing", [FixedWindows(10), Sessions(10)], ids=repr)
    def test_what_a_combiner_raises_is_told_with_the_step(self, run, windowing):
        stream = TestStream().add_elements(at(("k", "text", 1)))
        with pytest.raises(UserCodeError, match="TypeError") as caught:
            run(CombinePerKey(sum), stream, windowing=windowing, name="totals")
        assert caught.value.context["step"] == "totals"

    def test_key_groups_change_nothing(self, run):
        stream = TestStream().add_elements(at(*[(key, key, 1) for key in range(6)])).advance_watermark_to(10)
        out = run(CombinePerKey(sum), stream, windowing=FixedWindows(10), key_groups=3)
        assert sorted(out.values) == [(key, key) for key in range(6)]


class Handed(CombineFn):
    """Gives its own accumulator away as the result."""

    def create_accumulator(self):
        return []

    def add_input(self, mutable_accumulator, element):
        mutable_accumulator.append(element)
        return mutable_accumulator

    def merge_accumulators(self, accumulators):
        return [value for held in accumulators for value in held]

    def extract_output(self, accumulator):
        return accumulator


class TestGrouping:
    @pytest.mark.parametrize("windowing", [GlobalWindows(), FixedWindows(100), Sessions(50)], ids=repr)
    def test_values_are_listed_in_the_order_in_which_they_came(self, run, windowing):
        stream = TestStream().add_elements(at(("k", "b", 30), ("k", "a", 10), ("j", "x", 1))).crash()
        stream.add_elements(at(("k", "d", 40), ("k", "c", 20))).advance_watermark_to_infinity()
        assert by_key(run(GroupByKey(), stream, windowing=windowing)) == {"k": [["b", "a", "d", "c"]], "j": [["x"]]}

    def test_values_are_any_and_equal_ones_stay(self, run):
        values = [{"a": [1]}, None, {"a": [1]}, (1, 2)]
        stream = TestStream().add_elements(at(*[("k", value, 1) for value in values])).advance_watermark_to(10)
        assert run(GroupByKey(), stream, windowing=FixedWindows(10)).values == [("k", values)]

    def test_sliding_windows_list_a_value_in_each(self, run):
        stream = TestStream().add_elements(at(("k", "a", 7), ("k", "b", 12))).advance_watermark_to_infinity()
        out = run(GroupByKey(), stream, windowing=SlidingWindows(10, 5))
        assert main(out) == {"k": [(["a"], (0.0, 10.0)), (["a", "b"], (5.0, 15.0)), (["b"], (10.0, 20.0))]}


class NoSeven(CombineFn):
    """A sum that cannot be seven."""

    def create_accumulator(self):
        return 0

    def add_input(self, accumulator, element):
        return accumulator + element

    def merge_accumulators(self, accumulators):
        return sum(accumulators)

    def extract_output(self, accumulator):
        if accumulator == 7:
            raise ValueError("seven")
        return accumulator


class TestLateness:
    def test_a_late_element_is_dropped_and_counted(self, run):
        stream = TestStream().add_elements(at(("k", 1, 5))).advance_watermark_to(10)
        stream.add_elements(at(("k", 2, 5), ("j", 4, 9.999999), ("k", 8, 10))).advance_watermark_to_infinity()
        out = run(CombinePerKey(sum), stream, windowing=FixedWindows(10))
        assert main(out) == {"k": [(1, (0.0, 10.0)), (8, (10.0, 20.0))]}
        assert out.metrics.late == 2
        assert out.metrics.elements == 4

    @pytest.mark.parametrize("transform", [CombinePerKey(sum), GroupByKey()], ids=["combined", "listed"])
    def test_late_elements_come_out_if_their_output_is_declared(self, run, transform):
        stream = TestStream().advance_watermark_to(10).add_elements(at(("k", 1, 5), ("j", 2, 6), ("k", 3, 12)))
        out = run(transform, stream, windowing=FixedWindows(10), outputs=["late"])
        assert stamped(out, "late") == {"k": [(1, 5.0, (0.0, 10.0))], "j": [(2, 6.0, (0.0, 10.0))]}
        assert panes(out) == {}
        assert out.metrics.late == 2
        assert out.keys() == ["k"]

    def test_an_element_may_be_late_for_one_of_its_windows_only(self, run):
        stream = TestStream().advance_watermark_to(10).add_elements(at(("k", 1, 7))).advance_watermark_to_infinity()
        out = run(CombinePerKey(sum), stream, windowing=SlidingWindows(10, 5), outputs=["late"])
        assert main(out) == {"k": [(1, (5.0, 15.0))]}
        assert [window for _, _, window in stamped(out, "late")["k"]] == [(0.0, 10.0)]
        assert out.metrics.late == 1

    def test_a_bundle_with_late_elements_gives_one_more_result(self, run):
        stream = TestStream().add_elements(at(("k", 1, 5))).advance_watermark_to(10).crash()
        stream.add_elements(at(("k", 2, 5), ("k", 4, 6), ("j", 8, 7))).advance_watermark_to(29)
        stream.add_elements(at(("k", 16, 1))).advance_watermark_to(30).add_elements(at(("k", 32, 1)))
        options = {"windowing": FixedWindows(10), "allowed_lateness": 20, "outputs": ["late"]}
        window = (0.0, 10.0)
        out = run(CombinePerKey(sum), stream, **options)
        assert panes(out) == {
            "k": [(1, window, "ON_TIME"), (6, window, "LATE"), (16, window, "LATE")],
            "j": [(8, window, "LATE")],
        }
        assert by_key(out, "late") == {"k": [32]}
        assert out.metrics.late == 1
        assert out.keys() == []
        out = run(CombinePerKey(sum), stream, accumulation_mode="accumulating", **options)
        assert [result for result, *_ in panes(out)["k"]] == [1, 7, 23]

    def test_lists_of_late_elements(self, run):
        stream = TestStream().add_elements(at(("k", "a", 5))).advance_watermark_to(10).crash()
        stream.add_elements(at(("k", "b", 5))).add_elements(at(("k", "c", 5)))
        options = {"windowing": FixedWindows(10), "allowed_lateness": 20}
        assert run(GroupByKey(), stream, **options).values == [("k", ["a"]), ("k", ["b"]), ("k", ["c"])]
        out = run(GroupByKey(), stream, accumulation_mode="accumulating", **options)
        assert out.values == [("k", ["a"]), ("k", ["a", "b"]), ("k", ["a", "b", "c"])]

    @pytest.mark.parametrize("windowing", [FixedWindows(10), Sessions(5)], ids=repr)
    def test_what_is_late_is_no_part_of_what_fails(self, run, windowing):
        stream = TestStream().add_elements(at(("k", 1, 100))).advance_watermark_to(50)
        stream.add_elements(at(("k", 7, 5), ("k", "bad", 101), ("j", 4, 100))).advance_watermark_to_infinity()
        options = {"on_error": "dead_letter", "outputs": ["late", "dead_letter"]}
        out = run(CombinePerKey(sum), stream, windowing=windowing, **options)
        assert by_key(out) == {"k": [1], "j": [4]}
        assert by_key(out, "late") == {"k": [7]}
        assert [letter.value for letter in out.tagged("dead_letter")] == ["bad"]
        assert (out.metrics.late, out.metrics.dead_letters) == (1, 1)

    @pytest.mark.parametrize("lateness", [0, 5])
    @pytest.mark.parametrize("windowing", [FixedWindows(10), Sessions(5)], ids=repr)
    def test_a_result_that_fails_is_a_dead_letter_and_its_key_goes_on(self, run, windowing, lateness):
        stream = TestStream().add_elements(at(("k", 7, 1), ("j", 2, 1))).advance_watermark_to(50)
        stream.add_elements(at(("k", 1, 60))).advance_watermark_to_infinity()
        options = {"on_error": "dead_letter", "outputs": ["dead_letter"], "allowed_lateness": lateness}
        out = run(CombinePerKey(NoSeven()), stream, windowing=windowing, **options)
        assert by_key(out) == {"j": [2], "k": [1]}
        [letter] = out.tagged("dead_letter")
        assert (letter.key, letter.value, letter.method, letter.error) == ("k", None, "extract_output", "ValueError: seven")
        assert out.metrics.dead_letters == 1
        assert out.keys() == []

    def test_the_watermark_of_the_bundle_decides_and_not_the_elements_before(self, run):
        stream = TestStream().add_elements(at(("k", 1, 100), ("k", 2, 0))).advance_watermark_to_infinity()
        out = run(CombinePerKey(sum), stream, windowing=FixedWindows(10))
        assert main(out) == {"k": [(2, (0.0, 10.0)), (1, (100.0, 110.0))]}
        assert out.metrics.late == 0


class TestState:
    @pytest.mark.parametrize("windowing", [FixedWindows(10), SlidingWindows(20, 10), Sessions(5)], ids=repr)
    def test_results_survive_the_loss_of_all_memory(self, run, windowing):
        def script(crashes):
            stream = TestStream()
            for elements in ([("k", 1, 1), ("j", 8, 2)], [("k", 2, 4)], [("k", 4, 13)]):
                stream.add_elements(at(*elements))
                if crashes:
                    stream.crash()
            return stream.advance_watermark_to_infinity()

        out = run(CombinePerKey({"n": Count(), "spread": Spread()}), script(crashes=True), windowing=windowing)
        without = run(CombinePerKey({"n": Count(), "spread": Spread()}), script(crashes=False), windowing=windowing)
        assert panes(out) == panes(without) != {}
        assert out.keys() == []

    @pytest.mark.parametrize("windowing", [FixedWindows(10), SlidingWindows(20, 10), Sessions(10)], ids=repr)
    def test_state_does_not_pile_up(self, run, windowing):
        stream = TestStream()
        for start in range(0, 50, 10):
            stream.add_elements(at(("k", start, start), ("j", start, start + 5))).advance_watermark_to(start + 10)
        out = run(GroupByKey(), stream.advance_watermark_to(100), windowing=windowing, allowed_lateness=10)
        assert out.keys() == []
        assert out.timers("k") == out.timers("j") == []
        assert out.metrics.late == 0

    def test_no_result_comes_twice(self, run):
        stream = TestStream().add_elements(at(("k", 1, 1))).advance_watermark_to(10).crash().advance_watermark_to(11)
        stream.add_elements(at(("j", 2, 1))).crash().advance_watermark_to(12).advance_watermark_to_infinity()
        out = run(CombinePerKey(sum), stream, windowing=FixedWindows(10), allowed_lateness=20)
        assert panes(out) == {"k": [(1, (0.0, 10.0), "ON_TIME")], "j": [(2, (0.0, 10.0), "LATE")]}


class Passes(DoFn):
    def process(self, element):
        yield element


class TestRefusals:
    """Before anything runs, on every runtime, with all that is wrong at once."""

    @pytest.mark.parametrize(
        ("fn", "says"),
        [
            ({}, "nothing to combine"),
            (7, "neither a CombineFn nor a function"),
            (Count, "use Count"),
            ({"n": Count(), "m": "sum"}, "neither a CombineFn nor a function"),
            ({"panes": Count()}, "cannot have the name 'panes'"),
        ],
    )
    def test_what_cannot_be_combined(self, run, fn, says):
        with pytest.raises(InvalidStep, match=says):
            run(CombinePerKey(fn), TestStream(), windowing=FixedWindows(10))

    def test_a_trigger_for_a_dofn(self, run):
        with pytest.raises(InvalidStep, match="A trigger says when an aggregation gives its results"):
            run(Passes(), TestStream(), trigger=Repeatedly(AfterCount(1)), accumulation_mode="discarding")
        with pytest.raises(InvalidStep, match="leave out trigger and accumulation_mode"):
            run(Passes(), TestStream(), accumulation_mode="discarding")

    def test_what_is_for_dofns_only(self, run):
        with pytest.raises(InvalidStep) as caught:
            run(GroupByKey(), TestStream(), side_inputs=[AsList([1])], requires_time_sorted_input=True)
        assert "GroupByKey takes no side_inputs" in str(caught.value)
        assert "GroupByKey takes no requires_time_sorted_input" in str(caught.value)

    def test_windows_and_lateness_that_are_none(self, run):
        with pytest.raises(InvalidStep):
            run(CombinePerKey(sum), TestStream(), windowing=10)
        with pytest.raises(InvalidStep):
            run(CombinePerKey(sum), TestStream(), windowing=FixedWindows(10), allowed_lateness=-1)

    def test_a_negative_lateness_a_wrong_mode_and_a_wrong_name_are_all_told(self, run):
        with pytest.raises(InvalidStep) as caught:
            run(CombinePerKey({"panes": Min()}), TestStream(), allowed_lateness=-1, accumulation_mode="both")
        text = str(caught.value)
        assert "accumulation_mode is 'both'" in text
        assert "'panes'" in text
        assert "lateness" in text
