"""Paths that Spark's reader of state would escape, and then not find."""

from __future__ import annotations

import os

import pytest

from holdfast.checkpoint.files.links import for_state_reader
from holdfast.checkpoint.files.paths import for_reader
from holdfast.errors import CheckpointError


@pytest.mark.parametrize("path", ["/data/c", "/data/c-1_2.x/größe", "hdfs://name:8020/data/c", "s3a://bucket/c"])
def test_plain_paths_stay(path):
    assert for_state_reader(path).endswith(path)


@pytest.mark.parametrize("name", ["my data", "50%", "a%20b", "a#b", "x[1]", "{y}", "a?", "back\\slash", "a\tb"])
def test_others_are_given_by_a_link(tmp_path, name):
    (tmp_path / name / "offsets").mkdir(parents=True)
    found = for_state_reader(str(tmp_path / name))
    assert found == for_state_reader(f"file:{tmp_path / name}/") == for_state_reader(str(tmp_path / name))
    assert found.startswith("file:/")
    assert not set(found) & set(" %#[]{}?\\\t")
    assert os.listdir(found.removeprefix("file:")) == ["offsets"]


def test_elsewhere_there_are_no_links():
    with pytest.raises(CheckpointError, match="because of the character ' ' in its path"):
        for_state_reader("hdfs://name/my data/c")


def test_what_a_reader_of_files_would_take_for_a_pattern():
    assert for_reader("/my data/x[1]{y}*?\\") == "file:/my data/x\\[1\\]\\{y\\}\\*\\?\\\\"
    assert for_reader("hdfs://name:8020/data/c") == "hdfs://name:8020/data/c"
