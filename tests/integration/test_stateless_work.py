"""Ordinary DataFrame work between a step and its sinks: each sink has its own, the step runs once."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pandas as pd
import pytest
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

import holdfast as hf

OUTPUT = "k string, n int"


class Split(hf.DoFn):
    """Counts; every second element of a key is also told apart."""

    SEEN = hf.ValueStateSpec("seen", hf.VarIntCoder())

    def process(self, element, seen=hf.DoFn.StateParam(SEEN)):
        key, value = element
        number = (seen.read() or 0) + 1
        seen.write(number)
        yield key, value, number
        if number % 2 == 0:
            yield hf.TaggedOutput("even", (key, number))


@pytest.fixture
def rows(feed):
    made = feed("k string, v int")
    made.add(*({"k": "abc"[i % 3], "v": i} for i in range(6)))
    made.add(*({"k": "ab"[i % 2], "v": i} for i in range(6, 10)))
    return made


# The elements in their order, with the number that each has among those of its key.
WANTED = [("a", 0, 1), ("b", 1, 1), ("c", 2, 1), ("a", 3, 2), ("b", 4, 2), ("c", 5, 2)]
WANTED += [("a", 6, 3), ("b", 7, 3), ("a", 8, 4), ("b", 9, 4)]
EVEN = [(k, n) for k, _, n in WANTED if n % 2 == 0]


@pytest.fixture
def split(rows):
    return hf.keyed(rows.df, key="k", value="v").par_do(
        Split(), output="k string, v int, n int", outputs={"even": "k string, n int"}, key_groups=2
    )


def plain_sink(rows, batch_id):
    rows.collect()


def plain(rows):
    return sorted(tuple(row) for row in rows)


@pytest.mark.night
def test_each_sink_has_work_of_its_own(spark, split, run_job):
    names = spark.createDataFrame([("a", "ada"), ("b", "bob")], "k string, name string")
    main = split.main
    outputs = [
        main.where(main.n > 1).select("v", (F.col("n") * 10).alias("tens")),
        main.join(names, "k").withColumn("part", F.explode(F.array(F.lit(1), F.lit(2)))).drop("v"),
        main.join(names, "k", "left_anti"),
        split.even,
        split.even.withColumnRenamed("n", "number"),
    ]
    high, named, unnamed, even, renamed = map(plain, run_job(*outputs))
    assert high == sorted((v, 10 * n) for _, v, n in WANTED if n > 1)
    wanted = [(k, n, {"a": "ada", "b": "bob"}[k], part) for k, _, n in WANTED if k != "c" for part in (1, 2)]
    assert named == sorted(wanted)
    assert unnamed == sorted((k, v, n) for k, v, n in WANTED if k == "c")
    assert even == renamed == sorted(EVEN)


@pytest.mark.night
def test_outputs_of_a_step_are_put_together(split, run_job):
    both = split.main.select("k", "n").union(split.even)
    [found, again] = run_job(both, both.where("k = 'a'"))
    assert plain(found) == sorted([(k, n) for k, _, n in WANTED] + EVEN)
    assert plain(again) == [row for row in plain(found) if row[0] == "a"]


@pytest.mark.night
def test_an_output_that_is_used_twice_runs_once(split, tmp_path):
    main, sink = split.main, hf.sinks.Collect()
    job = hf.Job("twice", checkpoint=str(tmp_path / "checkpoint"), trigger="available now", progress=False)
    job.write(main.where("n = 1").unionByName(main.where("n > 1")), sink).run()
    assert plain(sink.rows) == sorted(WANTED)
    assert job.metrics["Split"].elements == len(WANTED)


@pytest.mark.night
def test_functions_and_sql(spark, split, run_job):
    split.main.createOrReplaceTempView("counted")
    doubled = F.udf(lambda v: v * 2, "int")

    def kept(batches):
        for batch in batches:
            yield batch.slice(0, batch.num_rows)

    outputs = [
        spark.sql("SELECT k, sum_of.x FROM counted LATERAL VIEW explode(array(v, n)) sum_of AS x WHERE n < 2"),
        split.main.select("k", doubled("v").alias("twice")),
        split.main.mapInArrow(kept, "k string, v int, n int").alias("other").where("other.n = 1"),
    ]
    by_sql, twice, mapped = map(plain, run_job(*outputs))
    assert by_sql == sorted((k, x) for k, v, n in WANTED if n < 2 for x in (v, n))
    assert twice == sorted((k, 2 * v) for k, v, _ in WANTED)
    assert mapped == sorted(row for row in WANTED if row[2] == 1)


def test_the_step_runs_once(split, tmp_path):
    job = hf.Job("once", checkpoint=str(tmp_path / "checkpoint"), trigger="available now", progress=False)
    for frame in (split.main, split.main.where("n > 1"), split.even.union(split.even)):
        job.write(frame, hf.sinks.Collect())
    job.run()
    assert job.metrics["Split"].elements == len(WANTED)


@pytest.mark.night
def test_what_is_shown(split, tmp_path):
    assert repr(split) == "Outputs(main: k string, v int, n int; even: k string, n int)"
    assert "<td>even</td><td>k string, n int</td>" in split._repr_html_()
    job = hf.Job("shown", checkpoint=str(tmp_path / "checkpoint"), trigger="available now", progress=False)
    assert repr(job) == f"Job('shown', checkpoint='{tmp_path}/checkpoint': new, writes nothing yet)"
    job.write(split.main, hf.sinks.Collect()).write(split.even, hf.sinks.ForeachBatch(plain_sink)).run()
    assert repr(job).endswith("ended, writes Collect(10 rows), ForeachBatch(plain_sink))")


@pytest.mark.night
def test_a_job_resumes(rows, split, run_job):
    run_job(split.main, split.even.where("n > 2"))
    rows.add({"k": "a", "v": 100})
    main, even = run_job(split.main, split.even.where("n > 2"))
    assert (plain(main), plain(even)) == ([("a", 100, 5)], [])


class Failing(hf.sinks.Sink):
    """Fails with its first micro-batch, after the sinks before it have written theirs."""

    evaluates_all = True

    def __init__(self):
        self.tries = 0

    def write_batch(self, rows, info):
        self.tries += 1
        if self.tries == 1:
            raise RuntimeError("no room")
        rows.collect()


def test_a_failure_between_two_sinks(spark, split, tmp_path):
    """The sinks before it are given the micro-batch again, and change nothing."""
    failing = Failing()
    job = hf.Job(
        "between", checkpoint=str(tmp_path / "checkpoint"), trigger="available now", progress=False, tolerated_failures=1
    )
    job.write(split.main.where("n > 1").select("k", "n"), hf.sinks.Parquet(str(tmp_path / "high")))
    job.write(split.even.withColumn("tens", F.col("n") * 10), hf.sinks.Sqlite(str(tmp_path / "even.sqlite"), "even"))
    job.write(split.main, failing)
    job.write(split.main.select("v"), after := hf.sinks.Collect())
    job.run()
    assert failing.tries == 3
    assert plain(spark.read.parquet(str(tmp_path / "high")).select("k", "n").collect()) == sorted(
        (k, n) for k, _, n in WANTED if n > 1
    )
    with closing(sqlite3.connect(tmp_path / "even.sqlite")) as database:
        assert sorted(database.execute("SELECT k, n, tens FROM even")) == sorted((k, n, 10 * n) for k, n in EVEN)
    assert plain(after.rows) == [(v,) for _, v, _ in WANTED]


@pytest.mark.parametrize(
    ("work", "named"),
    [
        (lambda main: main.groupBy("k").count(), "Aggregate, which does not treat each row by itself"),
        (lambda main: main.dropDuplicates(["k"]), "Deduplicate, which does not treat each row by itself"),
        (lambda main: main.limit(1), "GlobalLimit, which does not treat each row by itself"),
        (lambda main: main.withColumn("id", F.expr("uuid()")), r"uuid\(\), whose values would come again"),
        (lambda main: main.where(F.rand() < 0.5), r"rand\(\), whose values would come again"),
        (lambda main: main.distinct(), "Deduplicate, which does not"),
        (lambda main: main.observe("seen", F.count(F.lit(1))), "CollectMetrics, which does not"),
        (lambda main: main.union(main.sparkSession.createDataFrame([("z", 0, 0)], main.schema)), "a union with a batch"),
        (lambda main: main.alias("l").join(main.alias("r"), F.col("l.v") == F.col("r.v")), "a join of two streams"),
    ],
    ids=["aggregate", "deduplicate", "limit", "uuid", "rand", "distinct", "observe", "union", "join"],
)
def test_work_with_state_of_its_own_is_refused(split, run_job, work, named):
    """It would see one micro-batch only, and give something else than it says."""
    with pytest.raises(hf.InvalidStep, match=named):
        run_job(work(split.main), split.even)


@pytest.mark.night
def test_a_subquery_over_a_table(spark, split, run_job):
    spark.createDataFrame([("a",), ("c",)], "k string").createOrReplaceTempView("chosen")
    split.main.createOrReplaceTempView("told")
    found, _ = run_job(spark.sql("SELECT k, n FROM told WHERE k IN (SELECT k FROM chosen)"), split.even)
    assert plain(found) == sorted((k, n) for k, _, n in WANTED if k in "ac")


def test_a_part_of_a_query_that_has_a_name(spark, split, run_job):
    split.main.createOrReplaceTempView("told")
    named = spark.sql("WITH high AS (SELECT k, n FROM told WHERE n > 1) SELECT * FROM high")
    with pytest.raises(hf.InvalidStep, match="can be a temporary view instead"):
        run_job(named, split.even)


class Total(StatefulProcessor):
    """Spark's own way to count."""

    def init(self, handle):
        self.seen = handle.getValueState("seen", "n int")

    def handleInputRows(self, key, rows, timerValues):
        count = (self.seen.get()[0] if self.seen.exists() else 0) + sum(len(part) for part in rows)
        self.seen.update((count,))
        yield pd.DataFrame({"k": [key[0]], "t": [count]})

    def close(self):
        pass


@pytest.mark.night
def test_a_stateful_operator_of_sparks_own_is_no_step(split, run_job):
    totals = split.main.groupBy("k").transformWithStateInPandas(Total(), "k string, t int", "Append", "None")
    with pytest.raises(hf.InvalidStep, match="TransformWithStateInPySpark, which does not"):
        run_job(totals, split.even)
    [found] = run_job(totals.where("t > 0").where("t > 1").select("k", "t"), checkpoint="alone")
    assert plain(found) == [("a", 2), ("a", 4), ("b", 2), ("b", 4), ("c", 2)]


@pytest.mark.night
def test_the_length_of_plans_as_text_does_not_matter(spark, split, run_job):
    option = "spark.sql.maxPlanStringLength"
    spark.conf.set(option, "100")
    try:
        main, _ = run_job(split.main.where("n > 0"), split.even)
    finally:
        spark.conf.unset(option)
    assert plain(main) == sorted(WANTED)


def test_all_outputs_together_are_refused(split, run_job):
    with pytest.raises(hf.InvalidStep, match=r"give one of main, even, such as outputs\.main"):
        run_job(split)


def test_an_outer_join_on_the_other_side_is_refused(spark, split, run_job):
    names = spark.createDataFrame([("a", "ada"), ("z", "zoe")], "k string, name string")
    with pytest.raises(hf.InvalidStep, match="a RightOuter join, whose rows depend on the whole stream"):
        run_job(split.main.join(names, "k", "right"), split.even)
