"""Spark compiles the code of a query once, not for every micro-batch: to compile takes longer than a small one runs."""

from __future__ import annotations

import pytest

import holdfast as hf
from integration.functions import Count

BATCHES = 12


@pytest.mark.night
@pytest.mark.parametrize("steps", [pytest.param(1, marks=pytest.mark.night), 2])
def test_later_micro_batches_compile_nothing(spark, tmp_path, steps):
    def run(name):
        data = tmp_path / f"data {name}"
        for number in range(BATCHES):
            (data / f"{number:02}").mkdir(parents=True)
            (data / f"{number:02}" / "rows.json").write_text('{"k": "a", "v": 1}\n')
        rows = spark.readStream.schema("k string, v long").option("maxFilesPerTrigger", 1).json(str(data / "*"))
        job = hf.Job(name, checkpoint=str(tmp_path / name), trigger="available now", progress=False)
        for step in range(steps):
            counts = hf.keyed(rows, key="k", value="v").par_do(
                Count(), output="k string, n long", key_groups=2, name=f"step {step}"
            )
            job.write(counts, hf.sinks.Collect())
        return job.run()

    compiled = spark._jvm.org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME()
    run("first")
    before = compiled.getCount()
    done = [report.batchId for report in run("second").query.recentProgress if report.numInputRows]
    assert len(done) == BATCHES
    # Some for a cache that others have filled meanwhile, but none for each micro-batch.
    assert compiled.getCount() - before < BATCHES
