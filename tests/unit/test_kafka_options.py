"""What the Kafka source and sink are given: options, secrets, where to begin; and what is wrong with it."""

from __future__ import annotations

import datetime
import json

import pytest

import holdfast as hf
from holdfast.errors import HoldfastError, InvalidStep
from holdfast.spark.session.kafka_connector import check_kafka, check_secrets
from holdfast.spark.session.secrets import provider_options, references
from holdfast.spark.sources.start import start_options

LOGIN = "kafka.sasl.jaas.config"


def source(servers="localhost:9092", topics="payments", **options):
    return hf.sources.Kafka(servers, topics, **options)


def sink(servers="localhost:9092", topic="alerts", **options):
    return hf.sinks.Kafka(servers, topic, **options)


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: source(servers=""), "The brokers are ''"),
        (lambda: source(servers=[]), r"The brokers are \[\]"),
        (lambda: source(topics=[]), r"The topics are \[\]"),
        (lambda: source(topics="a,b"), "has a comma in its name"),
        (lambda: source(value="json"), "value is 'json'; give a format"),
        (lambda: source(value=hf.sources.Parquet("a int")), "value is Parquet"),
        (lambda: source(key=hf.sources.Json("a int")), "keys are hf.sources.Raw"),
        (lambda: source(columns=["offsets"]), "Kafka's records have no 'offsets'"),
        (lambda: source(columns={"key": ""}), "give each column a name"),
        (lambda: source(on_malformed="drop"), "on_malformed is 'drop'; it is one of 'dead_letter', 'fail'"),
        (lambda: source(tombstones="drop"), "tombstones is 'drop'"),
        (lambda: source(event_time="at"), "give hf.sources.EventTime"),
        (lambda: source(start="first"), "start is 'first'"),
        (lambda: source(start={"payments": {0: -3}}), "The offsets of 'payments' are"),
        (lambda: source(start={"payments": {}}), "The offsets of 'payments' are"),
        (lambda: source(start={"others": {0: 3}}), "start has the offsets of others; what is read is payments"),
        (lambda: source(max_per_trigger=0), "max_per_trigger is 0"),
        (lambda: source(options={"startingOffsets": "latest"}), "is the argument `start`; give it there"),
        (lambda: source(options={"SUBSCRIBE": "x"}), "is the second argument, the topic"),
        (lambda: source(options={"kafka.bootstrap.servers": "x"}), "is the first argument"),
        (lambda: source(options=["a"]), "options must be a dict"),
        (lambda: sink(topic=""), "The topic is ''"),
        (lambda: sink(key=5), "key is 5"),
        (lambda: sink(value=[]), r"value is \[\]"),
        (lambda: sink(headers=["a"]), "headers must be a dict"),
        (lambda: sink(headers={"holdfast-id": "a"}), "is the sink's own"),
        (lambda: sink(options={"kafka.acks": "1"}), "'kafka.acks' is always 'all', so that no record is lost"),
        (lambda: sink(options={"topic": "x"}), "is the second argument, the topic"),
    ],
)
def test_what_cannot_be_made(make, problem):
    with pytest.raises(InvalidStep, match=problem):
        make()


def test_all_problems_are_told_together():
    with pytest.raises(InvalidStep) as raised:
        source(servers=5, topics=5, value=5, max_per_trigger=5.5)
    assert len(raised.value.problems) == 4


@pytest.mark.parametrize("make", [source, sink])
@pytest.mark.parametrize("option", [LOGIN, "kafka.ssl.key.password", "kafka.ssl.keystore.key", "kafka.sasl.client.secret"])
def test_a_secret_that_is_written_down_is_refused_and_not_shown(make, option):
    with pytest.raises(InvalidStep) as raised:
        make(options={option: "hunter2"})
    assert f"The option {option!r} is secret" in str(raised.value)
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize("make", [source, sink])
def test_a_login_of_which_a_part_is_written_down(make):
    module = "org.apache.kafka.common.security.scram.ScramLoginModule required"
    user, secret = hf.sources.FromEnv("USER"), hf.sources.FromEnv("PASSWORD")
    for given in ('password="hunter2"', "password = 'hunter2'", "clientSecret=hunter2"):
        with pytest.raises(InvalidStep, match="is written down; give hf") as raised:
            make(options={LOGIN: f'{module} username="{user}" {given};'})
        assert "hunter2" not in str(raised.value)
    assert make(options={LOGIN: f'{module} tokenauth="true" username="me" password="{secret}";'})


def test_an_address_is_no_secret():
    assert source(options={"kafka.sasl.oauthbearer.token.endpoint.url": "https://login.example/token"})


class TestSecrets:
    def test_as_a_text_they_are_references(self, tmp_path):
        from_env, from_file = hf.sources.FromEnv("PASSWORD"), hf.sources.FromFile(tmp_path / "secret")
        assert str(from_env) == "${env:PASSWORD}"
        assert str(from_file) == f"${{directory:{tmp_path}:secret}}"
        options = {LOGIN: f'login required password="{from_env}" other="{from_file}";', "kafka.a": "b"}
        assert [*references(options)] == [from_env, from_file]
        assert provider_options(options)["kafka.config.providers"] == "env,directory"
        assert provider_options({"kafka.a": "b"}) == {}
        assert source(options=options)
        assert source(options={LOGIN: from_env})

    @pytest.mark.parametrize(
        "make",
        [
            lambda: hf.sources.FromEnv("hunter2 is my password"),
            lambda: hf.sources.FromEnv(""),
            lambda: hf.sources.FromFile("secret"),
            lambda: hf.sources.FromFile("/a:b/secret"),
        ],
    )
    def test_what_cannot_be_a_place(self, make):
        with pytest.raises(InvalidStep) as raised:
            make()
        assert "hunter2" not in str(raised.value)

    def test_a_file_must_be_there_whole(self, tmp_path):
        file = tmp_path / "secret"
        spark = type("Spark", (), {"_jvm": None})()
        with pytest.raises(HoldfastError, match="cannot be read: No such file"):
            check_secrets(spark, [hf.sources.FromFile(file)])
        for content in ("", "hunter2\n"):
            file.write_text(content)
            with pytest.raises(HoldfastError, match="is empty, or ends with a line end") as raised:
                check_secrets(spark, [hf.sources.FromFile(file)])
            assert "hunter2" not in str(raised.value)
        file.write_text("hunter2")
        check_secrets(spark, [hf.sources.FromFile(file)])


class TestStart:
    @pytest.mark.parametrize(
        ("start", "options"),
        [
            ("earliest", {"startingOffsets": "earliest"}),
            ("latest", {"startingOffsets": "latest"}),
            ({"t": {0: 5, 1: "latest", 2: "earliest"}}, {"startingOffsets": json.dumps({"t": {"0": 5, "1": -1, "2": -2}})}),
            ("1970-01-02", {"startingTimestamp": "86400000", "startingOffsetsByTimestampStrategy": "latest"}),
            (hf.Timestamp(1.0001), {"startingTimestamp": "1001", "startingOffsetsByTimestampStrategy": "latest"}),
            (
                datetime.datetime(1970, 1, 1, 0, 0, 5, tzinfo=datetime.timezone.utc),
                {"startingTimestamp": "5000", "startingOffsetsByTimestampStrategy": "latest"},
            ),
        ],
    )
    def test_as_options_of_spark(self, start, options):
        assert start_options(start) == options


def test_without_a_connector_it_says_what_to_run(monkeypatch, tmp_path):
    from py4j.protocol import Py4JJavaError

    class Loader:
        def loadClass(self, name):
            raise Py4JJavaError.__new__(Py4JJavaError)

    thread = type("Thread", (), {"getContextClassLoader": lambda self: Loader()})
    java = type("Java", (), {"lang": type("Lang", (), {"Thread": type("T", (), {"currentThread": staticmethod(thread)})})})
    spark = type("Spark", (), {"_jvm": type("Jvm", (), {"java": java})})()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(HoldfastError, match=r"hf\.sources\.Kafka needs Spark's Kafka connector") as raised:
        check_kafka(spark, "hf.sources.Kafka")
    assert "run `holdfast jars kafka` once" in raised.value.todo
    assert "spark.jars" in raised.value.todo


def test_a_source_says_what_it_is():
    assert repr(source(topics=["a", "b"], options={LOGIN: hf.sources.FromEnv("X")})) == (
        "Kafka('localhost:9092', 'a, b', value=Raw)"
    )
    assert repr(sink(["a:1", "b:2"])) == "Kafka('a:1,b:2', 'alerts')"
    assert sink(["a:1", "b:2"]).place == sink("b:2, a:1").place != sink("c:3").place
