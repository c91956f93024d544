"""How local checkpoints are written is chosen only where it is known to be right."""

from __future__ import annotations

from types import SimpleNamespace

import pyspark
import pytest

from holdfast.spark.session.checkpoint_files import file_settings, local_file_settings

OPTION = "spark.sql.streaming.checkpointFileManagerClass"


def session_with(**options):
    return SimpleNamespace(conf=SimpleNamespace(get=lambda name, default: options.get(name, default)))


@pytest.mark.parametrize("path", ["/data/checkpoint", "file:/data/checkpoint", "relative/checkpoint"])
def test_a_local_checkpoint(path):
    assert list(file_settings(session_with(), path)) == [OPTION]


@pytest.mark.parametrize("path", ["hdfs://there/checkpoint", "s3a://bucket/checkpoint", "viewfs://there/checkpoint"])
def test_elsewhere_sparks_default_stays(path):
    assert file_settings(session_with(), path) == {}


def test_a_choice_stays():
    assert file_settings(session_with(**{OPTION: "com.example.Own"}), "/data/checkpoint") == {}


def test_of_another_version_nothing_is_known(monkeypatch):
    monkeypatch.setattr(pyspark, "__version__", "4.9.0")
    assert local_file_settings() == {}
