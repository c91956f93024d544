"""`holdfast jars`: what is fetched, checked and kept, from a repository on this machine; and when a session gets it."""

from __future__ import annotations

import functools
import hashlib
import http.server
import json
import os
import stat
import threading

import pytest

from holdfast import ops
from holdfast.cli.main import main
from holdfast.errors import HoldfastError
from holdfast.spark.session import connectors
from holdfast.spark.session.connectors import Jar, connector_jars, present_jars
from holdfast.spark.session.fetching import REPOSITORY
from holdfast.spark.session.kafka_connector import jar_settings

CONTENTS = {"one": b"1" * 100_000, "two": b"2" * 70_000}


@pytest.fixture
def wanted(monkeypatch):
    """A connector of two small jars."""
    jars = tuple(
        Jar("org.example", name, "1.0", len(content), hashlib.sha256(content).hexdigest())
        for name, content in CONTENTS.items()
    )
    monkeypatch.setitem(connectors.CONNECTORS, "kafka", {"4.3": jars})
    return jars


@pytest.fixture
def repository(wanted, tmp_path):
    """A folder laid out as a Maven repository, that has both."""
    for jar, content in zip(wanted, CONTENTS.values(), strict=True):
        path = tmp_path / "repository" / jar.path
        path.parent.mkdir(parents=True)
        path.write_bytes(content)
    return tmp_path / "repository"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(REPOSITORY, raising=False)
    return tmp_path / "cache" / "holdfast" / "jars" / "kafka-spark-4.3"


def statuses(found):
    return [file.status for file in found.files]


def test_they_are_fetched_once(repository, folder):
    shown = []
    found = ops.jars(repository=repository.as_uri(), report=lambda done, total: shown.append((done, total)))
    assert statuses(found) == ["fetched", "fetched"]
    assert [path.read_bytes() for path in present_jars("kafka")] == list(CONTENTS.values())
    assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
    assert shown == sorted(shown)
    assert shown[-1] == (170_000, 170_000)
    again = ops.jars(repository="file:///nowhere")
    assert statuses(again) == ["there", "there"]
    assert sorted(os.listdir(folder)) == ["one-1.0.jar", "two-1.0.jar"]


@pytest.mark.parametrize(
    "change", [lambda content: b"x" + content[1:], lambda content: content[:-1], lambda content: content * 2]
)
def test_another_file_is_not_kept(repository, folder, wanted, change):
    path = repository / wanted[1].path
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(HoldfastError, match=r"two-1\.0\.jar from file://.* is not the file that it should be"):
        ops.jars(repository=repository.as_uri())
    assert os.listdir(folder) == ["one-1.0.jar"]
    assert present_jars("kafka") is None
    assert jar_settings({}) == {}


def test_a_damaged_one_is_fetched_again(repository, folder):
    ops.jars(repository=repository.as_uri())
    (folder / "one-1.0.jar").write_bytes(b"x" * 100_000)
    assert statuses(ops.jars(fetch=False)) == ["damaged", "there"]
    assert statuses(ops.jars(repository=repository.as_uri())) == ["fetched", "there"]
    assert (folder / "one-1.0.jar").read_bytes() == CONTENTS["one"]


def test_by_http_and_the_environment(repository, folder, monkeypatch):
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(repository))
    monkeypatch.setattr(http.server.SimpleHTTPRequestHandler, "log_message", lambda *words: None)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv(REPOSITORY, f"http://127.0.0.1:{server.server_port}/")
        assert statuses(ops.jars()) == ["fetched", "fetched"]
        (folder / "one-1.0.jar").unlink()
        with pytest.raises(HoldfastError, match=r"could not be fetched from http://127\.0\.0\.1.* not found"):
            ops.jars(repository=f"http://127.0.0.1:{server.server_port}/elsewhere")
        server.shutdown()


def test_without_a_network_it_says_so_and_shows_no_secret(wanted, folder):
    with pytest.raises(HoldfastError) as raised:
        ops.jars(repository="http://ann:secret@127.0.0.1:1/maven?token=secret")
    assert "could not be fetched from http://127.0.0.1:1/maven" in str(raised.value)
    assert "HOLDFAST_MAVEN_REPOSITORY" in raised.value.todo
    assert "secret" not in str(raised.value)
    assert os.listdir(folder) == []


@pytest.mark.parametrize("given", ["repo1.maven.org", "ftp://host/maven", "https://", "/maven"])
def test_no_repository(wanted, folder, given):
    with pytest.raises(HoldfastError, match="is no URL"):
        ops.jars(repository=given)


def test_the_command(repository, folder, capfd):
    assert main(["jars", "--list"]) == 1
    assert capfd.readouterr().out.count("missing") == 2
    assert main(["jars", "kafka", "--repository", repository.as_uri()]) == 0
    said = capfd.readouterr().out
    assert said.splitlines()[-1] == f"spark.jars={(folder / 'one-1.0.jar').as_uri()},{(folder / 'two-1.0.jar').as_uri()}"
    assert main(["jars", "--list", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["complete"] is True
    assert main(["jars", "rabbits"]) == 1
    assert "There is no connector 'rabbits'" in capfd.readouterr().err


def test_an_unknown_spark(folder):
    with pytest.raises(HoldfastError, match=r"go with PySpark 5\.1\.0 is not known; known are those for Spark 4\.3"):
        connector_jars("kafka", "5.1.0")
    assert [jar.artifact for jar in connector_jars("kafka", "4.3.7")][:1] == ["spark-sql-kafka-0-10_2.13"]


class TestSettings:
    @pytest.fixture(autouse=True)
    def there(self, repository, folder, monkeypatch):
        for name in ("PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR", "SPARK_HOME"):
            monkeypatch.delenv(name, raising=False)
        self.ours = ops.jars(repository=repository.as_uri()).setting

    def test_they_are_put_on_the_class_path(self):
        assert jar_settings({"spark.master": "local"}) == {"spark.jars": self.ours}
        assert jar_settings({"spark.jars": "/mine.jar"}) == {"spark.jars": f"/mine.jar,{self.ours}"}

    @pytest.mark.parametrize("option", ["spark.jars", "spark.jars.packages", "spark.driver.extraClassPath"])
    def test_not_beside_a_connector_of_the_users(self, option):
        assert jar_settings({option: "org.apache.spark:spark-sql-Kafka-0-10_2.13:4.3.0"}) == {}

    @pytest.mark.parametrize("words", ["--packages a:b:1 pyspark-shell", "--jars a.jar pyspark-shell"])
    def test_not_over_jars_of_the_command_line(self, monkeypatch, words):
        monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", words)
        assert jar_settings({}) == {}

    @pytest.mark.parametrize(("line", "is_kept"), [("spark.jars /a.jar", True), ("# spark.jars /a.jar", False), ("", False)])
    def test_not_over_jars_of_the_defaults(self, monkeypatch, tmp_path, line, is_kept):
        monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
        (tmp_path / "spark-defaults.conf").write_text(f"spark.app.name x\n{line}\n")
        assert (jar_settings({}) == {}) is is_kept
