"""A `StateReader` on keys whose text cannot always be read back, and on a step whose windows are spread."""

from __future__ import annotations

import pytest

import holdfast as hf
from holdfast.errors import NeedsSpark
from holdfast.ops import StateReader

NUMBERS = [1.5, float("inf"), float("nan"), -0.0, -1e300]


class Count(hf.DoFn):
    COUNT = hf.ValueStateSpec("count", hf.VarIntCoder())

    def process(self, element, count=hf.DoFn.StateParam(COUNT)):
        count.write((count.read() or 0) + 1)
        yield (count.read(),)


@pytest.fixture(scope="module")
def reader(spark, tmp_path_factory):
    """After micro-batch 0 each key has one element in each of two windows; micro-batch 1 changed the first key."""
    folder = tmp_path_factory.mktemp("reader")
    columns = "number double, place struct<x:int,y:string>, at timestamp"

    def run(numbers):
        rows = spark.createDataFrame([(n, i, at) for i, n in numbers for at in (5, 65)], "n double, i int, at long")
        rows = rows.selectExpr("n number", "named_struct('x', i, 'y', 'p') place", "timestamp_seconds(at) at")
        rows.coalesce(1).write.mode("append").parquet(str(folder / "input"))
        stream = spark.readStream.schema(columns).parquet(str(folder / "input"))
        job = hf.Job("keys", checkpoint=str(folder / "checkpoint"), trigger="available now", progress=False)
        for name, key in (("numbers", "number"), ("places", "place")):
            step = hf.keyed(stream, key=key, value="at").par_do(Count(), output="n int", name=name, key_groups=2)
            job.write(step, hf.sinks.Collect())
        spread = hf.keyed(stream, key="number", value="at", timestamp="at", watermark="1 hour")
        spread = spread.window_into(hf.FixedWindows(60))
        spread = spread.par_do(Count(), output="n int", name="spread", key_groups=8, parallel_over="key+window")
        job.write(spread, hf.sinks.Collect()).run()

    run(list(enumerate(NUMBERS)))
    run([(0, NUMBERS[0])])
    return StateReader(str(folder / "checkpoint"))


def compared(reader, step, **options):
    return reader.page(step, batch=1, compare=0, **options).keys


@pytest.mark.parametrize("step", ["numbers", "places"])
def test_keys_are_compared_whatever_their_text(reader, step):
    keys = compared(reader, step)
    assert len(keys) == len(NUMBERS)
    assert sorted((key.cells[0].text, key.before[0].text) for key in keys) == [*[("2", "2")] * 4, ("4", "2")]


@pytest.mark.parametrize("step", ["numbers", "places"])
def test_a_key_is_found_as_it_is_shown(reader, step):
    for key in reader.page(step, batch=1).keys:
        assert reader.key(step, key.key) == key.cells
        assert reader.history(step, key.key)[-1].new == key.cells[0].text


def test_what_is_not_shown_is_left_to_spark(reader):
    with pytest.raises(NeedsSpark):
        reader.key("places", "anything")


def test_windows_in_other_key_groups_are_not_missed(reader):
    """Each key group of a spread step is compared with itself alone."""
    keys = compared(reader, "spread")
    assert len({key.label for key in keys if key.key == "1.5"}) == 2
    for key in keys:
        assert [cell.window for cell in key.cells] == [cell.window for cell in key.before]


@pytest.mark.night
def test_a_step_that_was_not_there_before(reader, spark, tmp_path_factory):
    """All that it has is new."""
    stream_folder = reader.checkpoint.replace("/checkpoint", "/input")
    stream = spark.readStream.schema("number double, at timestamp").parquet(stream_folder)
    checkpoint = str(tmp_path_factory.mktemp("later") / "checkpoint")

    def run(*names):
        job = hf.Job("more", checkpoint=checkpoint, trigger="available now", progress=False)
        for name in names:
            step = hf.keyed(stream, key="number", value="at").par_do(Count(), output="n int", name=name, key_groups=2)
            job.write(step, hf.sinks.Collect())
        job.run()

    run("first")
    added = spark.createDataFrame([(1.5,)], "number double").selectExpr("number", "timestamp_seconds(1) at")
    added.write.mode("append").parquet(stream_folder)
    run("first", "second")
    later = StateReader(checkpoint)
    first, last = later.batches()[0], later.batches()[-1]
    assert all(key.before for key in later.page("first", batch=last, compare=first).keys if key.key == "1.5")
    assert [key.before for key in later.page("second", batch=last, compare=first).keys] == [[]]
