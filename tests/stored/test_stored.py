"""Checkpoints and savepoints that earlier versions made are opened, and their jobs go on as if nothing had happened.

Each archive here was made by `jobs.py` with the code of its time. Add one when a stored format changes; remove none.
"""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.checkpoint.blob_reader import BlobReader
from holdfast.checkpoint.layout import open_checkpoint
from holdfast.checkpoint.schema_paths import place_schemas
from holdfast.engine.state.key_group import Layout
from holdfast.engine.stored.evolution import adapted
from holdfast.engine.stored.manifest import Evolution, make_manifest
from holdfast.engine.stored.reading import Blobs, read_group
from holdfast.model.functions.grouping import build_grouping
from holdfast.model.functions.options import StepOptions
from holdfast.ops import checkpoint_verify, read_state, savepoint_restore, savepoint_verify

from . import jobs

ARCHIVES = sorted(Path(__file__).parent.glob("*.tar.gz"))


@pytest.fixture(scope="module")
def undisturbed(spark, tmp_path_factory):
    """What each job gives for the second part when this version has done everything."""
    given = {}
    for name in jobs.JOBS:
        home = tmp_path_factory.mktemp(name)
        jobs.write_part(home / "in", 0)
        jobs.rows_of(spark, name, home / "in", home / "checkpoint")
        jobs.write_part(home / "in", 1)
        given[name] = sorted(jobs.rows_of(spark, name, home / "in", home / "checkpoint"))
        assert len(given[name]) >= 5
    return given


@pytest.fixture(params=ARCHIVES, ids=lambda archive: archive.name.removesuffix(".tar.gz"))
def stored(request, tmp_path):
    """The name of a job, and the folder with its checkpoint and savepoint as they were stored."""
    with tarfile.open(request.param) as archive:
        archive.extractall(tmp_path, filter="data")
    (home,) = tmp_path.iterdir()
    # Spark's metadata names schemas by absolute paths, as of where the checkpoint was made.
    place_schemas(open_checkpoint(None, str(home / "checkpoint")), str(home / "checkpoint"))
    return home.name, home


def test_there_is_one_of_each_job():
    assert {archive.name.removesuffix(".tar.gz").rpartition("@")[0] for archive in ARCHIVES} == set(jobs.JOBS)


def test_a_job_goes_on(spark, stored, undisturbed):
    name, home = stored
    assert checkpoint_verify(spark, str(home / "checkpoint")).problems == []
    jobs.write_part(home / "in", 1)
    assert sorted(jobs.rows_of(spark, name, home / "in", home / "checkpoint")) == undisturbed[name]


def test_a_savepoint_is_restored(spark, stored, undisturbed):
    name, home = stored
    assert savepoint_verify(spark, str(home / "savepoint"))[1] == []
    savepoint_restore(spark, str(home / "savepoint"), str(home / "restored"))
    jobs.write_part(home / "in", 1)
    assert sorted(jobs.rows_of(spark, name, home / "in", home / "restored")) == undisturbed[name]


def test_tools_read_it(spark, stored):
    _, home = stored
    keys = {str(row.key) for row in read_state(spark, str(home / "checkpoint")).collect()}
    assert len(keys) == 3


def test_sessions_of_the_first_form_become_those_of_today(tmp_path):
    """Without Spark: what is stored of each key, before and after it is opened."""
    with tarfile.open(Path(__file__).parent / "sessions@0.1.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    checkpoint = open_checkpoint(None, str(tmp_path / "sessions" / "checkpoint"))
    (operator,) = checkpoint.operators()
    found = {}
    for partition in BlobReader(checkpoint).partitions(operator.number, max(checkpoint.committed())):
        for blobs in partition.groups.values():
            store = Blobs(dict(blobs.items()))
            assert {"panes", "value"} <= {cell.spec.name for cell in read_group(store).cells()}
            _open_as_sessions(store)
            group = read_group(store)
            assert [cell["kind"] for cell in group.manifest["cells"]] == ["sessions"]
            found |= {cell.slot: cell.table.reveal(cell.slot) for cell in group.cells()}
    assert found == {"a": [_session(70, 30)], "b": [_session(75, 1)], "ü": [_session(6, 7)]}


def _open_as_sessions(store):
    """Opens a key group as a worker does that runs today's code."""
    stored = read_group(store).manifest
    step = build_grouping(hf.CombinePerKey(hf.Sum()), StepOptions(windowing=hf.Sessions(60), name=stored["name"]))
    told = {name: stored[name] for name in ("key", "key_groups", "backend", "parallel_over")}
    adapted(store, make_manifest(step.describe(), **told), Layout(step), Evolution())


def _session(start, total):
    times = {"start": hf.Timestamp(start), "end": hf.Timestamp(start + 60)}
    return {**times, "given": 0, "on_time": 0, "accumulators": {"value": total}}
