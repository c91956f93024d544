"""The tools on a file system that is not local to us: Hadoop leads its paths to a directory of the test."""

from __future__ import annotations

import threading
import uuid

import pytest

from holdfast.checkpoint.files.choice import files_of
from holdfast.cli.main import main
from holdfast.errors import CheckpointError
from holdfast.ops.inspect.state_frame import read_state
from holdfast.ops.move.export import state_export
from holdfast.ops.move.importing import state_import
from holdfast.ops.move.restore import savepoint_restore
from holdfast.ops.move.savepoint import savepoint_create
from holdfast.ops.upkeep.verify import checkpoint_verify

from .payments import Payments


@pytest.fixture
def elsewhere(spark, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    # Hadoop keeps what it knows of a name.
    name = f"tools{uuid.uuid4().hex}"
    configuration = spark.sparkContext._jsc.hadoopConfiguration()
    configuration.set(f"fs.viewfs.mounttable.{name}.link./data", (tmp_path / "elsewhere").as_uri())
    return f"viewfs://{name}/data"


def cells(spark, checkpoint):
    frame = read_state(spark, checkpoint, hidden=True).drop("key_group")
    return sorted(str(row) for row in frame.collect())


@pytest.mark.night
def test_there_and_back(spark, elsewhere, tmp_path):
    payments = Payments(spark, tmp_path / "payments")
    payments.add(0, 1)
    checkpoint = f"{elsewhere}/checkpoint"
    payments.run(checkpoint)
    before = cells(spark, checkpoint)
    assert checkpoint_verify(spark, checkpoint).is_whole

    savepoint_create(spark, checkpoint, str(tmp_path / "savepoint"))
    savepoint_restore(spark, str(tmp_path / "savepoint"), f"{elsewhere}/restored", key_groups=3)
    state_export(spark, f"{elsewhere}/restored", f"{elsewhere}/export")
    state_import(spark, f"{elsewhere}/export", f"{elsewhere}/imported")

    assert cells(spark, f"{elsewhere}/restored") == before
    assert cells(spark, f"{elsewhere}/imported") == before
    payments.add(2)
    expected = payments.run(checkpoint)
    assert payments.run(f"{elsewhere}/restored", key_groups=3) == expected
    assert payments.run(f"{elsewhere}/imported", key_groups=3) == expected


def test_a_file_is_read_while_it_is_put_in_anothers_place(spark, elsewhere, tmp_path):
    path, local = f"{elsewhere}/lock.json", tmp_path / "elsewhere" / "lock.json"
    files = files_of(spark, path)
    files.write(path, b"before")
    # For a moment, the checksums beside the file are still those of the one before.
    local.write_bytes(b"after")
    renewal = threading.Timer(0.08, (tmp_path / "elsewhere" / ".lock.json.crc").unlink)
    renewal.start()
    assert files.read(path) == b"after"
    renewal.join()


def test_a_file_that_stays_damaged_is_an_error(spark, elsewhere, tmp_path):
    path = f"{elsewhere}/file"
    files = files_of(spark, path)
    files.write(path, b"before")
    (tmp_path / "elsewhere" / "file").write_bytes(b"after")
    with pytest.raises(CheckpointError, match="could not be reached: Checksum error"):
        files.read(path)


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("s3a://bucket/checkpoint", "org.apache.hadoop:hadoop-aws:"),
        ("abfss://a@b.dfs.core.windows.net/checkpoint", "org.apache.hadoop:hadoop-azure:"),
        ("gs://bucket/checkpoint", "gcs-connector"),
        ("s3://bucket/checkpoint", "write s3a:// instead of s3://"),
        ("nothing://bucket/checkpoint", "check the spelling of the scheme"),
    ],
)
def test_a_file_system_without_its_jars(spark, capsys, path, told):
    assert main(["checkpoint", "show", path]) == 1
    said = capsys.readouterr().err
    assert f"Spark cannot reach '{path}" in said
    assert "jars for" in said
    assert told in said
    assert "An error occurred while calling" not in said
