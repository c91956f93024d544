"""What the history of a job costs: the same job with and without it, alternating, in one driver with one JVM.

Full micro-batches give rows a second and processor seconds for a million rows; micro-batches of 100 rows give the
milliseconds that are added to each. A round before the first measured one warms up.

    python benchmarks/history.py [--rows 200000] [--batches 6] [--small 40] [--rounds 4] [--json FILE]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from _counting import OUTPUT, Count, Nowhere
from _data import SCHEMAS, random_batches, write_batches
from _processes import usage
from _report import machine, print_table, save_json

import holdfast as hf

WAYS: dict[str, dict[str, Any]] = {
    "without": {"history": False},
    "history": {},
    "history and health": {"on_health": lambda health: None},
}


def run(spark: Any, data: Path, way: str) -> dict[str, Any]:
    """One job over all files: the durations of its micro-batches but the first two, and what they used."""
    rows = spark.readStream.schema(SCHEMAS["string"]).option("maxFilesPerTrigger", 1).parquet(str(data))
    counts = hf.keyed(rows, key="key", value="value").par_do(Count(), output=OUTPUT)
    with tempfile.TemporaryDirectory() as folder:
        job = hf.Job("history", checkpoint=f"{folder}/checkpoint", trigger="available now", progress=False, **WAYS[way])
        job.write(counts, Nowhere())
        began, before = time.perf_counter(), usage()
        job.run()
        seconds, after = time.perf_counter() - began, usage()
        told = job.query.recentProgress
    took = [report.batchDuration for report in told if report.numInputRows][2:]
    return {
        "ms": took,
        "rows": sum(report.numInputRows for report in told),
        "seconds": seconds,
        "cpu_s": after.jvm_cpu_s - before.jvm_cpu_s + after.python_cpu_s - before.python_cpu_s,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--batches", type=int, default=6)
    parser.add_argument("--small", type=int, default=40, help="micro-batches of 100 rows")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--json")
    options = parser.parse_args()
    spark = hf.session("history", cores=2)
    with tempfile.TemporaryDirectory() as folder:
        sizes = {"large": (options.rows, options.batches), "small": (100, options.small)}
        for name, (rows, batches) in sizes.items():
            write_batches(Path(folder) / name, random_batches(rows * batches, 100_000, rows, 1), "string")
        found: dict[str, dict[str, list[Any]]] = {name: {way: [] for way in WAYS} for name in sizes}
        for number in range(options.rounds + 1):
            for name in sizes:
                for way in WAYS:
                    result = run(spark, Path(folder) / name, way)
                    if number:
                        found[name][way].append(result)
                    print(f"round {number} {name} {way}: {statistics.median(result['ms']):.0f} ms", flush=True)
    lines = []
    for name, ways in found.items():
        base = statistics.median(statistics.median(result["ms"]) for result in ways["without"])
        for way, results in ways.items():
            medians = [statistics.median(result["ms"]) for result in results]
            cpu = statistics.median(1e6 * result["cpu_s"] / result["rows"] for result in results)
            ms = statistics.median(medians)
            spread = f"{min(medians):.0f} to {max(medians):.0f}"
            lines.append([name, way, f"{ms:.0f}", spread, f"{ms - base:+.1f}", f"{ms / base:.3f}", f"{cpu:.2f}"])
    print_table(["micro-batches", "way", "ms", "spread", "added, ms", "time / without", "CPU s/M rows"], lines)
    if options.json:
        save_json(Path(options.json), {"machine": machine(), "runs": found})


if __name__ == "__main__":
    main()
