"""Other key groups: what the job gives afterwards is what it would have given without."""

from __future__ import annotations

import shutil

import pytest

from holdfast.errors import CheckpointError
from holdfast.ops.inspect.state_frame import read_state
from holdfast.ops.move.regroup import regroup

from .payments import Payments


def cells(spark, checkpoint):
    frame = read_state(spark, checkpoint, hidden=True, trust_pickle=True).drop("key_group")
    return sorted(str(row) for row in frame.collect())


@pytest.mark.night
def test_other_key_groups_change_no_result(spark, tmp_path):
    undisturbed = Payments(spark, tmp_path / "undisturbed")
    undisturbed.add(0, 1, 2)
    undisturbed.run()
    shutil.copytree(undisturbed.checkpoint, tmp_path / "copy")
    before = cells(spark, undisturbed.checkpoint)
    undisturbed.add(3, 4, 5)
    expected = undisturbed.run()

    copy = str(tmp_path / "copy")
    assert regroup(spark, copy, 5) == ["everything", "running"]

    assert cells(spark, copy) == before
    assert undisturbed.run(copy, key_groups=5) == expected


def test_an_impossible_number(spark, tmp_path):
    with pytest.raises(CheckpointError, match="cannot be 0 key groups"):
        regroup(spark, str(tmp_path), 0)
