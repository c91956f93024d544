"""Several steps over one source: as one job, and as separate queries; and what each further operator of a line costs.

Every step keeps a running count. Ways alternate, in one driver with one JVM; a round before the first measured one warms up.

* *beside*: two and five steps over one source. One job reads it once and has one operator; separate jobs run side by side.
* *chain*: one to four steps, each given the output of the one before, as one job that writes the first and the last output.
  "directly" means that rows do not leave Arrow between steps; with "where" Spark filters them on the way.

Full micro-batches give rows a second, and processor seconds for a million rows; micro-batches of one row give the floor.

    python benchmarks/graph.py [--rows 200000] [--batches 6] [--rounds 3] [--json FILE]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from _counting import OUTPUT, Count, Nowhere
from _data import SCHEMAS, random_batches, write_batches
from _processes import usage
from _report import machine, print_table, save_json

import holdfast as hf

Way = Callable[[Any], list[list[Any]]]
_SMALL_BATCHES = 12


def step(df: Any, name: str) -> Any:
    return hf.keyed(df, key="key", value="value").par_do(Count(), output=OUTPUT, name=name)


def beside(df: Any, count: int) -> list[Any]:
    return [step(df, f"step {number}") for number in range(count)]


def chain(df: Any, count: int, between: Callable[[Any], Any]) -> list[Any]:
    frames = [step(df, "step 0")]
    for number in range(1, count):
        frames.append(step(between(frames[-1]), f"step {number}"))
    return [frames[0], frames[-1]] if count > 1 else frames


def ways() -> dict[str, Way]:
    """From the source to the outputs of each job."""
    found: dict[str, Way] = {}
    for count in (2, 5):
        found[f"beside, {count} steps, one job"] = partial(_one_job, count)
        found[f"beside, {count} steps, {count} jobs"] = partial(_many_jobs, count)
    for count in (1, 2, 3, 4):
        found[f"chain, {count} steps, directly"] = partial(_chain, count, _unchanged)
    for count in (2, 3):
        found[f"chain, {count} steps, where"] = partial(_chain, count, _filtered)
    return found


def _one_job(count: int, df: Any) -> list[list[Any]]:
    return [beside(df, count)]


def _many_jobs(count: int, df: Any) -> list[list[Any]]:
    return [[frame] for frame in beside(df, count)]


def _chain(count: int, between: Callable[[Any], Any], df: Any) -> list[list[Any]]:
    return [chain(df, count, between)]


def _unchanged(frame: Any) -> Any:
    return frame


def _filtered(frame: Any) -> Any:
    return frame.where("value > 0")


def run(spark: Any, way: Way, source: Path, checkpoint: Path) -> dict[str, float]:
    """Runs the jobs of a way to the end of the source; what it took from the end of the first micro-batch on."""
    df = spark.readStream.schema(SCHEMAS["string"]).option("maxFilesPerTrigger", 1).parquet(str(source))
    jobs = []
    for number, frames in enumerate(way(df)):
        job = hf.Job(f"job {number}", checkpoint=str(checkpoint / str(number)), trigger="available now", progress=False)
        for frame in frames:
            job.write(frame, Nowhere())
        jobs.append(job)
    before, start = usage(), time.monotonic()
    for job in jobs:
        job.start()
    for job in jobs:
        job.wait()
    seconds, after = time.monotonic() - start, usage()
    durations = [report.durationMs["triggerExecution"] for job in jobs for report in list(job.query.recentProgress)[1:]]
    cpu = after.jvm_cpu_s - before.jvm_cpu_s + after.python_cpu_s - before.python_cpu_s
    return {"seconds": seconds, "cpu_s": cpu, "batch_ms": statistics.median(durations) if durations else 0.0}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000, help="of a micro-batch")
    parser.add_argument("--batches", type=int, default=6)
    parser.add_argument("--keys", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="ways whose name contains this")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    chosen = {name: way for name, way in ways().items() if options.only in name}
    with tempfile.TemporaryDirectory(prefix="holdfast-graph-") as folder:
        base = Path(folder)
        write_batches(
            base / "full", random_batches(options.rows * options.batches, options.keys, options.rows, options.seed), "string"
        )
        write_batches(base / "small", random_batches(_SMALL_BATCHES, 1, 1, options.seed), "string")
        spark = hf.session("graph benchmark")
        figures: dict[str, dict[str, list[dict[str, float]]]] = {name: {"full": [], "small": []} for name in chosen}
        for round_number in range(options.rounds + 1):
            for name, way in chosen.items():
                for kind in ("full", "small"):
                    measured = run(spark, way, base / kind, base / f"{round_number} {name} {kind}")
                    if round_number:
                        figures[name][kind].append(measured)
                    print(f"round {round_number}  {name}  {kind}  {measured}", flush=True)
        spark.stop()
    report(figures, options.rows * options.batches)
    if options.json:
        save_json(options.json, {"machine": machine(), "options": vars(options) | {"json": None}, "figures": figures})


def report(figures: dict[str, dict[str, list[dict[str, float]]]], rows: int) -> None:
    lines = []
    for name, kinds in figures.items():
        seconds = [measured["seconds"] for measured in kinds["full"]]
        cpu = statistics.median(measured["cpu_s"] for measured in kinds["full"])
        floor = [measured["batch_ms"] for measured in kinds["small"]]
        lines.append(
            [
                name,
                f"{rows / statistics.median(seconds):,.0f}",
                f"{rows / max(seconds):,.0f} to {rows / min(seconds):,.0f}",
                f"{cpu / rows * 1e6:.1f}",
                f"{statistics.median(measured['batch_ms'] for measured in kinds['full']):,.0f}",
                f"{statistics.median(floor):,.0f} ({min(floor):,.0f} to {max(floor):,.0f})",
            ]
        )
    print_table(["way", "rows/s", "spread", "CPU s/M rows", "full batch, ms", "batch of one row, ms"], lines)


if __name__ == "__main__":
    main()
