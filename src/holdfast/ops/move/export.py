"""State as files, to look at, edit and start from.

export.json             the version and the format, the job and micro-batch, and the steps: the operator that each is in, and
                        its manifest, which names its slot there; written last
state/<step>/*.parquet  or *.avro, or *.json: a row for each cell of a key and window: `ops/reading/cell_rows.py`
checkpoint/             what else a new checkpoint needs: offsets, commits, sources, schemas, and the state of
                        Spark's own operators
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Annotated, Any
from urllib.parse import quote

import msgspec
import pyspark
from pyspark.sql import DataFrame, SparkSession

from holdfast.checkpoint.destination import building, check_apart, check_links
from holdfast.checkpoint.files.choice import copy_file, files_of, join
from holdfast.checkpoint.layout import Checkpoint, open_checkpoint
from holdfast.checkpoint.pieces import whole_pieces
from holdfast.checkpoint.query_files import in_form
from holdfast.engine.stored.documents import Batch, Malformed, check_form, parse_json
from holdfast.engine.stored.manifest import checked_manifest
from holdfast.errors import CheckpointError, CorruptState
from holdfast.ops.move.formats.choice import FormatName, format_of
from holdfast.ops.reading.blobs import StepRef, choose_step, our_errors, step_blobs, steps_of
from holdfast.ops.reading.cell_rows import cell_rows, cell_schema
from holdfast.ops.reading.key_rows import LogFacts, log_facts
from holdfast.spark.stages.processor import WAKE_TIME

__all__ = ["EXPORT_FILE", "Export", "exported_rows", "read_export", "state_export"]

EXPORT_FILE = "export.json"
_FORMAT = 1
_TRIES = 5
_PARTITION_FILE = re.compile(r"state/(\d+)/\d+/.*")

Report = Callable[[int, int], None]


@dataclass(frozen=True)
class Export:
    """An export, as `export.json` describes it."""

    path: str
    job: str | None
    batch: int
    steps: list[StepRef]
    rows: dict[str, int]
    """By step."""
    facts: dict[str, LogFacts]
    """By step."""
    format: FormatName = "parquet"


class _LogForm(msgspec.Struct):
    last: Batch
    clock: str | None


class _StepForm(msgspec.Struct):
    operator: Batch
    manifest: dict[str, Any]
    rows: Annotated[int, msgspec.Meta(ge=0)]
    log: _LogForm


class _ExportForm(msgspec.Struct):
    batch: Batch
    steps: dict[str, _StepForm]
    job: str | None = None
    format: FormatName = "parquet"
    """Exports of earlier versions do not say it."""


def state_export(
    spark: SparkSession,
    checkpoint: str,
    directory: str,
    *,
    batch: int | None = None,
    format: FormatName = "parquet",
    report: Report = lambda done, total: None,
) -> Export:
    """Writes the state after a micro-batch, by default the last, as files: "parquet", "avro" or "json", with the same rows.

    `directory` gets a whole export or, if anything fails, nothing. The job may be running.
    """
    check_apart(checkpoint, directory)
    format_of(format)
    place = open_checkpoint(spark, checkpoint)
    check_links(place.files, place.path)
    for _ in range(_TRIES - 1):
        wanted = place.check_batch(batch)
        try:
            return _exported(spark, place, directory, wanted, format, report)
        except (CorruptState, FileNotFoundError):
            # A running job has removed its files; there is a newer micro-batch by now.
            if batch is not None or wanted in place.retained():
                raise
    return _exported(spark, place, directory, place.check_batch(batch), format, report)


def _exported(
    spark: SparkSession, place: Checkpoint, directory: str, batch: int, name: FormatName, report: Report
) -> Export:
    form = format_of(name)
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
                blobs = step_blobs(spark, place, step, batch)
                facts[step.name] = log_facts(blobs, place.path)
                folder = join(work, "state", _folder(step.name))
                rows[step.name] = form.write(cell_rows(blobs, step), target, folder)
        content = {**_described(place.manifest.get("job"), batch, steps, rows, facts), "format": form.name}
        target.write(join(work, EXPORT_FILE), json.dumps(content, indent=2).encode())
    return Export(directory.rstrip("/"), place.manifest.get("job"), batch, steps, rows, facts, name)


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
            todo="give a directory that holdfast state export wrote",
        )
    file = join(path, EXPORT_FILE)
    with in_form(file, "export the state again"):
        content = check_form(parse_json(data, infinite=True), dict[str, Any])
        version = content.get("export_version")
        if version is None:
            raise Malformed("it does not describe an export")
        if version != _FORMAT:
            raise CheckpointError(
                f"The export {path!r} has version {version!r:.40}; this Holdfast knows version {_FORMAT}.",
                todo="use the version of Holdfast that wrote it, or a newer one",
            )
        form = check_form(content, _ExportForm)
        steps = [StepRef(name, step.operator, checked_manifest(step.manifest)) for name, step in form.steps.items()]
        if any(step.name != step.manifest["name"] for step in steps) or not steps:
            raise Malformed("its steps do not match their manifests")
        if len({(step.operator, step.slot) for step in steps}) < len(steps):
            raise Malformed("two of its steps have the same place in an operator")
        facts = {name: _facts(step.log) for name, step in form.steps.items()}
    rows = {name: step.rows for name, step in form.steps.items()}
    return Export(path, form.job, form.batch, steps, rows, facts, form.format)


def _facts(log: _LogForm) -> LogFacts:
    try:
        clock = None if log.clock is None else bytes.fromhex(log.clock)
    except ValueError:
        raise Malformed("its clock is not a hexadecimal number") from None
    if clock is not None and len(clock) != WAKE_TIME.size:
        raise Malformed("its clock does not have the size of a time")
    return LogFacts(log.last, clock)


def _folder(step: str) -> str:
    """A safe folder name for a step: it cannot lead elsewhere, whatever the step is called."""
    return quote(step, safe="") if step.strip(".") else step.replace(".", "%2E")


def exported_rows(spark: SparkSession, export: Export, step: StepRef) -> DataFrame:
    """The rows of a step, as they are in its files now."""
    folder = join(export.path, "state", _folder(step.name))
    form = format_of(export.format)
    return form.read(spark, files_of(spark, folder), folder, cell_schema(step.manifest))
