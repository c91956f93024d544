"""One streaming query in a driver process of its own, measured batch by batch.

`run_query` starts this file as a program, with a `QueryRun` as JSON; the program prints a line for each micro-batch and
leaves its measurements in a file.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["ContestantFailed", "QueryRun", "run_query"]

_TIMEOUT_SECONDS = 1800
_POLL_SECONDS = 0.02
_ALIVE_SECONDS = 1.0


@dataclass(frozen=True)
class QueryRun:
    """What to run. Everything is plain, because it travels as JSON."""

    contestant: str
    data: str
    """The directory with the files; one is one micro-batch."""
    checkpoint: str
    key_type: str = "string"
    module: str = "_contestants"
    """Where the contestants are; they take rows of its schema for the type of key."""
    sink: str = ""
    """A directory for the results as Parquet files; without one they go nowhere."""
    cores: int = 2
    probe: str = ""
    """Afterwards one more file, from here, goes through; the counts that come out of it are kept."""
    options: dict[str, Any] = field(default_factory=dict)
    """For the contestant."""
    spark: dict[str, str] = field(default_factory=dict)
    """Settings of Spark."""


class ContestantFailed(Exception):
    """The driver process of a query ended with an error."""


def run_query(run: QueryRun) -> dict[str, Any]:
    """Runs a query in a fresh driver process and gives its measurements."""
    base = Path(run.checkpoint)
    base.parent.mkdir(parents=True, exist_ok=True)
    result, errors = base.with_suffix(".json"), base.with_suffix(".stderr")
    with errors.open("w") as stderr:
        command = [sys.executable, __file__, json.dumps(asdict(run)), str(result)]
        try:
            ended = subprocess.run(command, stderr=stderr, timeout=_TIMEOUT_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            raise ContestantFailed(f"{run.contestant}: no end after {_TIMEOUT_SECONDS} seconds") from None
    if ended.returncode != 0:
        tail = "\n".join(errors.read_text().splitlines()[-15:])
        raise ContestantFailed(f"{run.contestant}: exit code {ended.returncode}\n{tail}")
    measured: dict[str, Any] = json.loads(result.read_text())
    return measured


def main() -> None:
    run = QueryRun(**json.loads(sys.argv[1]))
    measured = _measure(run)
    Path(sys.argv[2]).write_text(json.dumps(measured))


def _measure(run: QueryRun) -> dict[str, Any]:
    from _processes import MemoryWatch, usage

    load_before = os.getloadavg()[0]
    spark = _session(run)
    start = time.perf_counter()
    counts = _counts(spark, run)
    with MemoryWatch() as watch:
        sink = {"format": "parquet", "path": run.sink} if run.sink else {"format": "noop"}
        query = _writer(run, counts).start(**sink)
        batches = _watch_batches(query, start, usage, Path(run.checkpoint))
    measured = {
        "batches": batches,
        "peak_worker_rss_bytes": watch.peak_bytes,
        "peak_largest_worker_rss_bytes": watch.peak_worker_bytes,
        "checkpoint_bytes": _size(Path(run.checkpoint)),
        "metrics": _step_metrics(query),
        "machine_load": [load_before, os.getloadavg()[0]],
    }
    if run.probe:
        measured["probe"] = _probe(run, counts)
    spark.stop()
    return measured


def _session(run: QueryRun) -> Any:
    import holdfast as hf

    settings = {
        # Small files are split too, so that all cores take part in reading.
        "spark.sql.files.openCostInBytes": "0",
        **run.spark,
    }
    if not run.contestant.startswith("holdfast"):
        settings["spark.python.daemon.module"] = "pyspark.daemon"
    return hf.session(f"benchmark {run.contestant}", cores=run.cores, config=settings)


def _counts(spark: Any, run: QueryRun) -> Any:
    module = importlib.import_module(run.module)
    rows = spark.readStream.schema(module.SCHEMAS[run.key_type]).option("maxFilesPerTrigger", 1).parquet(run.data)
    return module.CONTESTANTS[run.contestant].build(rows, f"key {run.key_type}, count long", run.options)


def _writer(run: QueryRun, counts: Any) -> Any:
    contestant = importlib.import_module(run.module).CONTESTANTS[run.contestant]
    writer = counts.writeStream.outputMode(contestant.output_mode)
    return writer.option("checkpointLocation", run.checkpoint).trigger(availableNow=True)


def _watch_batches(query: Any, start: float, usage: Any, checkpoint: Path) -> list[dict[str, Any]]:
    """Notes each micro-batch as it ends, with what had been used by then.

    Asking Spark itself all the time would cost it some tenths of a processor, so its files are watched: a micro-batch has
    ended when its commit is there.
    """
    batches: list[dict[str, Any]] = []
    seen: dict[int, dict[str, Any]] = {}
    asked = time.perf_counter()
    active = True
    while active:
        time.sleep(_POLL_SECONDS)
        new = _committed(checkpoint) - seen.keys()
        if new or time.perf_counter() - asked > _ALIVE_SECONDS:
            asked = time.perf_counter()
            active = query.isActive
            now = {"since_start_s": asked - start, **asdict(usage()), "checkpoint_written_bytes": _written(checkpoint)}
            seen |= dict.fromkeys(_committed(checkpoint) - seen.keys() if not active else new, now)
            _note(batches, query.recentProgress, seen)
    query.awaitTermination()
    return batches


def _committed(checkpoint: Path) -> set[int]:
    """The micro-batches whose commits are there."""
    return {int(file.name) for file in checkpoint.glob("commits/*") if file.name.isdecimal()}


def _note(batches: list[dict[str, Any]], told: list[Any], seen: dict[int, dict[str, Any]]) -> None:
    """Adds the micro-batches that Spark has told of since the last time, and shows them."""
    known = {batch["id"] for batch in batches}
    for progress in told:
        if progress["batchId"] in known or progress["batchId"] not in seen or not progress["numInputRows"]:
            continue
        batch = {
            "id": progress["batchId"],
            "rows": progress["numInputRows"],
            "ms": progress["durationMs"]["triggerExecution"],
            "parts_ms": progress["durationMs"],
            **seen[progress["batchId"]],
        }
        batches.append(batch)
        rate = batch["rows"] / batch["ms"] * 1000
        print(f"    batch {batch['id']}: {batch['rows']:,} rows in {batch['ms']:,} ms ({rate:,.0f} rows/s)", flush=True)


def _step_metrics(query: Any) -> dict[str, int]:
    """Holdfast's own counters; of the others, nothing."""
    from holdfast.spark.stages.metrics import reported_metrics

    metrics = list(reported_metrics(query.recentProgress).values())
    return {name: metrics[0][name] for name in metrics[0].names()} if metrics else {}


def _probe(run: QueryRun, counts: Any) -> dict[str, int]:
    """The last count of every key of the probe file, after it has gone through as one more micro-batch."""
    for file in Path(run.probe).iterdir():
        os.link(file, Path(run.data) / f"probe-{file.name}")
    highest: dict[str, int] = {}

    def collect(frame: Any, _: int) -> None:
        for row in frame.collect():
            highest[str(row["key"])] = max(row["count"], highest.get(str(row["key"]), 0))

    _writer(run, counts).foreachBatch(collect).start().awaitTermination()
    return highest


def _written(checkpoint: Path) -> int:
    """The bytes of the changes that are in the checkpoint by now, of all versions that are still there."""
    return sum(file.stat().st_size for file in checkpoint.rglob("*.changelog") if file.is_file())


def _size(directory: Path) -> int:
    return sum(file.stat().st_size for file in directory.rglob("*") if file.is_file())


if __name__ == "__main__":
    main()
