"""State read straight from the files is, byte for byte, what Spark's own reader gives."""

from __future__ import annotations

import shutil
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import functions as F

from holdfast.checkpoint.blob_reader import BlobReader
from holdfast.checkpoint.files.links import for_state_reader
from holdfast.checkpoint.files.local import LocalFiles
from holdfast.checkpoint.layout import Checkpoint, open_checkpoint
from holdfast.checkpoint.schema_paths import place_schemas
from holdfast.ops import StateReader, rescale, state_diff, state_history, state_ls, state_show
from holdfast.ops.reading.blobs import blobs_frame, flat_blobs, rows_of
from holdfast.ops.reading.direct import DirectSource
from holdfast.ops.reading.through_spark import SparkSource
from holdfast.spark.steps.seeding import blobs_reader

from .checkpoints import moved_copy
from .payments import Payments
from .readings import Readings
from .shared import payments as shared_payments

CODEC = "spark.sql.streaming.stateStore.compression.codec"
STORED = Path(__file__).parent.parent / "stored"
RESTARTED = ((0, 1), (2,))
"""The files of a job that is restarted in between."""


@pytest.fixture(scope="module")
def made(spark, tmp_path_factory):
    """Checkpoints by what is special about them."""
    return Made(spark, tmp_path_factory.mktemp("direct"))


class Made(dict[str, str]):
    """Each checkpoint is made when it is asked for."""

    def __init__(self, spark, folder):
        super().__init__()
        self.spark = spark
        self.folder = folder

    def __missing__(self, name):
        makers = {"disk": self.disk, "of an earlier version": self.earlier, "shared operator, zstd": self.sharing}
        path = self[name] = makers[name]() if name in makers else self.copied(name)
        return path

    def copied(self, name):
        plain = shared_payments().checkpoint
        if name == "changelogs and snapshots":
            return plain
        copy = str(moved_copy(Path(plain), self.folder / name.replace(" ", "-")))
        if name == "changelogs only":
            for snapshot in Path(copy).glob("state/*/*/*.zip"):
                snapshot.unlink()
        else:
            rescale(self.spark, copy, **{"rescaled": {"partitions": 3}, "regrouped": {"key_groups": 5}}[name])
        return copy

    def disk(self):
        payments = Payments(self.spark, self.folder / "disk")
        for batches in RESTARTED:
            payments.add(*batches)
            payments.run(backend="disk", key_groups=4)
        return payments.checkpoint

    def sharing(self):
        readings = Readings(self.spark, self.folder / "readings")
        for batches in RESTARTED:
            readings.add(*batches)
            with_zstd(self.spark, lambda: readings.run(self.folder / "shared"))
        return str(self.folder / "shared")

    def earlier(self):
        with tarfile.open(STORED / "every-cell@0.1.tar.gz") as archive:
            archive.extractall(self.folder, filter="data")
        path = str(self.folder / "every-cell" / "checkpoint")
        place_schemas(open_checkpoint(None, path), path)
        return path


def with_zstd(spark, work):
    before = spark.conf.get(CODEC)
    spark.conf.set(CODEC, "zstd")
    try:
        return work()
    finally:
        spark.conf.set(CODEC, before)


CASES = [
    "changelogs and snapshots",
    "changelogs only",
    pytest.param("disk", marks=pytest.mark.night),
    "of an earlier version",
    pytest.param("regrouped", marks=pytest.mark.night),
    pytest.param("rescaled", marks=pytest.mark.night),
    "shared operator, zstd",
]


@pytest.fixture(params=CASES)
def case(request, made, spark):
    """A checkpoint, with the setting by which Spark reads it."""
    before = spark.conf.get(CODEC)
    spark.conf.set(CODEC, "zstd" if "zstd" in request.param else before)
    yield open_checkpoint(None, made[request.param])
    spark.conf.set(CODEC, before)


def places(checkpoint):
    operators = [operator.number for operator in checkpoint.operators() if operator.is_a_step]
    return [(operator, batch) for operator in operators for batch in checkpoint.retained()]


def test_every_micro_batch_of_every_operator(spark, case):
    frames = [
        blobs_frame(spark, case, operator, batch).select(F.lit(operator), F.lit(batch), "label", "name", "blob")
        for operator, batch in places(case)
    ]
    everything = frames[0]
    for frame in frames[1:]:
        everything = everything.union(frame)
    expected = {tuple(row[:4]): bytes(row[4]) for row in rows_of(everything, case.path)}
    assert len(expected) > 5

    reader = BlobReader(case)
    found, manifests, one_by_one = {}, {}, {}
    for operator, batch in places(case):
        for label, blobs in reader.groups(operator, batch):
            found |= {(operator, batch, label, name): blob for name, blob in blobs.items()}
            for at, again in reader.groups(operator, batch, [label]):
                one_by_one |= {(operator, batch, at, name): blob for name, blob in again.items()}
        for label, manifest in reader.manifests(operator, batch).items():
            manifests[operator, batch, label] = manifest["name"]

    assert found == expected
    assert one_by_one == expected
    assert manifests.keys() == {place[:3] for place in expected}


def test_what_each_micro_batch_changed(spark, case):
    reader = BlobReader(case)
    compared = 0
    for operator in {operator for operator, _ in places(case)}:
        batches = [batch for run in reader.runs(operator, case.retained()) for batch in run[1:]]
        if not batches:
            continue
        feed = blobs_reader(spark, operator).option("readChangeFeed", "true")
        feed = feed.option("changeStartBatchId", batches[0]).option("changeEndBatchId", batches[-1])
        flat = flat_blobs(feed.load(for_state_reader(case.path)), F.col("batch_id"), F.col("change_type"))
        expected = [(*row[:4], None if row[4] is None else bytes(row[4])) for row in rows_of(flat, case.path)]
        found = [tuple(change) for change in reader.changes(operator, batches[0], batches[-1])]
        assert sorted(found, key=repr) == sorted(expected, key=repr)
        compared += len(found)
    assert compared or len(case.retained()) == 1


def test_folders_are_listed_as_often_for_many_micro_batches_as_for_few(made, monkeypatch):
    """A running job keeps hundreds of files, and a hundred micro-batches."""
    case = open_checkpoint(None, made["changelogs and snapshots"])
    looked = []
    operator = Checkpoint.operator

    def looking(self, number):
        looked.append(number)
        return operator(self, number)

    monkeypatch.setattr(Checkpoint, "operator", looking)
    source = DirectSource(case)
    counts = []
    for batches in (case.retained()[:2], case.retained()):
        monkeypatch.setattr(case, "check_history", lambda batches=batches: batches)
        looked.clear()
        assert [batch for batch, _ in source.versions(source.steps(batches[-1])[0], None)] == batches
        counts.append(len(looked))
    assert len(case.retained()) > 2
    assert counts[0] == counts[1]


def test_both_sources_say_the_same(spark, case):
    direct, through_spark = DirectSource(case), SparkSource(spark, case)
    batch = case.retained()[-1]
    steps = direct.steps(batch)
    assert steps == through_spark.steps(batch)
    step = steps[0]
    found = [(label, dict(blobs.items())) for label, blobs in direct.groups(step, batch)]
    assert found == [(label, dict(blobs.items())) for label, blobs in through_spark.groups(step, batch)]
    for at, groups in through_spark.versions(step, None):
        again = dict(direct.versions(step, None))[at]
        assert {k: dict(v.items()) for k, v in again.items()} == {k: dict(v.items()) for k, v in groups.items()}


@pytest.mark.night
def test_what_the_tools_say_is_the_same_without_spark(spark, made, monkeypatch):
    path = made["changelogs and snapshots"]
    key = state_show(None, path, step="running", limit=1).cells[0].key

    def answers():
        return [
            state_ls(spark, path),
            state_show(spark, path, limit=1000),
            state_show(spark, path, key=key),
            # The text of a set has no order of its own.
            [replace(change, old="", new="") for change in state_diff(spark, path, 1, 3).changes],
            state_history(spark, path, key),
        ]

    directly = answers()
    monkeypatch.setattr(LocalFiles, "needs_spark", True)
    assert answers() == directly


@pytest.mark.night
def test_a_reader_says_what_the_tools_say(made):
    path = made["shared operator, zstd"]
    reader = StateReader(path)
    batches = open_checkpoint(None, path).retained()
    assert reader.batches() == batches
    assert [step.name for step in reader.steps()] == ["alarms", "levels", "rooms"]
    for batch in batches:
        for step in reader.steps(batch):
            shown = state_show(None, path, step=step.name, batch=batch, limit=1000).cells
            page = reader.page(step.name, batch=batch, limit=1000)
            assert sorted(map(repr, shown)) == sorted(repr(cell) for key in page.keys for cell in key.cells)
            assert not page.more
            assert reader.count(step.name, batch=batch) == len(page.keys)
            assert reader.labels(step.name, batch) == sorted({*reader.labels(step.name, batch)})
            pages = [reader.page(step.name, batch=batch, offset=at, limit=1) for at in range(len(page.keys))]
            assert [key for one in pages for key in one.keys] == page.keys
            assert [one.more for one in pages] == [True] * (len(pages) - 1) + [False] * bool(pages)
            for key in page.keys:
                assert reader.key(step.name, key.key, batch=batch) == key.cells
    room = reader.page("alarms", limit=1).keys[0].key
    assert reader.history("alarms", room) == state_history(None, path, room, step="alarms")
    assert reader.history("alarms", room) == state_history(None, path, room, step="alarms")
    with_prefix = reader.page("alarms", prefix="room 1", limit=1000).keys
    assert [key.key for key in with_prefix] == [
        key.key for key in reader.page("alarms", limit=1000).keys if key.key.startswith("room 1")
    ]
    assert reader.key("alarms", "nowhere") == []
    reader.close()
    assert reader.batches() == batches


def test_a_reader_sees_what_is_replaced(made, tmp_path):
    """Another checkpoint at the same path: nothing of the first is shown."""
    path = tmp_path / "checkpoint"
    shutil.copytree(made["changelogs and snapshots"], path)
    reader = StateReader(str(path))
    before = [reader.page(step.name, limit=1000) for step in reader.steps()]
    shutil.rmtree(path)
    shutil.copytree(made["shared operator, zstd"], path)
    after = [reader.page(step.name, limit=1000) for step in reader.steps()]
    assert after == [StateReader(made["shared operator, zstd"]).page(step.name, limit=1000) for step in reader.steps()]
    assert after != before
