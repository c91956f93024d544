"""Plain functions on Spark: where their rows are, without key groups, before, after and between the steps of a job."""

from __future__ import annotations

import pytest
from pyspark.sql import functions as F

import holdfast as hf
from holdfast.spark.steps.lineage import steps_above

ROWS = [("ab"[i % 2], i) for i in range(8)]
OUTPUT = "k string, v int"
TIMED = "k string, v int, at timestamp"


class Total(hf.DoFn):
    SUM = hf.CombiningStateSpec("sum", sum)

    def process(self, element, total=hf.DoFn.StateParam(SUM)):
        key, value = element
        total.add(value)
        yield key, total.read()


def plus(element, more):
    return element[0], element[1] + more[element[0]]


def odd(element):
    return element[1] % 2 == 1


def inverse(element):
    return element[0], 12 // (element[1] - 3)


def plain(rows):
    return sorted(map(tuple, rows))


@pytest.fixture
def rows(feed):
    made = feed(TIMED)
    for begin in (0, 4):
        made.add(*({"k": k, "v": v, "at": None} for k, v in ROWS[begin : begin + 4]))
    return made


def keyed(df, **options):
    return hf.keyed(df, key="k", value="v", **options)


def test_before_after_and_beside_the_steps_of_a_job(spark, rows, run_job):
    more = hf.AsDict(spark.createDataFrame([("a", 10), ("b", 20)], OUTPUT))
    raised = keyed(rows.df).par_do(hf.Map(plus, more), output=OUTPUT)
    assert steps_above(raised) == []
    sums = keyed(raised).par_do(Total(), output=OUTPUT, name="sums", key_groups=2)
    between = keyed(sums).par_do(hf.FlatMap(lambda e: [e, e]), output=OUTPUT, name="twice", key_groups=2)
    again = keyed(between).par_do(Total(), output=OUTPUT, name="again", key_groups=2)
    kept = keyed(sums).par_do(hf.Filter(odd))
    assert [step.plan.name for step in steps_above(kept)] == ["sums"]
    found = [plain(rows) for rows in run_job(raised, sums, kept, again)]
    wanted = [(k, v + {"a": 10, "b": 20}[k]) for k, v in ROWS]
    added, twice = [], []
    for key in "ab":
        total = everything = 0
        for value in (v for k, v in wanted if k == key):
            total += value
            added.append((key, total))
            twice += [(key, everything + total), (key, everything + 2 * total)]
            everything += 2 * total
    assert found == [sorted(wanted), sorted(added), sorted(row for row in added if row[1] % 2), sorted(twice)]


@pytest.mark.night
def test_in_a_batch_with_times_and_with_dead_letters(spark, run_job, rows):
    at = F.timestamp_seconds(F.col("v") + F.lit(60))
    batch = spark.createDataFrame(ROWS, OUTPUT).withColumn("at", at)
    timed = hf.keyed(batch, key="k", timestamp="at").window_into(hf.FixedWindows(4))
    passed = timed.par_do(hf.Filter(lambda e, end=hf.DoFn.WindowParam: e[1].v % 2 and float(end.end) > 64))
    assert passed.columns == ["k", "at", "v"]
    assert plain(passed.select("v", F.unix_seconds("at")).collect()) == [(5, 65), (7, 67)]
    split = keyed(rows.df).par_do(
        hf.Map(inverse), output=OUTPUT, name="inverse", on_error="dead_letter", outputs={"dead_letter": None}, key_groups=2
    )
    found, letters = run_job(split.main, split.dead_letter.select("k", "v", "error"))
    assert plain(found) == sorted(inverse((k, v)) for k, v in ROWS if v != 3)
    assert plain(letters) == [("b", 3, "ZeroDivisionError: integer division or modulo by zero")]


def test_what_fails_and_what_is_refused(rows, run_job):
    with pytest.raises(hf.UserCodeError, match="step 'inverse' raised ZeroDivisionError") as raised:
        run_job(keyed(rows.df).par_do(hf.Map(inverse), output=OUTPUT))
    assert raised.value.context["key"] == "b"
    first = keyed(rows.df).par_do(Total(), output=OUTPUT, name="first", key_groups=2)
    between = keyed(first).par_do(hf.Map(lambda e: e), output=OUTPUT)
    second = keyed(between).par_do(Total(), output=OUTPUT, name="second", key_groups=2)
    with pytest.raises(hf.InvalidStep, match=r"there is a plain function; with key_groups=32 it is a step"):
        run_job(first, second, name="other", checkpoint="other")
    with pytest.raises(hf.InvalidStep, match="No schema of the main output"):
        keyed(rows.df).par_do(hf.Map(inverse))
    with pytest.raises(hf.InvalidStep, match=r"hf\.Filter gives the columns of the stream"):
        keyed(rows.df).par_do(hf.Filter(odd), output=OUTPUT)
