"""Topics of a real broker as streams: rows, dead letters, where reading begins, restarts of the job and of the broker."""

from __future__ import annotations

import datetime
import io
import json
import re

import fastavro
import pytest

import holdfast as hf
from holdfast.spark.job.lag import source_lags
from integration.functions import Count
from integration.waiting import until
from services.kafka import PASSWORD, USER

UTC = datetime.timezone.utc
PAYMENT = "card string not null, amount double, at timestamp"
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


@pytest.fixture(scope="module")
def spark(kafka, spark):
    return spark


@pytest.fixture
def source(kafka):
    return lambda topic, **options: hf.sources.Kafka(kafka.servers, topic, **{"value": hf.sources.Json(PAYMENT), **options})


def payment(card, amount=1.0, at="2024-03-01T10:00:00Z"):
    return json.dumps({"card": card, "amount": amount, "at": at})


POISON = {
    b"": "not JSON",
    b"no json": "not JSON",
    b'{"card":"x"} and more': "not JSON: JSON is malformed: trailing",
    b'{"card":5}': "Expected `str`, got `int` - at `$.card`",
    b'{"card":null}': "Expected `str`, got `null` - at `$.card`",
    b'{"amount":5}': "Object missing required field `card`",
    b'{"card":"\xff"}': "not UTF-8",
    b"\x00\x01\x02": "not JSON",
    payment("x", at="0001-01-01T00:00:00Z").encode(): "Event time before 2000-01-01",
    payment("x", at="9999-12-31T23:59:59Z").encode(): "Event time later than 1 day from now",
    payment("x", at="10000-01-01T00:00:00Z").encode(): "Invalid RFC3339",
    b'{"card":"x","amount":1e999}': "Number out of range - at `$.amount`",
    b'{"card":"x","amount":"1"}': "Expected `float | null`, got `str` - at `$.amount`",
    b'{"card":"x","more":' + b"[" * 50_000 + b"]" * 50_000 + b"}": "not read: nested too deeply",
    b'{"card":"' + b"x" * (10 << 20) + b'"': "not JSON",
    b'{"card":"x"}': "without an event time",
    None: "without a value",
}


def test_poison_is_put_aside_and_the_rest_goes_on(kafka, spark, source, tmp_path):
    """In one job, which reads the topic once."""
    topic = kafka.new_topic(partitions=2)
    large = payment("y" * (10 << 20))
    for number, value in enumerate(POISON):
        kafka.put(topic, payment(f"before {number}"), value, payment(f"after {number}"), key=None, partition=number % 2)
    kafka.put(topic, large, partition=0)
    event_time = hf.sources.EventTime("at", earliest="2000-01-01")
    outputs = source(topic, event_time=event_time).read(spark)
    good, bad = hf.sinks.Collect(), hf.sinks.Collect()
    job = hf.Job("poison", checkpoint=str(tmp_path / "checkpoint"), trigger="available now", progress=False)
    job.write(outputs.main, good).write(outputs.dead_letter, bad).run()
    rows, letters = good.rows, bad.rows
    wanted = [f"{when} {number}" for number in range(len(POISON)) for when in ("before", "after")]
    assert sorted(row.card for row in rows) == sorted([*wanted, "y" * (10 << 20)])
    assert {row.at for row in rows} == {datetime.datetime(2024, 3, 1, 10)}
    found = [(None if letter.value is None else bytes(letter.value), letter.reason) for letter in letters]
    assert sorted(map(str, dict(found))) == sorted(map(str, POISON))
    assert len(found) == len(POISON)
    assert [(value, reason) for value, reason in found if not reason.startswith(POISON[value])] == []
    places = {(record.partition, record.offset): record for record in kafka.records(topic)}
    for letter in letters:
        record = places[letter.partition, letter.offset]
        assert (letter.topic, record.value) == (topic, None if letter.value is None else bytes(letter.value))
        assert record.timestamp_ms == round(letter.timestamp.replace(tzinfo=UTC).timestamp() * 1000)


def test_what_rows_have_of_kafka(kafka, spark, source):
    topic = kafka.new_topic()
    kafka.put(topic, payment("a"), key="k1", headers=[("h", b"1"), ("h", None)], timestamp=1_700_000_000_123)
    kafka.put(topic, payment("b"), key=None, timestamp=1_700_000_000_124)
    columns = {name: name for name in ("topic", "partition", "offset", "headers")} | {"key": "id", "timestamp": "sent"}
    rows = source(topic, columns=columns, key=hf.sources.Text()).read_batch(spark).main.orderBy("offset").collect()
    assert [(row.card, row.id, row.topic, row.partition, row.offset) for row in rows] == [
        ("a", "k1", topic, 0, 0),
        ("b", None, topic, 0, 1),
    ]
    assert rows[0].sent == datetime.datetime(2023, 11, 14, 22, 13, 20, 123_000)
    assert [(header.key, header.value) for header in rows[0].headers] == [("h", bytearray(b"1")), ("h", None)]
    assert rows[1].headers is None


@pytest.mark.night
def test_bytes_texts_and_avro(kafka, spark, source):
    schema = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "long"}]}
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, schema, {"n": 7})
    topic = kafka.new_topic()
    kafka.put(topic, b"\0\0\0\0\1" + stream.getvalue(), "text", b"\xff", None)

    def read(**options):
        outputs = source(topic, columns=["offset"], **options).read_batch(spark)
        letters = outputs.dead_letter.collect() if "dead_letter" in outputs else []
        return sorted(map(tuple, outputs.main.collect()), key=lambda row: row[-1]), sorted(row.offset for row in letters)

    avro = b"\0\0\0\0\1\x0e"
    assert read(value=hf.sources.Avro(schema, header="confluent")) == ([(7, 0)], [1, 2, 3])
    assert read(value=hf.sources.Text("line"), tombstones="skip") == ([(avro.decode(), 0), ("text", 1)], [2])
    assert read(value=hf.sources.Text("line"), tombstones="rows")[0][-1] == (None, 3)
    raw = [(bytearray(avro), 0), (bytearray(b"text"), 1), (bytearray(b"\xff"), 2)]
    assert read(value=hf.sources.Raw()) == ([*raw, (None, 3)], [])
    assert read(value=hf.sources.Raw(), tombstones="skip") == (raw, [])


@pytest.mark.night
def test_a_malformed_record_fails_the_job_if_that_was_asked_for(kafka, spark, source, run_job):
    topic = kafka.new_topic()
    kafka.put(topic, payment("a"), "no json")
    outputs = source(topic, on_malformed="fail").read(spark)
    assert list(outputs) == ["main"]
    assert [field.nullable for field in outputs.main.schema.fields] == [False, True, True]
    with pytest.raises(hf.InputError, match=f"A record of the topic '{topic}' is malformed: not JSON") as raised:
        run_job(outputs.main)
    assert raised.value.detail.startswith(f"topic {topic}, partition 0, offset 1, ")


def test_a_step_over_a_topic_goes_on_after_a_restart(kafka, spark, source, run_job):
    topic = kafka.new_topic(partitions=2)

    def counted():
        rows = source(topic).read(spark).main
        counts = hf.keyed(rows, key="card", value="amount").par_do(Count(), output="k string, n int")
        return sorted(tuple(row) for row in run_job(counts)[0])

    kafka.put(topic, payment("a"), payment("b"), "poison", partition=0)
    kafka.put(topic, payment("a"), partition=1)
    assert counted() == [("a", 1), ("a", 2), ("b", 1)]
    assert counted() == []
    kafka.put(topic, payment("a"), "poison", partition=1)
    assert counted() == [("a", 3)]


@pytest.mark.night
def test_one_topic_is_read_once_for_several_steps(kafka, spark, source, tmp_path):
    topic = kafka.new_topic()
    kafka.put(topic, payment("a", 1), payment("b", 2), "poison", payment("a", 3))
    rows = source(topic).read(spark).main
    by_card = hf.keyed(rows, key="card", value="amount").par_do(Count(), name="cards", output="k string, n int")
    amounts = rows.selectExpr("cast(amount as string) as amount", "card")
    by_amount = hf.keyed(amounts, key="amount", value="card").par_do(Count(), name="amounts", output="k string, n int")
    sinks = [hf.sinks.Collect(), hf.sinks.Collect()]
    job = hf.Job("both", checkpoint=str(tmp_path / "checkpoint"), trigger="available now", progress=False)
    job.write(by_card, sinks[0]).write(by_amount, sinks[1]).run()
    assert sorted(map(tuple, sinks[0].rows)) == [("a", 1), ("a", 2), ("b", 1)]
    assert sorted(map(tuple, sinks[1].rows)) == [("1.0", 1), ("2.0", 1), ("3.0", 1)]
    [source_report] = next(report for report in job.query.recentProgress if report.numInputRows).sources
    assert source_report.numInputRows == 4


def test_where_reading_begins(kafka, spark, source):
    topic = kafka.new_topic(partitions=2)
    for number in range(4):
        kafka.put(topic, payment(str(number)), partition=0, timestamp=1_700_000_000_000 + number)
    kafka.put(topic, payment("other"), partition=1, timestamp=1_700_000_000_000)

    def cards(start):
        return sorted(row.card for row in source(topic, start=start).read_batch(spark).main.collect())

    assert cards("earliest") == ["0", "1", "2", "3", "other"]
    assert cards({topic: {0: 3, 1: "earliest"}}) == ["3", "other"]
    assert cards(datetime.datetime.fromtimestamp(1_700_000_000.002, UTC)) == ["2", "3"]
    assert cards("2023-11-14T22:13:20.000001Z") == ["1", "2", "3"]


@pytest.mark.night
def test_only_what_comes_is_read_from_the_latest_on(kafka, spark, source, tmp_path):
    topic = kafka.new_topic()
    kafka.put(topic, payment("before"))
    sink = hf.sinks.Collect()
    job = hf.Job("latest", checkpoint=str(tmp_path / "checkpoint"), progress=False)
    with job.write(source(topic, start="latest").read(spark).main, sink).start():
        until(lambda: job.query.lastProgress is not None)
        kafka.put(topic, payment("after"))
        until(lambda: sink.rows)
    assert [row.card for row in sink.rows] == ["after"]


def test_a_limit_for_each_micro_batch_and_the_lag(kafka, spark, source, tmp_path, capfd):
    topic = kafka.new_topic()
    kafka.put(topic, *(payment(str(number)) for number in range(5)))
    seen = []
    rows = source(topic, max_per_trigger=2).read(spark).main
    job = hf.Job("limited", checkpoint=str(tmp_path / "checkpoint"), trigger="available now")
    job.write(rows, hf.sinks.ForeachBatch(lambda rows, number: seen.append(rows.count()))).run()
    assert seen == [2, 2, 1]
    reports = [report for report in job.query.recentProgress if report.numInputRows]
    assert [list(source_lags(report).values()) for report in reports] == [[3], [1], [0]]
    assert list(job.source_lag.values()) == [0]
    assert re.search(r"limited: batch 2 .* 5 rows  lag 0  state", capfd.readouterr().err)


@pytest.mark.parametrize("end", ["stop", pytest.param("kill", marks=pytest.mark.night)])
def test_the_broker_is_restarted_under_a_running_job(kafka, spark, source, tmp_path, end):
    topic = kafka.new_topic()
    kafka.put(topic, payment("1"))
    sink = hf.sinks.Collect()
    rows = source(topic).read(spark).main
    counts = hf.keyed(rows, key="card", value="amount").par_do(Count(), output="k string, n int")
    job = hf.Job("restarted", checkpoint=str(tmp_path / "checkpoint"), progress=False)
    with job.write(counts, sink).start():
        until(lambda: len(sink.rows) == 1)
        getattr(kafka, end)()
        kafka.start()
        kafka.put(topic, payment("2"))
        until(lambda: len(sink.rows) == 2)
    assert sorted(tuple(row) for row in sink.rows) == [("1", 1), ("2", 1)]


@pytest.mark.night
def test_what_can_be_is_decided_once(kafka, spark, source, tmp_path):
    """A record is ahead of its micro-batch. When that comes again, its time has come; it is malformed still."""
    reason = "Event time later than 0 seconds from now - at `$.at`"
    for seconds in (4, 15, 60, 240):
        at = datetime.datetime.now(UTC) + datetime.timedelta(seconds=seconds)
        topic, checkpoint = kafka.new_topic(), str(tmp_path / str(seconds))
        kafka.put(topic, payment("early", at=at.isoformat()))
        letters = source(topic, event_time=hf.sources.EventTime("at", ahead="0 seconds")).read(spark).dead_letter
        seen = []

        def write(rows, number, seen=seen):
            seen.append([row.reason for row in rows.collect()])
            if len(seen) == 1:
                raise ValueError("once more")

        def job(checkpoint=checkpoint, letters=letters, write=write):
            made = hf.Job("plausible", checkpoint=checkpoint, trigger="available now", progress=False)
            return made.write(letters, hf.sinks.ForeachBatch(write))

        with pytest.raises(hf.JobFailed, match="once more"):
            job().run()
        if seen == [[reason]]:
            break  # Else the machine was too slow, and the record no longer ahead.
    until(lambda: datetime.datetime.now(UTC) > at, seconds=300)
    job().run()
    assert seen == [[reason], [reason]]


def test_what_a_producer_took_back_is_not_read(kafka, spark, source):
    topic = kafka.new_topic()
    kafka.put(topic, payment("before"))
    kafka.put_and_take_back(topic, payment("never"))
    kafka.put(topic, payment("after"))
    assert sorted(row.card for row in source(topic).read_batch(spark).main.collect()) == ["after", "before"]


@pytest.mark.night
def test_records_that_kafka_has_deleted_fail_the_job(kafka, spark, source, run_job):
    topic = kafka.new_topic()
    kafka.put(topic, payment("1"), payment("2"))
    assert len(run_job(source(topic).read(spark).main)[0]) == 2
    kafka.put(topic, payment("3"), payment("4"))
    kafka.delete_before(topic, 3)
    with pytest.raises(hf.JobFailed, match="Kafka no longer has records that the job has not read"):
        run_job(source(topic).read(spark).main)
    rows = source(topic, options={"failOnDataLoss": False}).read(spark).main
    assert [row.card for row in run_job(rows)[0]] == ["4"]


@pytest.mark.night
def test_a_topic_that_is_not_there(kafka, spark, source, run_job):
    with pytest.raises(hf.JobFailed, match="a Kafka topic does not exist"):
        run_job(source("no-such-topic").read(spark).main)


@pytest.mark.night
def test_names_of_columns(kafka, spark, source):
    schema = "main string, letter int, now timestamp, value string, reason string, `a.b` int, `c``d` struct<`e.f`: int>"
    topic = kafka.new_topic()
    kafka.put(topic, '{"main":"m","letter":1,"reason":"r","value":"v","a.b":2,"c`d":{"e.f":3}}', "poison")
    outputs = source(topic, value=hf.sources.Json(schema)).read_batch(spark)
    [row] = outputs.main.collect()
    assert tuple(row) == ("m", 1, None, "v", "r", 2, (3,))
    assert outputs.dead_letter.count() == 1


@pytest.mark.night
def test_another_time_zone(kafka, spark, source):
    topic = kafka.new_topic()
    kafka.put(topic, payment("z", at="2024-07-01T10:00:00Z"), payment("local", at="2024-07-01T12:00:00"))
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        rows = source(topic).read_batch(spark).main.selectExpr("card", "unix_micros(at) as at").collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    assert {row.card: row.at for row in rows} == dict.fromkeys(("z", "local"), 1_719_828_000_000_000)


class TestSecrets:
    def options(self, password):
        login = f'{LOGIN} username="{USER}" password="{password}";'
        return {
            "kafka.security.protocol": "SASL_PLAINTEXT",
            "kafka.sasl.mechanism": "PLAIN",
            "kafka.sasl.jaas.config": login,
        }

    def test_they_are_nowhere_but_where_they_are(self, kafka, spark, tmp_path, capfd):
        topic = kafka.new_topic()
        kafka.put(topic, payment("a"))
        (tmp_path / "secret").write_text(PASSWORD)
        options = self.options(hf.sources.FromFile(tmp_path / "secret"))
        format = hf.sources.Json(PAYMENT)
        source = hf.sources.Kafka(kafka.servers_with_password, topic, value=format, options=options)
        rows = source.read(spark).main
        counts = hf.keyed(rows, key="card", value="amount").par_do(Count(), output="k string, n int")
        sink = hf.sinks.Collect()
        job = hf.Job("secret", checkpoint=str(tmp_path / "checkpoint"), trigger="available now").write(counts, sink)
        job.run()
        assert [tuple(row) for row in sink.rows] == [("a", 1)]
        counts.explain(True)
        told = [repr(source), repr(job), str(job.explain()), job.explain().svg, job._repr_html_(), repr(counts)]
        told += [*capfd.readouterr(), *(report.json for report in job.query.recentProgress)]
        files = [path.read_bytes().decode("latin-1") for path in (tmp_path / "checkpoint").rglob("*") if path.is_file()]
        assert len(files) > 10
        assert [text for text in [*told, *files] if PASSWORD in text] == []

    @pytest.mark.night
    def test_a_wrong_one_is_not_shown(self, kafka, spark, tmp_path):
        topic = kafka.new_topic()
        (tmp_path / "secret").write_text("wrong-password")
        options = self.options(hf.sources.FromFile(tmp_path / "secret"))
        rows = hf.sources.Kafka(kafka.servers_with_password, topic, options=options).read_batch(spark).main
        with pytest.raises(Exception, match="Authentication failed") as raised:
            rows.collect()
        assert "wrong-password" not in str(raised.value)

    def test_one_that_is_missing(self, kafka, spark, tmp_path):
        def read(secret):
            hf.sources.Kafka(kafka.servers, "topic", options=self.options(secret)).read(spark)

        with pytest.raises(hf.HoldfastError, match="does not have the environment variable 'NOT_SET_ANYWHERE'"):
            read(hf.sources.FromEnv("NOT_SET_ANYWHERE"))
        with pytest.raises(hf.HoldfastError, match="cannot be read: No such file"):
            read(hf.sources.FromFile(tmp_path / "nothing"))
        (tmp_path / "line").write_text("secret\n")
        with pytest.raises(hf.HoldfastError, match="ends with a line end"):
            read(hf.sources.FromFile(tmp_path / "line"))


def test_columns_that_clash(kafka, spark, source):
    with pytest.raises(hf.InvalidStep, match="both have a column 'timestamp'"):
        source("t", value=hf.sources.Json("Timestamp timestamp"), columns=["timestamp"]).read(spark)
    with pytest.raises(hf.InvalidStep, match="There is no column 'when' for the event time; the columns are card"):
        source("t", event_time=hf.sources.EventTime("when")).read(spark)
    with pytest.raises(hf.InvalidStep, match="The event time 'card' is string"):
        source("t", event_time=hf.sources.EventTime("card")).read(spark)
    with pytest.raises(hf.InvalidStep, match="The schema 'card strin' cannot be read"):
        source("t", value=hf.sources.Json("card strin")).read(spark)
