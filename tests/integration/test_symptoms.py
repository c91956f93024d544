"""Symptoms of real jobs that are not well; and a job that is, for ten minutes, which has none.

With thresholds that a test can reach, but for the healthy one: what is judged is what Spark and the workers told.
"""

from __future__ import annotations

import datetime
import threading
import time

import pytest

import holdfast as hf
from holdfast import ops
from holdfast.watch import Level, Limit, Thresholds
from integration.functions import Count, Fragile

SCHEMA = "k string, v string, at timestamp"
BEGIN = datetime.datetime(2026, 3, 1, tzinfo=datetime.timezone.utc)
BATCHES = 14
HEALTHY_SECONDS = 600


class SlowCoder(hf.Coder[int]):
    """Of a value that takes long to be stored; not to be written, since it is kept as it is until then."""

    def is_immutable(self):
        return True

    def encode(self, value):
        time.sleep(0.03)
        return value.to_bytes(8, "big")

    def decode(self, data):
        return int.from_bytes(data, "big")


class CountSlowly(hf.DoFn):
    COUNT = hf.ValueStateSpec("count", SlowCoder())

    def process(self, element, count=hf.DoFn.StateParam(COUNT)):
        count.write((count.read() or 0) + 1)
        yield element[0], 1


class Ponder(Count):
    def process(self, element, count=hf.DoFn.StateParam(Count.COUNT)):
        time.sleep(0.4)
        yield from super().process(element, count)


def job_of(source, tmp_path, function, trigger="available now", **options):
    rows = hf.keyed(source.df, key="k", value="v", timestamp="at", watermark="1 second")
    counts = rows.par_do(function, output="k string, n int", key_groups=4)
    checkpoint = str(tmp_path / "checkpoint")
    job = hf.Job("ill", checkpoint=checkpoint, trigger=trigger, progress=False, **options)
    return job.write(counts, hf.sinks.Collect()), checkpoint


@pytest.mark.night
def test_keys_that_never_end_and_a_watermark_that_stands_still(feed, tmp_path):
    source = feed(SCHEMA)
    future = {"k": "f", "v": "x", "at": BEGIN + datetime.timedelta(days=300)}
    for number in range(BATCHES):
        at = BEGIN + datetime.timedelta(seconds=number)
        new = ({"k": f"{number} {key}", "v": "x", "at": at} for key in range(10))
        source.add(*new, *([future] if number == 0 else []))
    job, checkpoint = job_of(source, tmp_path, Count())
    job.run()
    # The span that all of them take; on a machine of any speed.
    sharp = Thresholds(growth_ms=500, growth_keys_min=50, idle_ms=500, state_bytes=Limit(1e6, 1e6), elements_min=10**9)
    found = ops.health(checkpoint, sharp)
    assert {symptom.name for symptom in found.symptoms} == {"state_explosion", "idle_watermark"}
    growth = found.symptom("state_explosion")
    assert (growth.step, growth.level) == ("Count", Level.CRITICAL)
    assert growth.figures["keys"] >= 100
    assert "moved it ahead of all others" in found.symptom("idle_watermark").evidence


def test_a_function_that_fails_again_and_again(feed, tmp_path):
    source = feed(SCHEMA)
    source.add({"k": "a", "v": "x", "at": BEGIN})
    source.add({"k": "a", "v": "bad", "at": BEGIN})
    job, checkpoint = job_of(source, tmp_path, Fragile(), tolerated_failures=2)
    with pytest.raises(hf.HoldfastError, match="cannot take this one"):
        job.run()
    found = ops.health(checkpoint)
    assert [symptom.name for symptom in found.symptoms] == ["failed", "reprocessing"]
    again = found.symptom("reprocessing")
    assert (again.level, again.figures["failures"]) == (Level.CRITICAL, 3)
    assert "The job has not come past micro-batch 1" in again.evidence
    assert "raised RuntimeError: cannot take this one (where: step 'Fragile', key 'a', " in found.symptom("failed").evidence


@pytest.mark.night
def test_state_that_takes_long_to_store(feed, tmp_path):
    source = feed(SCHEMA)
    for number in range(BATCHES):
        source.add(*({"k": str(key), "v": "x", "at": BEGIN + datetime.timedelta(seconds=number)} for key in range(60)))
    job, checkpoint = job_of(source, tmp_path, CountSlowly(), hf.Batches(BATCHES, "100 milliseconds"))
    job.run()
    found = ops.health(checkpoint)
    assert {"slow_state_access", "slow_checkpoint"} <= {symptom.name for symptom in found.symptoms}
    slow = found.symptom("slow_state_access")
    assert slow.step == "CountSlowly"
    assert slow.figures["commit_ms"] > slow.figures["open_ms"]


@pytest.mark.night
def test_a_function_that_is_too_slow_for_the_interval(feed, tmp_path):
    source = feed(SCHEMA)
    for number in range(BATCHES):
        source.add(*({"k": str(key), "v": "x", "at": BEGIN + datetime.timedelta(seconds=number)} for key in range(12)))
    job, checkpoint = job_of(source, tmp_path, Ponder(), hf.Batches(BATCHES, "100 milliseconds"))
    job.run()
    found = ops.health(checkpoint)
    assert [symptom.name for symptom in found.symptoms] == ["slow_micro_batch"]
    assert "process " in found.symptoms[0].evidence


@pytest.mark.night
@pytest.mark.timeout(1_800)
def test_a_healthy_job_of_ten_minutes(feed, tmp_path):
    """By its own thresholds; judged after every micro-batch, and by somebody who looks from outside."""
    source = feed(SCHEMA)
    seen = []
    job, checkpoint = job_of(source, tmp_path, Count(), "2 seconds", on_health=seen.append)
    with job:
        job.start()
        began, ended = time.monotonic(), threading.Event()
        for number in range(HEALTHY_SECONDS):
            at = BEGIN + datetime.timedelta(seconds=number)
            source.add(*({"k": f"k{key}", "v": "x", "at": at} for key in range(200)))
            ended.wait(max(0.0, began + number + 1 - time.monotonic()))
        looked = ops.health(checkpoint)
    assert len(seen) >= 60
    assert {symptom.name: symptom.evidence for health in seen for symptom in health.symptoms} == {}
    assert max(health.level for health in [*seen[20:], looked]) == Level.OK
    assert looked.symptoms == []
