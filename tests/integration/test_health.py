"""The health of real jobs: what Spark and the workers tell is enough for every measure, and no healthy job has a symptom."""

from __future__ import annotations

import datetime
import json
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

import holdfast as hf
from holdfast import ops
from holdfast.cli.main import main
from holdfast.watch import Level, Limit, Prometheus, Thresholds
from integration.functions import Count

BATCHES = 12
KEYS = [f"k{number}" for number in range(50)]


def counts(source):
    rows = hf.keyed(source.df, key="k", value="v", timestamp="at", watermark="1 second")
    return rows.par_do(Count(), output="k string, n int", key_groups=8)


def fill(source, keys):
    """A micro-batch for each file; event times move on."""
    begin = datetime.datetime(2026, 3, 1, tzinfo=datetime.timezone.utc)
    for number in range(BATCHES):
        at = begin + datetime.timedelta(seconds=10 * number)
        source.add(*({"k": key, "v": "x", "at": at} for key in keys))


def run(source, tmp_path, **options):
    job = hf.Job("judged", checkpoint=str(tmp_path / "checkpoint"), trigger="available now", progress=False, **options)
    job.write(counts(source), hf.sinks.Collect()).run()
    return str(tmp_path / "checkpoint")


def test_a_healthy_job(feed, tmp_path, capsys):
    source = feed("k string, v string, at timestamp")
    fill(source, KEYS * 4)
    checkpoint = run(source, tmp_path)
    found = ops.health(checkpoint, Thresholds(elements_min=100))
    assert (found.level, found.symptoms, found.running, found.job) == (Level.OK, [], False, "judged")
    known = {measure.name for measure in found.measures if measure.value is not None and measure.level == Level.OK}
    assert {"state_bytes", "checkpoint_ms", "update_ms", "cleanup_ms", "memory_bytes", "watermark_lag_ms", "skew"} <= known
    assert found.measure("watermark_lag_ms").value == 1_000
    assert found.measure("memory_bytes").value > 10 << 20
    assert main(["health", checkpoint, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["level"] == "ok"


@pytest.mark.night
def test_a_hot_key_on_its_way_out(feed, tmp_path):
    """Seen in the history, by the function that is called with it, and by whoever scrapes."""
    source = feed("k string, v string, at timestamp")
    fill(source, [*KEYS, *["hot"] * 150])
    thresholds = Thresholds(elements_min=100, memory_bytes=Limit(1, None))
    outlet, seen, scraped = Prometheus(0), [], []
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def on_health(health):
        seen.append(health)
        with opener.open(outlet.url, timeout=60) as answer:
            scraped.append(answer.read().decode())

    run(source, tmp_path, outlets=[outlet], on_health=on_health, thresholds=thresholds)
    assert [health.batch for health in seen] == [*range(BATCHES), *range(BATCHES, len(seen))]
    symptom = seen[-1].symptom("skew")
    assert (symptom.step, symptom.key, round(symptom.figures["share"], 2)) == ("Count", "hot", 0.75)
    assert seen[-1].measure("memory_bytes").level == Level.WARNING
    families = {family.name: family for family in text_string_to_metric_families(scraped[-1])}
    [elements] = families["holdfast_elements"].samples
    assert (elements.labels, elements.value) == ({"job": "judged", "step": "Count"}, 200 * BATCHES)
    assert families["holdfast_state_keys"].samples[0].value == 51
    assert families["holdfast_symptom_level"].samples[0].labels["symptom"] == "skew"
