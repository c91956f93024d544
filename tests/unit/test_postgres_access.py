"""How `Postgres` is told where the server is: passwords are nowhere but where the user keeps them. Without a server."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("psycopg")

import holdfast as hf
from holdfast.spark.sinks.sql.postgres_access import PostgresAccess

SECRET = "hunter2"


@pytest.mark.parametrize(
    "conninfo",
    [
        f"host=db password={SECRET}",
        f"postgresql://me:{SECRET}@db/shop",
        f"postgresql://db/shop?password={SECRET}",
        f"host=db sslpassword='{SECRET}'",
        f"host=db {SECRET}",
        f"host=db pasword={SECRET}",
        f"dbname=postgresql://me:{SECRET}@db/shop",
        f"postgresql://me:{SECRET}@db:notaport:7/shop",
        f"host='db {SECRET}",
        f"\ud800{SECRET}",
        None,
    ],
)
def test_a_password_in_the_connection_string_is_refused_and_not_repeated(conninfo):
    with pytest.raises(hf.InvalidStep, match=r"connection string (has a password|cannot be read)") as refused:
        hf.sinks.Postgres(conninfo, "t")
    error: BaseException | None = refused.value
    while error is not None:
        assert SECRET not in f"{error!r} {error} {vars(error)}"
        error = error.__cause__ or error.__context__


def test_a_sink_shows_where_it_writes_and_nothing_else():
    sink = hf.sinks.Postgres("postgresql://me@db:5433/shop?sslmode=verify-full&options=-cx%3Dy", "totals", schema="sales")
    assert repr(sink) == "Postgres('host=db port=5433 dbname=shop user=me', 'sales.totals')"
    assert sink.place == hf.sinks.Postgres("user=me port=5433 dbname=shop host=db", "totals", schema="sales").place
    assert sink.place != hf.sinks.Postgres("user=me port=5433 dbname=shop host=db", "totals").place


def test_all_problems_are_told_together():
    with pytest.raises(hf.InvalidStep) as refused:
        hf.sinks.Postgres("password=x", "", password_env="", password_file="x", retry_for="soon", batch_column="a\0")
    told = "\n".join(refused.value.problems)
    for said in (
        "table name",
        "column name",
        "has a password",
        "one of them only",
        "password_env must be",
        "retry_for is 'soon'",
    ):
        assert said in told
    with pytest.raises(hf.InvalidStep, match="cannot be negative"):
        hf.sinks.Postgres("", "t", retry_for=-1)


@pytest.mark.parametrize("content", [b"", b"\n", b"a\nb", b"\xff\xfe", b"a\0b", None])
def test_files_that_have_no_password(tmp_path, content):
    if content is not None:
        (tmp_path / "secret").write_bytes(content)
    with pytest.raises(hf.SinkError, match="assword for host=db"):
        PostgresAccess("host=db", password_file=str(tmp_path / "secret"))._password()


def test_it_is_read_anew_each_time(tmp_path, monkeypatch):
    access = PostgresAccess("host=db", password_file=str(tmp_path / "secret"))
    for secret in ("first", "sécond "):
        (tmp_path / "secret").write_text(f"{secret}\r\n", encoding="utf-8")
        assert access._password() == {"password": secret}
    access = PostgresAccess("host=db", password_env="MINE")
    with pytest.raises(hf.SinkError, match="no variable 'MINE'"):
        access._password()
    monkeypatch.setenv("MINE", "third")
    assert access._password() == {"password": "third"}
    assert "third" not in repr(access)


@pytest.mark.parametrize(
    ("package", "extra", "make"),
    [
        ("psycopg", "postgres", lambda: hf.sinks.Postgres("host=db", "t")),
        ("duckdb", "duckdb", lambda: hf.sinks.DuckDB("rows.duckdb", "t")),
    ],
)
def test_without_the_extra(monkeypatch, package, extra, make):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        hf.MissingExtra, match=rf"needs {package}, which is not installed: pip install 'holdfast\[{extra}\]'"
    ):
        make()


def test_with_a_version_that_is_too_old(monkeypatch):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "1.5.6")
    for make in (lambda: hf.sinks.Postgres("host=db", "t"), lambda: hf.sinks.DuckDB("rows.duckdb", "t")):
        with pytest.raises(hf.MissingExtra, match=r"or newer, and 1\.5\.6 is installed: pip install 'holdfast\["):
            make()


@pytest.mark.slow
def test_naming_the_sinks_imports_neither_library():
    code = "import sys, holdfast as hf; hf.sinks.Postgres, hf.sinks.DuckDB; print({'psycopg', 'duckdb'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
