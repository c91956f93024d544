"""How local checkpoints are written is chosen only where it is known to be right."""

from __future__ import annotations

from types import SimpleNamespace

import pyspark
import pytest

from holdfast.spark.session import checkpoint_files
from holdfast.spark.session.checkpoint_files import file_settings, keep_safe, local_file_settings

OPTION = "spark.sql.streaming.checkpointFileManagerClass"


def session_with(**options):
    conf = SimpleNamespace(get=lambda name, default: options.get(name, default), unset=options.pop)
    return SimpleNamespace(conf=conf, options=options)


@pytest.fixture(params=[True, False], ids=["replacing", "not-replacing"])
def replaces(request, monkeypatch):
    """Whether a file that is renamed replaces one that is there, in the session's JVM."""
    monkeypatch.setattr(checkpoint_files, "_replaces_files", lambda spark: request.param)
    return request.param


@pytest.mark.parametrize("path", ["/data/checkpoint", "file:/data/checkpoint", "relative/checkpoint"])
def test_a_local_checkpoint(path, replaces):
    chosen = local_file_settings()[OPTION]
    assert file_settings(session_with(), path) == ({OPTION: chosen} if replaces else {})


def test_a_choice_by_which_state_could_be_lost_does_not_stay(replaces):
    chosen = local_file_settings()[OPTION]
    [found] = file_settings(session_with(**{OPTION: chosen}), "/data/checkpoint").values()
    assert (found == chosen) is replaces
    session = session_with(**{OPTION: chosen})
    keep_safe(session)
    assert (OPTION in session.options) is replaces


@pytest.mark.parametrize("path", ["hdfs://there/checkpoint", "s3a://bucket/checkpoint", "viewfs://there/checkpoint"])
def test_elsewhere_sparks_default_stays(path):
    assert file_settings(session_with(), path) == {}


def test_a_choice_stays():
    assert file_settings(session_with(**{OPTION: "com.example.Own"}), "/data/checkpoint") == {}


def test_of_another_version_nothing_is_known(monkeypatch):
    monkeypatch.setattr(pyspark, "__version__", "4.9.0")
    assert local_file_settings() == {}
