"""Aggregations over DataFrames: the columns of their results, and what is refused."""

from __future__ import annotations

import datetime
import decimal

import pytest

import holdfast as hf
from integration.functions import Extremes

EVENTS = "k string, v int, w double, at timestamp"
UTC = datetime.timezone.utc


def at(second):
    return datetime.datetime.fromtimestamp(1_700_000_000 + second, tz=UTC)


@pytest.fixture
def events(spark):
    return spark.createDataFrame([("a", 1, 2.5, at(0)), ("a", 2, None, at(3)), ("b", 7, 1.0, at(12))], EVENTS)


def windowed(df, window_fn=None, **columns):
    return hf.keyed(df, key="k", timestamp="at", **columns).window_into(window_fn or hf.FixedWindows(10))


def values(frame, *names):
    return sorted(tuple(row[name] for name in names) for row in frame.collect())


class TestColumns:
    def test_ready_combiners_need_no_schema(self, events):
        named = {"n": hf.Count(), "with_w": hf.Count("w"), "sum": hf.Sum("v"), "mean": hf.Mean("v"), "top": hf.Max("w")}
        frame = windowed(events).combine_per_key(named)
        assert frame.columns == ["k", "window", *named]
        assert values(frame, "k", *named) == [("a", 2, 1, 3, 1.5, 2.5), ("b", 1, 1, 7, 7.0, 1.0)]

    def test_a_window_is_its_start_and_end(self, events):
        rows = windowed(events, value="v").combine_per_key(sum).collect()
        spans = {row.k: (row.window.start.timestamp(), row.window.end.timestamp()) for row in rows}
        assert spans == {"a": (1_700_000_000, 1_700_000_010), "b": (1_700_000_010, 1_700_000_020)}

    def test_without_windows_there_is_no_such_column(self, events):
        frame = hf.keyed(events, key="k", value="v").combine_per_key({"total": sum})
        assert frame.columns == ["k", "total"]
        assert values(frame, "k", "total") == [("a", 3), ("b", 7)]

    def test_panes(self, events):
        frame = windowed(events, value="v").combine_per_key(sum, panes=True)
        assert frame.columns == ["k", "window", "value", "pane"]
        [pane] = {row.pane for row in frame.collect()}
        assert pane.asDict() == {
            "timing": "ON_TIME",
            "index": 0,
            "nonspeculative_index": 0,
            "is_first": True,
            "is_last": True,
        }

    def test_lists_of_values_and_of_rows(self, events):
        assert values(windowed(events, value="v").group_by_key(), "k", "values") == [("a", [1, 2]), ("b", [7])]
        rows = windowed(events, hf.Sessions(5)).group_by_key().collect()
        found = sorted((row.k, [tuple(value) for value in row["values"]]) for row in rows)
        assert found == [("a", [(1, 2.5), (2, None)]), ("b", [(7, 1.0)])]

    def test_a_schema_may_name_the_results_in_any_order(self, events):
        frame = windowed(events).combine_per_key({"n": hf.Count(), "total": hf.Sum("v")}, "total bigint, n int")
        assert values(frame, "k", "n", "total") == [("a", 2, 3), ("b", 1, 7)]

    @pytest.mark.parametrize("shape", ["tuple", "dict"])
    def test_one_result_may_fill_several_columns(self, events, shape):
        frame = windowed(events, value="v").combine_per_key(Extremes(shape), "low int, high int")
        assert values(frame, "k", "low", "high") == [("a", 1, 2), ("b", 7, 7)]

    def test_keys_of_two_columns(self, events):
        stream = hf.keyed(events, key=["k", "v"], value="w", timestamp="at").window_into(hf.Sessions(5))
        assert values(stream.combine_per_key(hf.Count()), "k", "v", "value") == [("a", 1, 1), ("a", 2, 1), ("b", 7, 1)]

    def test_a_sum_beyond_64_bits_needs_a_column_that_can_hold_it(self, spark):
        df = spark.createDataFrame([("a", 2**62, at(0))] * 3, "k string, v bigint, at timestamp")
        total = decimal.Decimal(3 * 2**62)
        assert values(windowed(df, value="v").combine_per_key(sum, "s decimal(38,0)"), "s") == [(total,)]
        with pytest.raises(Exception, match="does not fit its schema"):
            windowed(df, value="v").combine_per_key(sum).collect()


class TestRefusals:
    @pytest.mark.parametrize("shape", ["number", "short", "other names"])
    def test_a_result_that_does_not_fill_its_columns(self, events, shape):
        frame = windowed(events, value="v").combine_per_key(Extremes(shape), "low int, high int")
        with pytest.raises(Exception, match="does not fit its schema"):
            frame.collect()

    def test_a_result_of_unknown_type(self, events):
        with pytest.raises(hf.InvalidStep, match="give output="):
            windowed(events, value="v").combine_per_key(len)

    def test_a_field_that_there_is_not(self, events):
        with pytest.raises(hf.InvalidStep, match="no column 'nowhere'; there are"):
            windowed(events).combine_per_key(hf.Sum("nowhere"))
        with pytest.raises(hf.InvalidStep, match="the value is the bare column 'v'"):
            windowed(events, value="v").combine_per_key(hf.Sum("nowhere"))

    def test_the_builtin_max_has_the_type_of_its_column(self, events):
        assert windowed(events, value="v").combine_per_key(max).schema["value"].dataType.simpleString() == "int"

    def test_two_columns_of_one_name(self, events):
        with pytest.raises(hf.InvalidStep, match="'k'"):
            windowed(events, value="v").combine_per_key({"k": sum})
        with pytest.raises(hf.InvalidStep, match="'window'"):
            windowed(events, value="v").combine_per_key({"window": sum})

    def test_a_schema_of_other_results(self, events):
        with pytest.raises(hf.InvalidStep, match="but the results are n"):
            windowed(events).combine_per_key({"n": hf.Count()}, "m int")

    def test_an_output_that_there_is_not(self, events):
        with pytest.raises(hf.InvalidStep, match="has no output 'oops'"):
            windowed(events, value="v").combine_per_key(sum, outputs={"oops": None})

    def test_windows_of_a_stream_without_time(self, events):
        with pytest.raises(hf.InvalidStep, match="needs event time"):
            hf.keyed(events, key="k", value="v").window_into(hf.FixedWindows(10)).combine_per_key(sum)

    def test_a_stream_that_would_never_give_a_result(self, feed):
        with pytest.raises(hf.InvalidStep, match="never be a result"):
            hf.keyed(feed(EVENTS).df, key="k", value="v").combine_per_key(sum)

    def test_windows_side_by_side_that_are_not_fixed(self, events):
        with pytest.raises(hf.InvalidStep, match="FixedWindows"):
            windowed(events, hf.Sessions(5), value="v").combine_per_key(sum, parallel_over="key+window")

    def test_an_element_without_a_time(self, spark):
        df = spark.createDataFrame([("a", 1, 1.0, None)], EVENTS)
        with pytest.raises(Exception, match="its timestamp is null"):
            windowed(df, value="v").combine_per_key(sum).collect()
