"""Spark's own files, damaged: every tool that goes through Spark, and the start of a job, say so in our words."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.errors import CheckpointError, CorruptState, HoldfastError
from holdfast.ops import checkpoint_verify, read_state, rescale, state_history, state_ls, state_show

from .shared import BATCHES, copied, payments

LAST = BATCHES
DAMAGE = (
    ("metadata", b"[" * 50_000),
    (f"offsets/{LAST}", b""),
    (f"offsets/{LAST}", b'v1\n{"batchWatermarkMs":"x","conf":[]}'),
    (f"commits/{LAST}", b"v1\n{"),
    (f"commits/{LAST}", b"\xff\x00"),
    ("state/0/_metadata/v2/0", b"v2\n{}"),
)


def damaged(folder: Path, name: str, content: bytes) -> str:
    checkpoint = copied(folder)
    file = Path(checkpoint) / name
    assert file.exists()
    file.write_bytes(content)
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    return checkpoint


@pytest.mark.parametrize(("name", "content"), DAMAGE, ids=[name for name, _ in DAMAGE])
def test_only_declared_errors_come_out_of_the_tools(spark, tmp_path, name, content):
    payments()
    checkpoint = damaged(tmp_path / "checkpoint", name, content)
    tools = (
        lambda: read_state(spark, checkpoint).count(),
        lambda: state_show(spark, checkpoint, key="card 1"),
        lambda: state_ls(spark, checkpoint),
        lambda: state_history(spark, checkpoint, "card 1"),
        lambda: rescale(spark, checkpoint, partitions=3),
    )
    for tool in tools:
        with contextlib.suppress(HoldfastError):
            tool()
    with contextlib.suppress(CheckpointError):
        assert not checkpoint_verify(spark, checkpoint).is_whole


@pytest.mark.parametrize("name", ["metadata", f"offsets/{LAST}", f"commits/{LAST}", "holdfast/manifest.json"])
@pytest.mark.parametrize("content", [b"", b"[" * 50_000], ids=["empty", "deep"])
def test_a_job_does_not_start_on_what_is_damaged(tmp_path, name, content):
    job = payments().job(hf.sinks.Collect(), damaged(tmp_path / "checkpoint", name, content))
    with pytest.raises((CorruptState, CheckpointError)) as refused:
        job.run()
    assert name in str(refused.value)
