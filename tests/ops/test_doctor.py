"""`holdfast doctor`: what it finds, and what it advises."""

from __future__ import annotations

import json
import re
import socket
import types
from pathlib import Path

import pytest

from holdfast.cli.main import main
from holdfast.ops.upkeep import doctor

ROOT = Path(__file__).parents[2]


@pytest.fixture
def found():
    """The checks by name, without Spark."""
    return lambda: {check.name: check for check in doctor.doctor(with_spark=False)}


@pytest.fixture
def java(tmp_path, monkeypatch):
    """A Java that says what it is told to."""

    def make(says, code=0):
        (tmp_path / "bin").mkdir(exist_ok=True)
        command = tmp_path / "bin" / "java"
        command.write_text(f"#!/bin/sh\necho '{says}' >&2\nexit {code}\n")
        command.chmod(0o755)
        monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    return make


def test_the_ranges_are_those_of_the_project():
    text = (ROOT / "pyproject.toml").read_text()
    for name, (lowest, below) in doctor.RANGES.items():
        wanted = f"{name}>={doctor._text(lowest)}" + (f",<{doctor._text(below)}" if below else "")
        assert f'"{wanted}"' in text
    assert f'requires-python = ">={doctor._text(doctor._PYTHON)}"' in text
    optional = {
        "datasketches",
        "deltalake",
        "duckdb",
        "fastapi",
        "fastavro",
        "fsspec",
        "river",
        "textual",
        "tomli",
        "uvicorn",
    }
    known = set(doctor.RANGES) | optional | {"rich", "typer"}
    listed = re.findall(r'"([a-z]+)[><=]', text.partition("[project]")[2].partition("dev = [")[0])
    assert set(listed) - known == set()


@pytest.mark.night
def test_this_machine_is_well(capfd):
    assert main(["doctor", "--json"]) == 0
    result = json.loads(capfd.readouterr().out)
    assert result["ok"] is True
    checks = {check["name"]: check for check in result["checks"]}
    assert {"Python", "Java", "pyspark", "memory", "cores", "disk", "host name", "a local session"} <= set(checks)
    assert checks["a local session"]["found"].startswith("starts and runs a Python worker")


def test_for_people_without_spark(capfd):
    assert main(["doctor", "--no-spark"]) == 0
    said = capfd.readouterr().out
    assert re.search(r"^ok +Java: ", said, re.MULTILINE)
    assert "a local session" not in said


@pytest.mark.parametrize(
    ("says", "code", "status", "text"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 0, "ok", '"17.0.15"'),
        ('openjdk version "21" 2023-09-19', 0, "ok", '"21"'),
        ('java version "1.8.0_392"', 0, "failed", '"1.8.0_392"'),
        ('openjdk version "11.0.2"', 0, "failed", '"11.0.2"'),
        ("no such thing", 0, "failed", "does not say its version"),
        ("broken", 3, "failed", "does not say its version: broken"),
    ],
)
def test_java(java, found, says, code, status, text):
    java(says, code)
    check = found()["Java"]
    assert check.status == status
    assert text in check.found
    assert bool(check.advice) == (status == "failed")


def test_no_java(monkeypatch, tmp_path, capfd):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert main(["doctor"]) == 1
    said = capfd.readouterr().out
    assert f"JAVA_HOME is {tmp_path}, but there is no" in said
    assert "not tried: first fix Java" in said
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["doctor", "--no-spark"]) == 1
    assert "Java: not found" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("name", "version", "status"),
    [
        ("pyspark", "4.3.2", "ok"),
        ("pyspark", "4.2.9", "failed"),
        ("pyspark", "4.4.0.dev1", "failed"),
        ("pandas", "3.0", "failed"),
        ("pandas", "2.10.1", "ok"),
        ("pyarrow", "18.0.0", "ok"),
        ("protobuf", "5.29.1", "failed"),
        ("numpy", None, "failed"),
    ],
)
def test_libraries(monkeypatch, found, name, version, status):
    before = doctor.importlib.metadata.version

    def told(asked):
        if asked != name:
            return before(asked)
        if version is None:
            raise doctor.importlib.metadata.PackageNotFoundError(asked)
        return version

    monkeypatch.setattr(doctor.importlib.metadata, "version", told)
    check = found()[name]
    assert check.status == status
    assert ("pip install" in check.advice) == (status == "failed")


def test_little_memory(monkeypatch, found):
    monkeypatch.setattr(doctor, "_total_memory", lambda: 3 << 30)
    monkeypatch.setattr(doctor, "_usable_cores", lambda: 4)
    checks = found()
    assert checks["memory"].status == "warning"
    assert "spark.driver.memory" in checks["memory"].advice
    assert "want 10.2 GB" in checks["memory"].found


def test_a_container_with_fewer_cores(monkeypatch, found):
    monkeypatch.setattr(doctor.os, "cpu_count", lambda: 8)
    monkeypatch.setattr(doctor, "_usable_cores", lambda: 2)
    assert found()["cores"].advice.endswith("hf.session(cores=2)")


@pytest.mark.parametrize(("free", "status"), [(100 << 20, "failed"), (2 << 30, "warning"), (50 << 30, "ok")])
def test_disk(monkeypatch, found, free, status):
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda folder: types.SimpleNamespace(free=free))
    assert found()["disk"].status == status


def test_no_disk(monkeypatch, found, tmp_path):
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / "none"))
    assert found()["disk"].status == "failed"


def test_a_host_name_that_nobody_knows(monkeypatch, found):
    def fail(name):
        raise socket.gaierror

    monkeypatch.setattr(doctor.socket, "gethostbyname", fail)
    check = found()["host name"]
    assert (check.status, "SPARK_LOCAL_IP" in check.advice) == ("warning", True)


def test_another_python_for_workers(monkeypatch, found, tmp_path):
    monkeypatch.setenv("PYSPARK_PYTHON", str(tmp_path / "python"))
    assert found()["Python"].status == "failed"
    monkeypatch.setenv("PYSPARK_PYTHON", "/bin/sh")
    assert found()["Python"].status == "warning"


def test_a_session_that_does_not_start(monkeypatch):
    monkeypatch.setattr(doctor, "_TRIAL", "raise OSError('the port is taken')")
    check = list(doctor.doctor())[-1]
    assert check.status == "failed"
    assert "the port is taken" in check.found
    monkeypatch.setattr(doctor, "_TRIAL", "import time; time.sleep(60)")
    monkeypatch.setattr(doctor, "_SPARK_SECONDS", 0.5)
    assert "did not start within" in list(doctor.doctor())[-1].found
