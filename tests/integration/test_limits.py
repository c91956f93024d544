"""Limits of a step on Spark."""

from __future__ import annotations

from typing import Any

import pytest

import holdfast as hf
from integration.functions import Remember

ROWS = "k string, v string"


def remembered(source, limits, backend="heap"):
    stream = hf.keyed(source.df, key="k", value="v")
    outputs = {"over_limit": None} if limits.diverts else None
    return stream.par_do(Remember(), output="k string, n int", outputs=outputs, limits=limits, backend=backend, key_groups=1)


@pytest.mark.parametrize("backend", ["heap", pytest.param("disk", marks=pytest.mark.night)])
def test_a_job_that_fails_keeps_its_state_and_goes_on_with_another_policy(feed, run_job, backend):
    source = feed(ROWS)
    source.add({"k": "small", "v": "x"}, {"k": "large", "v": "y" * 500})
    fails = hf.Limits(max_bytes=1_000)
    assert sorted(map(tuple, run_job(remembered(source, fails, backend))[0])) == [("large", 1), ("small", 1)]
    source.add({"k": "large", "v": "y" * 600}, {"k": "small", "v": "x"})
    with pytest.raises(hf.LimitExceeded) as caught:
        run_job(remembered(source, fails, backend))
    said = str(caught.value)
    assert "The step 'Remember' is over its limit: max_bytes is 1,000." in said
    assert "The heaviest keys, by bytes: 'large' with 1,116, 'small' with 18." in said
    # The failed micro-batch is done again, from the state that it found. Both keys were used in it: their order decides.
    source.add({"k": "small", "v": "x"})
    evicts = hf.Limits(max_bytes=1_000, policy="evict_lru")
    assert sorted(map(tuple, run_job(remembered(source, evicts, backend))[0])) == [("large", 2), ("small", 2), ("small", 3)]
    source.add({"k": "large", "v": "y"}, {"k": "small", "v": "x"})
    assert sorted(map(tuple, run_job(remembered(source, evicts, backend))[0])) == [("large", 1), ("small", 4)]


def test_what_is_over_the_limit_is_an_output(feed, run_job):
    source = feed(ROWS)
    source.add({"k": "a", "v": "1"}, {"k": "a", "v": "2"}, {"k": "a", "v": "3"})
    limited = remembered(source, hf.Limits(max_bag_size=2, policy="over_limit"))
    kept, diverted = run_job(limited.main, limited.over_limit)
    assert sorted(map(tuple, kept)) == [("a", 1), ("a", 2)]
    assert [row.asDict() for row in diverted] == [{"k": "a", "v": "3"}]


@pytest.mark.night
def test_hot_and_heavy_keys(feed, tmp_path):
    source = feed(ROWS)
    source.add(*({"k": "busy", "v": "x"} for _ in range(20)), {"k": "heavy", "v": "y" * 1_000})
    source.add({"k": "busy", "v": "x"})
    stream = hf.keyed(source.df, key="k", value="v").par_do(Remember(), output="k string, n int", key_groups=4)
    job = hf.Job("hot", checkpoint=str(tmp_path / "checkpoint"), trigger="available now", progress=False)
    job.write(stream, hf.sinks.Collect()).run()
    assert job.metrics["Remember"].hot_keys == [("busy", 21), ("heavy", 1)]
    assert job.metrics["Remember"].heavy_keys == [("heavy", 1_008), ("busy", 189)]


@pytest.mark.parametrize("policy", ["fail", "over_limit"])
def test_over_a_batch(spark, policy):
    df = spark.createDataFrame([("a", "1"), ("a", "2"), ("b", "3")], ROWS)
    limits = hf.Limits(max_bag_size=1, policy=policy)
    outputs = {"over_limit": None} if limits.diverts else None
    keyed = hf.keyed(df, key="k", value="v")
    limited: Any = keyed.par_do(Remember(), output="k string, n int", outputs=outputs, limits=limits, key_groups=1)
    if policy == "fail":
        with pytest.raises(Exception, match="The bag 'texts' of a key has 2 elements"):
            limited.collect()
    else:
        assert sorted(map(tuple, limited.main.collect())) == [("a", 1), ("b", 1)]
        assert [tuple(row) for row in limited.over_limit.collect()] == [("a", "2")]
