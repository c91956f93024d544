"""Makes checkpoints to operate on, and compares what is in a directory before and after."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F

import holdfast as hf
from holdfast.cli.main import main
from ops.functions import Everything, Totals

FILES = 5
ROWS = 40
KEYS = 10
PARTITIONS = 2
SAVED_AFTER = 1
"""The micro-batch after which the savepoint is that was taken while the job ran."""


@dataclass(frozen=True)
class History:
    """What a job left that was never interrupted."""

    input: Path
    checkpoint: Path
    savepoint: Path
    rows: dict[int, list[tuple]]
    """By micro-batch, sorted."""

    def after(self, batch: int) -> list[tuple]:
        return sorted(row for number, rows in self.rows.items() if number > batch for row in rows)


def make_history(spark, folder: Path) -> History:
    """Runs a job over all of its input; while a micro-batch is written, a savepoint is taken of those before."""
    (folder / "input").mkdir()
    for number in range(FILES):
        add_file(folder / "input", number)
    savepoint = folder / "savepoint"

    def on_batch(batch: int) -> None:
        if batch == SAVED_AFTER + 1:
            assert main(["savepoint", "create", str(folder / "checkpoint"), str(savepoint)]) == 0

    spark.conf.set("spark.sql.shuffle.partitions", str(PARTITIONS))
    rows = run_job(spark, folder / "input", folder / "checkpoint", on_batch=on_batch)
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    return History(folder / "input", folder / "checkpoint", savepoint, rows)


def add_file(folder: Path, number: int) -> None:
    """One file, and so one micro-batch: the same rows for the same number. Each has some keys that the next has not."""
    rows = [
        {"k": f"k{number * 4 + i % KEYS}", "v": number * 7 + i, "t": (number * ROWS + i) * 1_000_000} for i in range(ROWS)
    ]
    schema = pa.schema([("k", pa.string()), ("v", pa.int64()), ("t", pa.timestamp("us", tz="UTC"))])
    file = folder / f"{number:05d}.parquet"
    pq.write_table(pa.Table.from_pylist(rows, schema), file)
    # Spark takes files in the order of their times.
    os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))


def run_job(
    spark, source, checkpoint, *, backend="heap", key_groups=(8, 4), on_batch=lambda batch: None
) -> dict[int, list[tuple]]:
    """Runs the job to the end of what is there; gives its rows by micro-batch."""
    found: dict[int, list[tuple]] = {}

    def collect(rows, batch):
        found[batch] = sorted(map(tuple, rows.collect()))
        on_batch(batch)

    df = spark.readStream.schema("k string, v long, t timestamp").option("maxFilesPerTrigger", 1).parquet(str(source))
    first = (
        hf.keyed(df, key="k", value="v", timestamp="t", watermark="10 seconds")
        .window_into(hf.FixedWindows(150))
        .par_do(
            Everything(),
            output="k string, n long, cells string, t timestamp",
            key_groups=key_groups[0],
            name="cells",
            backend=backend,
        )
    )
    pairs = first.withColumn("value", F.struct("n", "cells"))
    second = hf.keyed(pairs, key="k", value="value", timestamp="t").par_do(
        Totals(), output="k string, total long, cells string", key_groups=key_groups[1], name="totals", backend=backend
    )
    job = hf.Job("history", checkpoint=str(checkpoint), trigger="available now", progress=False)
    job.write(second, hf.sinks.ForeachBatch(collect)).run()
    return found


def moved_copy(checkpoint: Path, to: Path) -> Path:
    """A copy that can be used at its new path: Spark keeps whole paths in the metadata of operators."""
    shutil.copytree(checkpoint, to)
    for file in to.glob("state/*/_metadata/v2/*"):
        if file.name.isdigit():
            write(file, file.read_text().replace(str(checkpoint), str(to)).encode())
    return to


def write(file: Path, content: bytes) -> None:
    """Changes a file as if it had been written so."""
    file.write_bytes(content)
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)


def without_commit(checkpoint: Path, batch: int) -> Path:
    """As a job leaves it that is killed before micro-batch `batch` is committed."""
    for number in range(batch, batch + 10):
        names = ["commits"] if number == batch else ["commits", "offsets"]
        for name in names:
            (checkpoint / name / str(number)).unlink(missing_ok=True)
            (checkpoint / name / f".{number}.crc").unlink(missing_ok=True)
    return checkpoint


def tree(path: Path) -> dict[str, str]:
    """Every file below a directory, with its checksum; but for the lock, in which there is a clock."""
    files = [file for file in path.rglob("*") if file.is_file() and file.name not in ("lock.json", "turn.json")]
    return {str(file.relative_to(path)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def last_batch(checkpoint: Path) -> int:
    return max(int(file.name) for file in (checkpoint / "commits").iterdir() if file.name.isdigit())


def from_json(capsys) -> dict:
    return json.loads(capsys.readouterr().out)


def error_of(capsys) -> str:
    return capsys.readouterr().err
