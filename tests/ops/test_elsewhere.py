"""The tools on a file system that is not local to us: Hadoop leads its paths to a directory of the test."""

from __future__ import annotations

import os

import pytest

from holdfast.ops.export import export_state
from holdfast.ops.importing import import_state
from holdfast.ops.inspect import read_state
from holdfast.ops.restore import restore_savepoint
from holdfast.ops.savepoint import create_savepoint
from holdfast.ops.verify import verify_checkpoint

from .payments import Payments


@pytest.fixture
def elsewhere(spark, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    name = f"tools{os.getpid()}"
    configuration = spark.sparkContext._jsc.hadoopConfiguration()
    configuration.set(f"fs.viewfs.mounttable.{name}.link./data", (tmp_path / "elsewhere").as_uri())
    return f"viewfs://{name}/data"


def cells(spark, checkpoint):
    frame = read_state(spark, checkpoint, hidden=True).drop("key_group")
    return sorted(str(row) for row in frame.collect())


def test_there_and_back(spark, elsewhere, tmp_path):
    payments = Payments(spark, tmp_path / "payments")
    payments.add(0, 1)
    checkpoint = f"{elsewhere}/checkpoint"
    payments.run(checkpoint)
    before = cells(spark, checkpoint)
    assert verify_checkpoint(spark, checkpoint).is_whole

    create_savepoint(spark, checkpoint, str(tmp_path / "savepoint"))
    restore_savepoint(spark, str(tmp_path / "savepoint"), f"{elsewhere}/restored", key_groups=3)
    export_state(spark, f"{elsewhere}/restored", f"{elsewhere}/export")
    import_state(spark, f"{elsewhere}/export", f"{elsewhere}/imported")

    assert cells(spark, f"{elsewhere}/restored") == before
    assert cells(spark, f"{elsewhere}/imported") == before
    payments.add(2)
    expected = payments.run(checkpoint)
    assert payments.run(f"{elsewhere}/restored", key_groups=3) == expected
    assert payments.run(f"{elsewhere}/imported", key_groups=3) == expected
