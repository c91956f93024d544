"""Checkpoints and savepoints that earlier versions made are opened, and their jobs go on as if nothing had happened.

Each archive here was made by `jobs.py` with the code of its time. Add one when a stored format changes; remove none.
"""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from holdfast.checkpoint.layout import open_checkpoint
from holdfast.checkpoint.schema_paths import place_schemas
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
