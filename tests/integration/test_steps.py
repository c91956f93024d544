"""Steps on Spark: outputs, chains, time, side inputs, and what is refused."""

from __future__ import annotations

import dataclasses
import datetime
from typing import NamedTuple

import pytest
from pyspark.errors import StreamingQueryException

import holdfast as hf
from integration.functions import (
    Both,
    Count,
    CountFloats,
    Fragile,
    Priced,
    Reminder,
    Totals,
    WrongType,
    WrongWidth,
)

EVENTS = "k string, v int, at timestamp"
UTC = datetime.timezone.utc


def at(second):
    return datetime.datetime.fromtimestamp(1_700_000_000 + second, tz=UTC)


def event(k, v, second):
    return {"k": k, "v": v, "at": at(second)}


def pairs(rows):
    return sorted(tuple(row) for row in rows)


class TestOutputs:
    def test_tags_come_apart_and_the_step_runs_once(self, feed, run_job):
        source = feed(EVENTS)
        source.add(event("a", 1, 0), event("a", 2, 1), event("a", 3, 2), event("a", 4, 3))
        both = hf.keyed(source.df, key="k", value="v").par_do(
            Both(), output="k string, v int, seen int", outputs={"odd": "k string, v int"}
        )
        evens, odds = run_job(both.main, both.odd)
        assert pairs(evens) == [("a", 2, 2), ("a", 4, 4)]
        assert pairs(odds) == [("a", 1), ("a", 3)]

    def test_a_class_gives_the_schema(self, spark):
        df = spark.createDataFrame([("a", 1)], "k string, v int")

        @dataclasses.dataclass
        class Row:
            k: str
            n: int
            note: str | None = None

        class Named(NamedTuple):
            k: str
            n: int

        class Gives(hf.DoFn):
            def process(self, element):
                yield Row(element[0], element[1])

        [row] = hf.keyed(df, key="k", value="v").par_do(Gives(), output=Row).collect()
        assert (row.k, row.n, row.note) == ("a", 1, None)
        [row] = hf.keyed(df, key="k", value="v").par_do(Count(), output=Named).collect()
        assert (row.k, row.n) == ("a", 1)

    @pytest.mark.parametrize(
        ("fn", "says"),
        [
            pytest.param(WrongWidth(), "it has 1 values, but the schema has 2 columns", marks=pytest.mark.night),
            (WrongType(), "the column 'n' is int, but 'many' (a str) does not fit: it takes whole numbers"),
        ],
    )
    def test_an_output_that_does_not_fit(self, feed, run_job, fn, says):
        source = feed(EVENTS)
        source.add(event("a", 1, 0))
        with pytest.raises(hf.OutputError) as caught:
            run_job(hf.keyed(source.df, key="k", value="v").par_do(fn, output="k string, n int"))
        assert says in str(caught.value)
        assert caught.value.context["step"] == type(fn).__name__


class TestTime:
    @pytest.mark.night
    def test_an_aggregation_with_dead_letters_tells_late_elements_apart(self, feed, run_job):
        rows = feed("k string, v int, at timestamp")
        for second in (0, 100, 200, 5):
            rows.add({"k": "a", "v": second, "at": at(second)})
        keyed = hf.keyed(rows.df, key="k", timestamp="at", watermark="0 seconds").window_into(hf.FixedWindows(10))
        sums = keyed.combine_per_key(
            {"total": hf.Sum("v")},
            outputs={"late": None, "dead_letter": None},
            on_error="dead_letter",
            key_groups=1,
        )
        main, late, letters = run_job(sums.main.select("total"), sums.late, sums.dead_letter)
        assert [row.total for row in main] == [0, 100]
        assert [(row.k, row.v) for row in late] == [("a", 5)]
        assert letters == []

    def test_windows_end_with_the_watermark_and_late_elements_come_apart(self, feed, run_job):
        source = feed(EVENTS)
        source.add(event("a", 1, 0), event("a", 2, 5), event("b", 10, 1))
        source.add(event("a", 4, 25))
        source.add(event("a", 100, 2), event("c", 7, 30))
        totals = (
            hf.keyed(source.df, key="k", value="v", timestamp="at", watermark="5 seconds")
            .window_into(hf.FixedWindows(10))
            .par_do(Totals(), output="k string, total int, start timestamp", outputs={"late": None})
        )
        done, late = run_job(totals.main, totals.late)
        assert pairs((row.k, row.total) for row in done) == [("a", 3), ("b", 10)]
        assert pairs(late) == [("a", 100)]

    @pytest.mark.night
    def test_timers_of_both_domains_in_one_function(self, feed, run_job):
        source = feed(EVENTS)
        source.add(event("a", 1, 0))
        source.add(event("b", 1, 100))
        source.add(event("c", 1, 200))
        stream = hf.keyed(source.df, key="k", value="v", timestamp="at", watermark="0 seconds")
        [rows] = run_job(stream.par_do(Reminder(), output="k string, what string"))
        assert ("a", "soon") in pairs(rows)
        assert ("a", "later") in pairs(rows)

    @pytest.mark.night
    def test_steps_chain(self, feed, run_job):
        source = feed(EVENTS)
        source.add(event("a", 1, 0), event("b", 2, 5), event("a", 3, 12))
        source.add(event("a", 5, 40))
        source.add(event("a", 1, 80))
        totals = (
            hf.keyed(source.df, key="k", value="v", timestamp="at", watermark="0 seconds")
            .window_into(hf.FixedWindows(10))
            .par_do(Totals(), output="k string, total int, start timestamp")
        )
        counts = hf.keyed(totals, key="k", value="total", timestamp="start").par_do(Count(), output="k string, n int")
        [rows] = run_job(counts)
        assert pairs(rows) == [("a", 1), ("a", 2), ("a", 3), ("b", 1)]

    def test_two_steps_of_one_name_are_refused(self, feed):
        source = feed("k string, v int")
        first = hf.keyed(source.df, key="k", value="v").par_do(Count(), output="k string, v int")
        with pytest.raises(hf.InvalidStep, match="another name"):
            hf.keyed(first, key="k", value="v").par_do(Count(), output="k string, v int")

    def test_bounded_input_ends(self, spark):
        df = spark.createDataFrame([("a", 1, at(0)), ("a", 2, at(5)), ("b", 3, at(11))], EVENTS)
        stream = hf.keyed(df, key="k", value="v", timestamp="at").window_into(hf.FixedWindows(10))
        rows = stream.par_do(Totals(), output="k string, total int, start timestamp").collect()
        assert pairs((row.k, row.total) for row in rows) == [("a", 3), ("b", 3)]


class TestFailures:
    def test_a_functions_own_error_comes_first(self, feed, run_job, tmp_path):
        source = feed("k string, v string")
        source.add({"k": "a", "v": "good"})
        source.add({"k": "a", "v": "bad"})
        counts = hf.keyed(source.df, key="k", value="v").par_do(Fragile(), output="k string, n int")
        with pytest.raises(hf.UserCodeError) as caught:
            run_job(counts)
        error = caught.value
        assert "RuntimeError: cannot take this one" in error.what
        assert error.context["step"] == "Fragile"
        assert error.context["key"] == "a"
        assert error.context["micro_batch"] == 1
        assert error.detail.startswith("Traceback")
        assert "functions.py" in error.detail.splitlines()[1]

    def test_dead_letters(self, feed, run_job):
        source = feed("k string, v string")
        source.add({"k": "a", "v": "good"}, {"k": "a", "v": "bad"}, {"k": None, "v": "good"}, {"k": "a", "v": "good"})
        stream = hf.keyed(source.df, key="k", value="v")
        diverted = {"dead_letter": None}
        outputs = stream.par_do(Fragile(), output="k string, n int", outputs=diverted, on_error="dead_letter")
        good, dead = run_job(outputs.main, outputs.dead_letter)
        assert pairs(good) == [("a", 1), ("a", 2)]
        assert sorted((row.k or "", row.v, row.error.split(":")[0]) for row in dead) == [
            ("", "good", "InputError"),
            ("a", "bad", "RuntimeError"),
        ]

    @pytest.mark.night
    def test_a_null_key_is_an_error(self, feed, run_job):
        source = feed(EVENTS)
        source.add(event(None, 1, 0))
        with pytest.raises(hf.InputError, match="no key"):
            run_job(hf.keyed(source.df, key="k", value="v").par_do(Count(), output="k string, n int"))

    def test_what_cannot_be_built(self, spark):
        df = spark.createDataFrame([("a", 1)], "k string, v int")
        with pytest.raises(hf.InvalidStep, match="There is no column 'x' for the key"):
            hf.keyed(df, key="x")
        with pytest.raises(hf.InvalidStep, match="no timestamp"):
            hf.keyed(df, key="k", value="v").window_into(hf.FixedWindows(10)).par_do(Totals(), output="k string")
        with pytest.raises(hf.InvalidStep, match="cannot be read"):
            hf.keyed(df, key="k", value="v").par_do(Count(), output="k sting")


class TestManifest:
    @pytest.mark.parametrize("through", ["job", pytest.param("spark", marks=pytest.mark.night)])
    @pytest.mark.parametrize(
        ("change", "says"),
        [
            ({"fn": CountFloats()}, "coder of the cell 'count' was varint"),
            ({"key_groups": 5}, "key_groups was 4 and is 5"),
            ({"key": "j"}, "the key was k string and is j string"),
        ],
        ids=["coder", "key_groups", "key"],
    )
    def test_a_changed_step_is_refused(self, feed, run_job, tmp_path, change, says, through):
        source = feed("k string, j string, v int")
        source.add({"k": "a", "j": "x", "v": 1})
        options = {"fn": Count(), "key_groups": 4, "key": "k"}
        self._run(source, run_job, tmp_path, through, **options)
        source.add({"k": "a", "j": "x", "v": 1})
        expected = hf.StateConflict if through == "job" else StreamingQueryException
        with pytest.raises(expected, match=says) as caught:
            self._run(source, run_job, tmp_path, through, **(options | change))
        assert "StateConflict" in str(caught.value) or through == "job"

    def _run(self, source, run_job, tmp_path, through, fn, key_groups, key):
        frame = hf.keyed(source.df, key=key, value="v").par_do(
            fn, output="k string, n int", key_groups=key_groups, name="Count"
        )
        if through == "job":
            run_job(frame)
            return
        query = (
            frame.writeStream.format("noop")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()


class TestSideInputs:
    @pytest.mark.night
    def test_of_a_dataframe(self, spark, feed, run_job):
        prices = spark.createDataFrame([(1, 0.5), (2, 2.5)], "item int, price double")
        source = feed(EVENTS)
        source.add(event("a", 1, 0), event("b", 2, 0), event("c", 3, 0))
        priced = hf.keyed(source.df, key="k", value="v").par_do(
            Priced(), output="k string, price double", side_inputs={"prices": hf.AsDict(prices)}
        )
        [rows] = run_job(priced)
        assert pairs(rows) == [("a", 0.5), ("b", 2.5), ("c", -1.0)]

    def test_refreshed_between_micro_batches(self, spark, feed, tmp_path):
        folder = str(tmp_path / "prices")
        spark.createDataFrame([(1, 0.5)], "item int, price double").write.parquet(folder)
        prices = hf.AsDict(lambda: spark.read.schema("item int, price double").parquet(folder), refresh=0)
        source = feed(EVENTS)
        priced = hf.keyed(source.df, key="k", value="v").par_do(
            Priced(), output="k string, price double", side_inputs={"prices": prices}
        )
        sink = hf.sinks.Collect()
        with hf.Job("priced", checkpoint=str(tmp_path / "checkpoint"), progress=False) as job:
            job.write(priced, sink).start()
            source.add(event("a", 1, 0))
            job.query.processAllAvailable()
            spark.createDataFrame([(1, 9.5)], "item int, price double").write.mode("overwrite").parquet(folder)
            for second in range(1, 20):
                source.add(event("a", 1, second))
                job.query.processAllAvailable()
                if sink.rows[-1].price == 9.5:
                    break
        assert sink.rows[0].price == 0.5
        assert sink.rows[-1].price == 9.5


class TestTheShortWay:
    def test_a_running_count(self, feed, run_job):
        source = feed(EVENTS)
        source.add(event("a", 1, 0), event("b", 5, 0), event("a", 2, 0))

        def counts():
            stream = hf.keyed(source.df, key="k", value="v")
            return stream.map_with_state(lambda n, value: ((n or 0) + 1, (n or 0) + 1), output="count long", key_groups=2)

        assert sorted(map(tuple, run_job(counts())[0])) == [("a", 1), ("a", 2), ("b", 1)]
        source.add(event("a", 3, 0))
        assert [row.asDict() for row in run_job(counts())[0]] == [{"k": "a", "count": 3}]

    def test_rows_of_several_columns_and_of_every_shape(self, spark):
        df = spark.createDataFrame(
            [("a", 1, "dict"), ("b", 2, "tuple"), ("c", 3, "nothing")], "k string, v long, how string"
        )

        def shaped(state, value):
            rows = {"dict": {"n": value.v, "how": "dict"}, "tuple": (value.v, "tuple"), "nothing": None}
            return value.v, rows[value.how]

        made = hf.keyed(df, key="k").map_with_state(shaped, output="n long, how string")
        assert sorted(map(tuple, made.collect())) == [("a", 1, "dict"), ("b", 2, "tuple")]

    def test_a_row_that_does_not_fit_says_so(self, spark):
        df = spark.createDataFrame([("a", 1)], "k string, v long")
        stream = hf.keyed(df, key="k", value="v")
        with pytest.raises(Exception, match=r"gave the row .'m': 1., which does not fit the columns n, how: it has m"):
            stream.map_with_state(lambda state, value: (1, {"m": 1}), output="n long, how string").collect()
        with pytest.raises(hf.InvalidStep, match="key columns are added automatically"):
            stream.map_with_state(lambda state, value: (1, (1, 2)), output="k string, n long")
        with pytest.raises(hf.InvalidStep, match="There is no option 'keygroups'; did you mean 'key_groups'"):
            stream.map_with_state(lambda state, value: (1, 2), output="n long", keygroups=3)
