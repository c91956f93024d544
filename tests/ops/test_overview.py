"""`holdfast checkpoint show`: a checkpoint as a whole, without Spark, and nothing altered."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.checkpoint.lock import holding
from holdfast.cli.main import main
from holdfast.errors import CheckpointError, CorruptState
from holdfast.ops.inspect.overview import checkpoint_show
from holdfast.testing.spark_runtime import scripted_session

from .shared import BATCHES, copied, payments, tree


@pytest.fixture(scope="module")
def checkpoint():
    """Only to be looked at."""
    path = payments().checkpoint
    before = tree(path)
    yield path
    assert tree(path) == before


@pytest.fixture
def copy(tmp_path):
    return copied(tmp_path / "copy")


def test_what_there_is(checkpoint):
    found = checkpoint_show(None, checkpoint)
    # The watermark makes one more, without data.
    last = found.committed[-1]
    assert last >= BATCHES - 1
    assert (found.job, found.used_by, found.batch, found.is_committed) == ("payments", None, last, True)
    assert found.committed == found.retained == list(range(last + 1))
    assert found.planned == []
    # As many as the session had when the job ran.
    partitions = [folder for folder in (Path(checkpoint) / "state" / "0").iterdir() if folder.name.isdecimal()]
    assert (found.partitions, len(found.operators)) == (len(partitions), 2)
    assert found.query_id == json.loads((Path(checkpoint) / "metadata").read_text())["id"]
    assert [(step.name, step.backend, step.key_groups) for step in found.steps] == [
        ("everything", "heap", 8),
        ("running", "heap", 8),
    ]
    assert found.steps[0].timers == ["due"]
    assert "by_kind" in found.steps[0].cells
    for operator in found.operators:
        assert operator.is_a_step
        assert (operator.partitions, operator.last_version) == (len(partitions), last + 1)
        assert operator.changelogs == list(range(1, last + 2))
        assert operator.changelog_bytes > 0


def test_sizes_are_those_of_the_files(checkpoint):
    found = checkpoint_show(None, checkpoint)
    files = [path for path in Path(checkpoint).rglob("*") if path.is_file() and not path.name.endswith(".crc")]
    assert sum(found.sizes.values()) == sum(path.stat().st_size for path in files)
    assert {"metadata", "offsets", "commits", "sources", "state/0", "state/1", "holdfast"} == set(found.sizes)
    state = sum(o.snapshot_bytes + o.changelog_bytes for o in found.operators)
    assert 0 < state <= found.sizes["state/0"] + found.sizes["state/1"]


def test_an_earlier_micro_batch(checkpoint):
    first, second = (checkpoint_show(None, checkpoint, batch=batch) for batch in (0, 1))
    assert [(source.before, source.after) for source in first.sources] == [(None, {"logOffset": 0})]
    assert [(source.before, source.after) for source in second.sources] == [({"logOffset": 0}, {"logOffset": 1})]
    assert first.watermark is None
    assert second.watermark == first.next_watermark == "1970-01-01T00:02:26.000+00:00"
    assert second.batch_time > first.batch_time


def test_the_same_through_spark(checkpoint):
    assert checkpoint_show(scripted_session(), f"file://{checkpoint}").sizes == checkpoint_show(None, checkpoint).sizes


def test_as_json_and_for_people(checkpoint, capfd):
    assert main(["checkpoint", "show", checkpoint, "--json"]) == 0
    result = json.loads(capfd.readouterr().out)
    assert result == json.loads(json.dumps(checkpoint_show(None, checkpoint).as_dict()))
    assert main(["checkpoint", "show", checkpoint + "/", "--batch", "1"]) == 0
    said = capfd.readouterr().out
    for text in (
        "payments",
        "nobody",
        "1 (committed)",
        '{"logOffset": 1}',
        "everything",
        "state/1",
        "offset before micro-batch 1",
    ):
        assert text in said


def test_no_spark_is_started(checkpoint):
    code = (
        "import sys; from holdfast.cli.main import main; "
        "code = main(['checkpoint', 'show', sys.argv[1], '--json']); "
        "from pyspark import SparkContext; assert SparkContext._gateway is None; sys.exit(code)"
    )
    path = str(Path(hf.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": path}
    subprocess.run([sys.executable, "-c", code, checkpoint], check=True, env=environment, stdout=subprocess.DEVNULL)


def test_who_is_using_it(copy, capfd):
    with holding(None, copy, "holdfast rescale"):
        user = checkpoint_show(None, copy).used_by
        assert (user["owner"], user["process"]) == ("holdfast rescale", os.getpid())
        assert main(["checkpoint", "show", copy]) == 0
        assert "holdfast rescale on" in capfd.readouterr().out


def test_a_micro_batch_that_was_begun(copy, capfd):
    last = checkpoint_show(None, copy).batch
    (Path(copy) / "commits" / str(last)).unlink()
    found = checkpoint_show(None, copy)
    assert (found.batch, found.planned, found.is_committed) == (last - 1, [last], True)
    assert main(["checkpoint", "show", copy]) == 0
    assert f"{last}; the next start processes it" in capfd.readouterr().out
    assert not checkpoint_show(None, copy, batch=last).is_committed


def test_before_the_first_micro_batch(copy):
    for folder in ("offsets", "commits"):
        for path in (Path(copy) / folder).iterdir():
            path.unlink()
    found = checkpoint_show(None, copy)
    assert (found.batch, found.committed, found.retained, found.sources) == (None, [], [], [])
    assert main(["checkpoint", "show", copy]) == 0


def test_bad_input(copy, tmp_path, capfd):
    before = tree(copy)
    for arguments, text in (
        ([str(tmp_path / "none")], "There is nothing at"),
        ([str(tmp_path)], "is not a checkpoint of a streaming query"),
        (
            [copy, "--batch", "99"],
            f"has no offsets of micro-batch 99; it has 0 to {checkpoint_show(None, copy).batch}.",
        ),
        ([copy, "--batch", "-1"], "has no offsets of micro-batch -1"),
    ):
        assert main(["checkpoint", "show", *arguments]) == 1
        assert text in capfd.readouterr().err
        assert main(["checkpoint", "show", *arguments, "--json"]) == 1
        assert text in json.loads(capfd.readouterr().err)["error"]["what"]
    assert main(["checkpoint", "show"]) == 2
    assert main(["checkpoint", "show", copy, "--batch", "x"]) == 2
    assert tree(copy) == before


def test_foreign_versions(copy, capfd):
    manifest = Path(copy) / "holdfast" / "manifest.json"
    content = manifest.read_text()
    manifest.write_text(content.replace('"manifest_version": 1', '"manifest_version": 9'))
    assert main(["checkpoint", "show", copy]) == 1
    assert "has version 9; this Holdfast knows version 1." in capfd.readouterr().err
    manifest.write_text(content)
    offsets = Path(copy) / "offsets" / str(checkpoint_show(None, copy).batch)
    offsets.write_text(offsets.read_text().replace("v1", "v7", 1))
    with pytest.raises(CheckpointError, match="has the version 'v7'"):
        checkpoint_show(None, copy)


def test_a_damaged_file_is_named(copy):
    offsets = Path(copy) / "offsets" / str(checkpoint_show(None, copy).batch)
    offsets.write_text("v1")
    with pytest.raises(CorruptState, match=f"offsets/{offsets.name}' is damaged"):
        checkpoint_show(None, copy)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_no_permission(copy, capfd):
    assert main(["checkpoint", "show", copy]) == 0
    Path(copy).chmod(0o700)
    os.seteuid(65534)
    try:
        assert main(["checkpoint", "show", copy]) == 1
    finally:
        os.seteuid(0)
    assert "error: Permission denied: " in capfd.readouterr().err
