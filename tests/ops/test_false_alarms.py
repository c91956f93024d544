"""Healthy checkpoints in unusual shapes: jobs start again on them, and no tool calls them damaged."""

from __future__ import annotations

import datetime
import decimal
import shutil

import pytest

import holdfast as hf
from holdfast import ops
from holdfast.ops.reading.blobs import StepRef
from holdfast.ops.reading.keys import find_key, key_text
from holdfast.ops.upkeep.verify import checkpoint_verify
from holdfast.testing.spark_runtime import scripted_session


class Count(hf.DoFn):
    COUNT = hf.ValueStateSpec("count", hf.VarIntCoder())

    def process(self, element, count=hf.DoFn.StateParam(COUNT)):
        count.write((count.read() or 0) + 1)
        yield element[0], count.read()


@pytest.fixture(scope="module")
def spark():
    return scripted_session()


@pytest.fixture
def source(spark, tmp_path):
    def add(number):
        spark.createDataFrame([("a", number), ("b", number)], "k string, v int").coalesce(1).write.mode("append").parquet(
            str(tmp_path / "input")
        )

    add(0)
    stream = spark.readStream.schema("k string, v int").parquet(str(tmp_path / "input"))
    stream.add = add
    return stream


def count(frame, name="count"):
    return hf.keyed(frame, key="k", value="v").par_do(Count(), output="k string, n int", name=name, key_groups=4)


def run(frame, tmp_path, **options):
    sink = hf.sinks.Collect()
    job = hf.Job("shapes", checkpoint=str(tmp_path / "checkpoint"), trigger="available now", progress=False, **options)
    job.write(frame, sink).run()
    return sorted(tuple(row) for row in sink.rows)


@pytest.mark.night
def test_a_step_over_a_batch_has_no_state(spark, source, tmp_path):
    static = count(spark.createDataFrame([("a", 1)], "k string, v int"), "static").withColumnRenamed("n", "m")
    joined = count(source).join(static, "k")
    assert run(joined, tmp_path) == [("a", 1, 1)]
    source.add(1)
    assert run(joined, tmp_path) == [("a", 2, 1)]
    assert checkpoint_verify(spark, str(tmp_path / "checkpoint")).is_whole


@pytest.mark.night
def test_a_source_that_is_read_twice_has_one_log(spark, source, tmp_path):
    both = source.where("k = 'a'").unionByName(source.where("k = 'b'"))
    assert run(count(both), tmp_path) == [("a", 1), ("b", 1)]
    found = checkpoint_verify(spark, str(tmp_path / "checkpoint"), deep=True)
    assert found.is_whole, found.problems
    ops.savepoint_create(spark, str(tmp_path / "checkpoint"), str(tmp_path / "savepoint"))
    source.add(1)
    assert run(count(both), tmp_path) == [("a", 2), ("b", 2)]


def test_a_second_source_whose_log_is_gone_is_missed(spark, source, tmp_path):
    other = tmp_path / "other"
    for number in range(2):
        spark.createDataFrame([("c", number)], "k string, v int").coalesce(1).write.mode("append").parquet(str(other))
    second = spark.readStream.schema("k string, v int").option("maxFilesPerTrigger", 1).parquet(str(other))
    run(count(source.unionByName(second)), tmp_path)
    assert checkpoint_verify(None, str(tmp_path / "checkpoint"), files_only=True).is_whole
    shutil.rmtree(tmp_path / "checkpoint" / "sources" / "1")
    found = checkpoint_verify(None, str(tmp_path / "checkpoint"), files_only=True)
    assert [problem.path for problem in found.problems] == [str(tmp_path / "checkpoint" / "sources" / "1")]


@pytest.mark.night
def test_a_step_whose_output_is_used_twice_runs_once(source, tmp_path):
    counted = count(source)
    halves = counted.where("n = 1").unionByName(counted.where("n > 1"))
    more = hf.keyed(halves, key="k", value="n").par_do(Count(), output="k string, n int", name="more")
    assert run(more, tmp_path) == [("a", 1), ("b", 1)]


@pytest.mark.night
def test_a_step_more_is_no_lost_state(source, tmp_path):
    run(count(source), tmp_path)
    more = hf.keyed(count(source), key="k", value="n").par_do(Count(), output="k string, n int", name="more")
    source.add(1)
    assert run(more, tmp_path) == [("a", 1), ("b", 1)]


@pytest.mark.night
def test_another_format_of_state_files_is_not_used(spark, source, tmp_path):
    option = "spark.sql.streaming.stateStore.checkpointFormatVersion"
    spark.conf.set(option, "2")
    try:
        run(count(source), tmp_path)
        source.add(1)
        assert run(count(source), tmp_path) == [("a", 2), ("b", 2)]
        assert spark.conf.get(option) == "2"
    finally:
        spark.conf.unset(option)
    assert checkpoint_verify(spark, str(tmp_path / "checkpoint")).is_whole


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        ("date", datetime.date(1970, 1, 2)),
        ("decimal(10,5)", decimal.Decimal("3.00000")),
        ("double", float("inf")),
        ("binary", b"\x00\xff"),
        ("bigint", 5),
        ("string", "a"),
    ],
)
def test_a_key_is_found_as_it_is_shown(spark, kind, key):
    step = StepRef("step", 0, {"key": [{"name": "k", "type": kind}], "key_groups": 4})
    from holdfast.engine.state.keys import slot_of

    text = key_text(slot_of(key))
    assert key_text(find_key(spark, step, text).slot) == text


def test_a_key_that_is_none_is_told(spark):
    step = StepRef("step", 0, {"key": [{"name": "k", "type": "binary"}], "key_groups": 4})
    with pytest.raises(hf.InputError, match="is not a key"):
        find_key(spark, step, "abcde")
