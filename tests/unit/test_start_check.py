"""What a job looks at before it starts, and before it removes anything: here, whether the logs belong together."""

from __future__ import annotations

import pytest

from holdfast.checkpoint.files.local import LocalFiles
from holdfast.checkpoint.start_check import check_start
from holdfast.errors import CorruptState


def checked(path, planned, committed):
    for folder, numbers in (("offsets", planned), ("commits", committed)):
        (path / folder).mkdir()
        for number in numbers:
            text = 'v1\n{"batchWatermarkMs": 0, "batchTimestampMs": 0, "conf": {}}\n-'
            (path / folder / str(number)).write_text(text if folder == "offsets" else 'v1\n{"nextBatchWatermarkMs": 0}')
    check_start(LocalFiles(), str(path), 0)


@pytest.mark.parametrize(
    ("planned", "committed"), [([], []), ([0], []), ([0], [0]), ([3, 4], [3]), ([3, 4], [3, 4]), ([4, 5], [3, 4])]
)
def test_logs_that_belong_together(tmp_path, planned, committed):
    checked(tmp_path, planned, committed)


@pytest.mark.parametrize(
    ("planned", "committed", "missing"),
    [
        ([3, 4], [], "commits/3"),
        ([1], [], "commits/0"),
        ([3, 4], [2], "commits/3"),
        ([3, 4], [3, 4, 5], "offsets/5"),
        ([], [0, 1], "offsets/1"),
    ],
)
def test_an_entry_that_is_missing_is_named(tmp_path, planned, committed, missing):
    """Else the state after it would be taken for that of a micro-batch that was never committed, and be removed."""
    with pytest.raises(CorruptState, match=f"{tmp_path}/{missing}' is missing"):
        checked(tmp_path, planned, committed)
