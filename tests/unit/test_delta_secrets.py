"""What the sink Delta is told to reach its storage is in no message, and its library is needed only by those who use it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("deltalake")

import holdfast as hf
from delta_rows import BY_K, SPARK_SCHEMA, Rows
from holdfast.spark.sinks import BatchInfo

SECRET = "hunter2/hunter2+=="


def remote(**options):
    given = {
        "aws_secret_access_key": SECRET,
        "aws_access_key_id": "AKIDEXAMPLE",
        "aws_region": "nowhere",
        "aws_endpoint": f"http://user:{SECRET}@127.0.0.1:1",
        "aws_allow_http": "true",
        "max_retries": "0",
    }
    return hf.sinks.Delta("s3://bucket/table", storage_options=given, **options)


class TestSecrets:
    def test_they_are_in_no_message(self):
        sink = remote()
        with pytest.raises(hf.SinkError, match="could not be written") as refused:
            sink.open(None, SPARK_SCHEMA, None)
        told = [str(refused.value), repr(refused.value), repr(sink), repr(sink.upserting(BY_K)), repr(vars(sink))]
        told += [str(sink.place), repr(refused.value.__cause__), str(refused.value.__reduce__())]
        assert not any(SECRET in text or "hunter2" in text or "AKIDEXAMPLE" in text for text in told)
        assert refused.value.__suppress_context__
        assert "\x1b" not in str(refused.value)

    def test_those_of_the_environment(self, monkeypatch):
        monkeypatch.setenv("AWS_SESSION_TOKEN", "token-of-the-environment")
        storage = remote()._access.storage
        told = storage.cleaned(f"token-of-the-environment {SECRET} https://x/y?sig=abc&x=1 fine")
        assert told == "… … https://x/y?… fine"

    def test_a_file_with_options(self, tmp_path):
        file = tmp_path / "options.json"
        sink = hf.sinks.Delta(tmp_path / "rows", storage_options_file=file)
        for content, said in (
            (None, "No such file"),
            ("{", "not JSON"),
            ("[1]", "an object of texts"),
            ('{"a": 1}', "texts"),
        ):
            if content is not None:
                file.write_text(content)
            with pytest.raises(hf.SinkError, match=said):
                sink.open(None, SPARK_SCHEMA, None)
        file.write_text(json.dumps({"aws_secret_access_key": SECRET}))
        sink.open(None, SPARK_SCHEMA, None)
        assert SECRET not in repr(sink)
        file.write_text(json.dumps({"aws_secret_access_key": "another"}))
        sink.write_batch(Rows(("a", 1)), BatchInfo("q", 0))
        assert sink._access.storage.options() == {"aws_secret_access_key": "another"}
        written = b"".join(path.read_bytes() for path in (tmp_path / "rows").rglob("*") if path.is_file())
        assert SECRET.encode() not in written

    @pytest.mark.parametrize(
        "path", ["s3://user:pass@bucket/t", "https://x/t?sig=abc", "abfss://c@a.dfs.core.windows.net/t?s"]
    )
    def test_a_path_is_no_place_for_them(self, path):
        with pytest.raises(hf.InvalidStep, match="has credentials in it") as refused:
            hf.sinks.Delta(path)
        assert "pass" not in str(refused.value)
        assert "abc" not in str(refused.value)

    def test_an_account_in_a_path_is_none(self):
        assert repr(hf.sinks.Delta("abfss://container@account.dfs.core.windows.net/t")).endswith("windows.net/t')")

    @pytest.mark.parametrize("options", [{"key": 1}, [SECRET], SECRET])
    def test_options_that_are_none(self, tmp_path, options):
        with pytest.raises(hf.InvalidStep, match="no mapping of texts") as refused:
            hf.sinks.Delta(tmp_path, storage_options=options)
        assert SECRET not in str(refused.value)
        with pytest.raises(hf.InvalidStep, match="path is"):
            hf.sinks.Delta("")


def test_without_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(hf.MissingExtra) as raised:
        hf.sinks.Delta("rows")
    assert str(raised.value) == "hf.sinks.Delta needs deltalake, which is not installed: pip install 'holdfast[delta]'"
    assert raised.value.name == "deltalake"


def test_a_version_that_cannot_be_trusted(monkeypatch):
    monkeypatch.setattr("importlib.metadata.version", lambda package: "1.1.4")
    wanted = r"needs deltalake 1\.2 or newer, and 1\.1\.4 is installed: pip install 'holdfast\[delta\]'"
    with pytest.raises(hf.MissingExtra, match=wanted):
        hf.sinks.Delta("rows")
    for version in ("1.2.0", "1.10.0", "2.0.0rc1"):
        monkeypatch.setattr("importlib.metadata.version", lambda package, version=version: version)
        hf.sinks.Delta("rows")


@pytest.mark.slow
def test_holdfast_does_not_import_it():
    code = "import sys, holdfast.spark.sinks; sys.exit('deltalake' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
