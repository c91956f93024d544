"""Rows as records of a real broker: what is in them, and the ids by which repeats are left out."""

from __future__ import annotations

import datetime
import json
import random
from collections import Counter
from decimal import Decimal

import pytest

import holdfast as hf
from holdfast.spark.sinks.kafka_records import ID_HEADER
from services.kafka import PASSWORD, USER

UTC = datetime.timezone.utc
TYPES = (
    "s string, i int, d double, dec decimal(10,2), at timestamp, local timestamp_ntz, day date, yes boolean, bin binary, "
    "list array<int>, map map<string, double>, in struct<x: int, at: timestamp>, `a b` string"
)


@pytest.fixture(scope="module")
def spark(kafka, spark):
    return spark


@pytest.fixture
def sink(kafka):
    return lambda topic, **options: hf.sinks.Kafka(kafka.servers, topic, **options)


INFO = hf.sinks.BatchInfo("query", 3, "plan")


def ids(records):
    return [dict(record.headers)[ID_HEADER] for record in records]


def once(records):
    """What a consumer has that leaves out records whose id it has seen."""
    return list({dict(record.headers)[ID_HEADER]: record for record in records}.values())


def test_all_columns_as_json_and_back(kafka, spark, sink):
    topic = kafka.new_topic()
    at = datetime.datetime(2026, 3, 1, 10, 20, 30, 123_456)
    full = ('ä\n"', -5, 0.1, Decimal("12345678.90"), at, at, at.date(), True, b"\0\xff", [1, 2], {"k": 1.5}, (7, at), "x")
    rows = spark.createDataFrame([full, (None,) * 13], TYPES)
    sink(topic).write_batch(rows, INFO)
    records = kafka.records(topic)
    assert sorted(len(json.loads(record.value)) for record in records) == [13, 13]
    assert {record.key for record in records} == {None}
    back = hf.sources.Kafka(kafka.servers, topic, value=hf.sources.Json(TYPES)).read_batch(spark)
    assert back.dead_letter.count() == 0
    assert sorted(map(str, back.main.collect())) == sorted(map(str, rows.collect()))


def test_keys_values_and_headers_of_ones_own(kafka, spark, sink):
    topic = kafka.new_topic()
    rows = spark.createDataFrame([("a", 1, b"\xff", None), (None, 2, None, "x")], "k string, n int, v binary, h string")
    sink(topic, key="k", value="v", headers={"number": "n", "note": "h"}).write_batch(rows, INFO)
    found = {(record.key, record.value, record.headers[:2]) for record in kafka.records(topic)}
    assert found == {
        (b"a", b"\xff", (("number", b"1"), ("note", None))),
        (None, None, (("number", b"2"), ("note", b"x"))),
    }
    topic = kafka.new_topic()
    sink(topic, key=["k", "n"], value=["n", "h"]).write_batch(rows, INFO)
    assert {(record.key, record.value) for record in kafka.records(topic)} == {
        (b'{"k":"a","n":1}', b'{"n":1,"h":null}'),
        (b'{"k":null,"n":2}', b'{"n":2,"h":"x"}'),
    }


@pytest.mark.parametrize("key", [pytest.param(None, marks=pytest.mark.night), "k"])
def test_a_micro_batch_that_comes_again_has_the_same_ids(kafka, spark, sink, key, monkeypatch):
    """In another order, and spread over other partitions; with equal rows, and rows without a key."""
    topic = kafka.new_topic(partitions=3)
    values = [(random.Random(n % 40).choice(["a", "b", None]), n % 40) for n in range(200)]
    for attempt in range(3):
        random.Random(attempt).shuffle(values)
        rows = spark.createDataFrame(values, "k string, v int").repartition(attempt + 1)
        # As on a cluster of another size.
        monkeypatch.setattr(type(spark.sparkContext), "defaultParallelism", 2 * attempt + 1)
        sink(topic, key=key).write_batch(rows, INFO)
    records = kafka.records(topic)
    assert (len(records), set(Counter(ids(records)).values())) == (600, {3})
    assert len({(identity, record.value) for identity, record in zip(ids(records), records, strict=True)}) == 200
    wanted = Counter(json.dumps({"k": k, "v": v}, separators=(",", ":")).encode() for k, v in values)
    assert Counter(record.value for record in once(records)) == wanted


@pytest.mark.night
def test_other_micro_batches_have_other_ids(kafka, spark, sink):
    topic = kafka.new_topic()
    rows = spark.createDataFrame([("a",)], "k string")
    for other in (("query", 3, "plan"), ("other", 3, "plan"), ("query", 4, "plan"), ("query", 3, "new")):
        sink(topic).write_batch(rows, hf.sinks.BatchInfo(*other))
    assert len(set(ids(kafka.records(topic)))) == 4


@pytest.mark.night
def test_other_topics_have_other_ids(kafka, spark, sink):
    topics = [kafka.new_topic(), kafka.new_topic()]
    for topic in topics:
        sink(topic).write_batch(spark.range(1).toDF("n"), INFO)
    assert len({identity for topic in topics for identity in ids(kafka.records(topic))}) == 2


def test_a_micro_batch_without_rows(kafka, spark, sink):
    topic = kafka.new_topic()
    sink(topic, key="n").write_batch(spark.range(0).toDF("n"), INFO)
    assert kafka.records(topic) == []


def test_what_differs_in_any_part_has_another_id(kafka, spark, sink):
    """Also if the parts, put one after the other, are the same bytes."""
    topic = kafka.new_topic()
    values = [("ab", "c", "d"), ("a", "bc", "d"), ("", "abc", "d"), (None, "abc", "d"), ("ab", None, "cd"), ("ab", "", "cd")]
    rows = spark.createDataFrame(values, "k string, v string, h string")
    sink(topic, key="k", value="v", headers={"h": "h"}).write_batch(rows, INFO)
    assert len(set(ids(kafka.records(topic)))) == len(values)


def test_the_rows_of_a_key_stay_in_order(kafka, spark, sink):
    topic = kafka.new_topic(partitions=2)
    values = [(f"key-{n % 7}", n) for n in range(3000)]
    rows = spark.createDataFrame(values, "k string, n int").coalesce(1)
    sink(topic, key="k", value="n").write_batch(rows, INFO)
    for key in range(7):
        found = [int(record.value) for record in kafka.records(topic) if record.key == f"key-{key}".encode()]
        assert found == [n for k, n in values if k == f"key-{key}"]


def test_a_job_whose_micro_batch_comes_again(kafka, spark, sink, tmp_path):
    """The sink beside it fails once, after the records are written: they come again, and the ids say so."""
    source, topic = kafka.new_topic(partitions=2), kafka.new_topic(partitions=2)
    kafka.put(source, *(json.dumps({"card": f"c{n % 3}", "n": n % 5}) for n in range(60)))
    fails = [True]

    def other(rows, number):
        if fails.pop():
            raise ValueError("not this time")

    def job():
        format = hf.sources.Json("card string, n int")
        rows = hf.sources.Kafka(kafka.servers, source, value=format).read(spark).main
        steps = hf.keyed(rows, key="card", value="n").map_with_state(lambda state, n: (state, n), output="n int")
        made = hf.Job("again", checkpoint=str(tmp_path / "checkpoint"), trigger="available now", progress=False)
        return made.write(steps, sink(topic, key="card")).write(steps.where("n > 100"), hf.sinks.ForeachBatch(other))

    with pytest.raises(hf.JobFailed, match="not this time"):
        job().run()
    assert len(kafka.records(topic)) == 60
    fails.append(False)
    job().run()
    records = kafka.records(topic)
    assert (len(records), set(Counter(ids(records)).values())) == (120, {2})
    assert Counter(record.value for record in once(records)) == Counter(
        json.dumps({"card": f"c{n % 3}", "n": n % 5}, separators=(",", ":")).encode() for n in range(60)
    )


def test_it_writes_with_a_password(kafka, spark, tmp_path):
    topic = kafka.new_topic()
    (tmp_path / "secret").write_text(PASSWORD)
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    options = {
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": f'{login} username="{USER}" password="{hf.sources.FromFile(tmp_path / "secret")}";',
    }
    hf.sinks.Kafka(kafka.servers_with_password, topic, options=options).write_batch(spark.range(3).toDF("n"), INFO)
    assert len(kafka.records(topic)) == 3


@pytest.mark.night
def test_a_record_that_is_too_large_fails_the_job(kafka, spark, sink, feed, tmp_path):
    rows = feed("k string, v string")
    rows.add({"k": "a", "v": "x" * (2 << 20)})
    topic = kafka.new_topic()
    job = hf.Job("large", checkpoint=str(tmp_path / "checkpoint"), trigger="available now", progress=False)
    with pytest.raises(hf.JobFailed, match=r"RecordTooLarge|max\.request\.size"):
        job.write(rows.df, sink(topic)).run()
    again = hf.Job("large", checkpoint=str(tmp_path / "checkpoint"), trigger="available now", progress=False)
    again.write(rows.df, sink(topic, options={"kafka.max.request.size": 10 << 20})).run()
    assert len(kafka.records(topic)) == 1


@pytest.mark.night
def test_a_topic_that_is_not_there(kafka, sink, source, make):
    with pytest.raises(hf.JobFailed, match="a Kafka topic does not exist"):
        make(sink("no-such-topic", options={"kafka.max.block.ms": 500}), trigger="available now").run()


def test_columns_that_are_not_there(kafka, spark, sink, feed, tmp_path):
    job = hf.Job("columns", checkpoint=str(tmp_path / "checkpoint"), progress=False)
    job.write(feed("k string").df, sink("t", key="key", value=["k", "v"], headers={"h": "w"}))
    with pytest.raises(hf.InvalidStep) as raised:
        job.start()
    assert [problem.split(";")[0] for problem in raised.value.problems] == [
        "There is no column 'key'",
        "There is no column 'v'",
        "There is no column 'w'",
    ]
    with pytest.raises(hf.InvalidStep, match=r"a topic keeps all records\. Append, with key=\['k'\]"):
        hf.Job("upsert", checkpoint=str(tmp_path / "c")).write(feed("k string", "b").df, sink("t"), mode="upsert", key="k")
    with pytest.raises(hf.InvalidStep, match="is written by another output"):
        hf.Job("twice", checkpoint=str(tmp_path / "c")).write(feed("k string", "c").df, sink("t")).write(
            feed("k string", "d").df, sink("t", key="k")
        )
