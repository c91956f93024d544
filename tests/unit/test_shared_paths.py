"""Where a checkpoint is whose path names no file system."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest

import holdfast as hf
from holdfast.checkpoint.files.shared import resolved


def session(master, default):
    configuration = SimpleNamespace(get={"fs.defaultFS": default}.get)
    java = SimpleNamespace(hadoopConfiguration=lambda: configuration)
    return SimpleNamespace(sparkContext=SimpleNamespace(master=master, _jsc=java))


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*, 4]", "spark://host:7077", "yarn"])
@pytest.mark.parametrize("path", ["hdfs://name/data/c", "s3a://bucket/c", "file:/mnt/c", "file:///mnt/c"])
def test_a_path_that_names_its_file_system_is_taken_at_its_word(master, path):
    assert resolved(session(master, "hdfs://name:8020"), path) == path


@pytest.mark.parametrize("path", ["file:data/c", "file://data/c", "file:", "file://localhost/data/c"])
def test_after_file_comes_an_absolute_path(path):
    with pytest.raises(hf.CheckpointError, match="has no absolute path after 'file:'"):
        resolved(session("local", None), path)


@pytest.mark.parametrize("default", ["file:///", None])
@pytest.mark.parametrize("master", ["local", "local[2]", "local-cluster[2,1,1024]"])
def test_on_one_machine_it_is_local(master, default):
    assert resolved(session(master, default), "/data/c") == "/data/c"
    assert resolved(session(master, default), "here/c") == os.path.abspath("here/c")


@pytest.mark.parametrize("master", ["local[2]", "yarn"])
def test_it_is_on_the_default_file_system(master):
    assert resolved(session(master, "hdfs://name:8020"), "/data/c") == "hdfs://name:8020/data/c"


@pytest.mark.parametrize("master", ["spark://host:7077", "yarn", "k8s://https://host"])
def test_on_a_cluster_it_must_not_be_each_nodes_own_disk(master):
    with pytest.raises(hf.CheckpointError, match="every node would keep its part") as caught:
        resolved(session(master, "file:///"), "/data/c")
    assert "file:///data/c" in caught.value.todo
