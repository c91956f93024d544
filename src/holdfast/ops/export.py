"""State as Parquet, to look at, to edit and to start from.

export.json             what this is, of which job and micro-batch, and the manifests of its steps; written last
state/<step>/*.parquet  a row for each cell of a key and window: `ops/cell_rows.py`
checkpoint/             what else a new checkpoint needs: offsets, commits, sources, schemas, and the state of
                        operators that are Spark's own
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any
from urllib.parse import quote

import pyspark
from pyspark.sql import DataFrame, SparkSession

from holdfast.errors import CheckpointError, CorruptState
from holdfast.ops.cell_rows import cell_rows
from holdfast.ops.layout import open_checkpoint
from holdfast.ops.packing import LogFacts, log_facts
from holdfast.ops.pieces import whole_pieces
from holdfast.ops.placing import building
from holdfast.ops.reading import StepRef, blobs_frame, choose_step, our_errors, steps_of
from holdfast.spark.files import copy_file, files_of, join, normalised
from holdfast.spark.session import with_settings

__all__ = ["EXPORT_FILE", "Export", "export_state", "exported_rows", "read_export"]

EXPORT_FILE = "export.json"
_FORMAT = 1
# Times as other tools than Spark write them, too.
_MICROS = {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}
_PARTITION_FILE = re.compile(r"state/(\d+)/\d+/.*")

Report = Callable[[int, int], None]


@dataclass(frozen=True)
class Export:
    """An export, as its file describes it."""

    path: str
    job: str | None
    batch: int
    steps: list[StepRef]
    rows: dict[str, int]
    """By step."""
    facts: dict[str, LogFacts]
    """By step."""


def export_state(
    spark: SparkSession,
    checkpoint: str,
    directory: str,
    *,
    batch: int | None = None,
    report: Report = lambda done, total: None,
) -> Export:
    """Writes the state after a micro-batch, the last one by default, as Parquet files.

    At `directory` there is a whole export afterwards or, if anything failed, what was there before: nothing. The job may be
    running meanwhile.
    """
    place = open_checkpoint(spark, checkpoint)
    batch = place.check_batch(batch)
    steps = choose_step(steps_of(spark, place, batch), None, place.path)
    own = {str(step.operator) for step in steps}
    target = files_of(spark, directory)
    pieces = [piece for piece in whole_pieces(place, batch) if not _is_state_of(piece.name, own)]
    total = len(pieces) + len(steps)
    rows: dict[str, int] = {}
    facts: dict[str, LogFacts] = {}
    with building(target, directory) as work:
        for done, piece in enumerate(pieces):
            report(done, total)
            copy_file(place.files, piece.path, target, join(work, "checkpoint", piece.name))
        for done, step in enumerate(steps):
            report(len(pieces) + done, total)
            with our_errors(place.path):
                blobs = blobs_frame(spark, place, step.operator, batch)
                facts[step.name] = log_facts(blobs, place.path)
                frame = cell_rows(blobs, step)
                folder = normalised(join(work, "state", quote(step.name, safe="")))
                with with_settings(spark, _MICROS):
                    frame.write.parquet(folder)
                rows[step.name] = spark.read.parquet(folder).count()
        content = _described(place.manifest.get("job"), batch, steps, rows, facts)
        target.write(join(work, EXPORT_FILE), json.dumps(content, indent=2).encode())
    return Export(directory.rstrip("/"), place.manifest.get("job"), batch, steps, rows, facts)


def _is_state_of(name: str, operators: set[str]) -> bool:
    found = _PARTITION_FILE.fullmatch(name)
    return found is not None and found[1] in operators


def _described(
    job: str | None, batch: int, steps: list[StepRef], rows: dict[str, int], facts: dict[str, LogFacts]
) -> dict[str, Any]:
    described = {}
    for step in steps:
        last, clock = facts[step.name]
        log = {"last": last, "clock": None if clock is None else clock.hex()}
        described[step.name] = {"operator": step.operator, "manifest": step.manifest, "rows": rows[step.name], "log": log}
    return {
        "export_version": _FORMAT,
        "job": job,
        "batch": batch,
        "created_at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "spark_version": pyspark.__version__,
        "steps": described,
    }


def read_export(spark: SparkSession, path: str) -> Export:
    """The export at a path. Raises CheckpointError if there is none."""
    files = files_of(spark, path)
    path = path.rstrip("/")
    data = files.read(join(path, EXPORT_FILE))
    if data is None:
        raise CheckpointError(
            f"{path!r} is not an export of state: it has no {EXPORT_FILE!r}.",
            todo="give what holdfast state export has written",
        )
    try:
        content = json.loads(data)
        version = content["export_version"]
    except (ValueError, KeyError, TypeError):
        raise CorruptState(f"{join(path, EXPORT_FILE)!r} is damaged: it is not JSON.") from None
    if version != _FORMAT:
        raise CheckpointError(
            f"The export {path!r} has version {version}; this Holdfast knows version {_FORMAT}.",
            todo="use the version of Holdfast that wrote it, or a newer one",
        )
    steps = [StepRef(name, int(step["operator"]), step["manifest"]) for name, step in content["steps"].items()]
    rows = {name: int(step["rows"]) for name, step in content["steps"].items()}
    facts = {name: _facts(step["log"]) for name, step in content["steps"].items()}
    return Export(path, content.get("job"), int(content["batch"]), steps, rows, facts)


def _facts(log: dict[str, Any]) -> LogFacts:
    return LogFacts(int(log["last"]), None if log["clock"] is None else bytes.fromhex(log["clock"]))


def exported_rows(spark: SparkSession, export: Export, step: StepRef) -> DataFrame:
    """The rows of a step, as they are in its files now."""
    folder = join(export.path, "state", quote(step.name, safe=""))
    files = files_of(spark, folder)
    if not any(entry.name.endswith(".parquet") for entry in files.entries(folder) or ()):
        raise CheckpointError(f"There are no Parquet files in {folder!r}.", todo="export the state again")
    return spark.read.parquet(normalised(folder))
