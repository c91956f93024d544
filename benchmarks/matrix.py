"""What Holdfast and native Spark do side by side: every work in one run, in one JVM, alternating, and the results compared.

    python benchmarks/matrix.py [--only count small ...] [--rounds 3] [--quick] [--json FILE] [--plot FILE]

The first round of each is cold, for its plan at least; the others are warm. Native has Spark's best settings: RocksDB with
changelog checkpoints and memory without a bound, and its own daemon is as good as ours, since it runs no Python. Rows go to
Spark's `noop` sink. A round without a clock comes before, in which the results of both are compared by value.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from _processes import usage
from _report import machine, print_table, save_json, save_plot
from _works import WORKS, Work

import holdfast as hf

_UNSTEADY = 2
"""Micro-batches at the beginning of a query that do not count."""
_FAR_MICROS = 400 * 24 * 3_600_000_000
NATIVE = {"spark.sql.streaming.stateStore.rocksdb.boundedMemoryUsage": "false"}
WAYS = ("native", "holdfast")


def write(folder: Path, work: Work, batches: int, scale: int, seed: int) -> None:
    """A file for each micro-batch, and for timed rows two more, with one row each, that bring all windows to their end."""
    folder.mkdir(parents=True)
    generator = np.random.default_rng(seed)
    tables = [work.draw(generator, number) for number in range(batches)]
    tables = [table.slice(0, max(1, len(table) // scale)) for table in tables]
    start = time.time() - 3600
    for number, table in enumerate([*tables, *_ends(tables[-1])]):
        file = folder / f"batch-{number:05d}.parquet"
        pq.write_table(table, file, row_group_size=max(1, -(-len(table) // 4)))
        os.utime(file, (start + number, start + number))


def _ends(last: pa.Table) -> list[pa.Table]:
    if "at" not in last.column_names:
        return []
    far = [last.slice(len(last) - 1).set_column(1, "at", _shifted(last, step)) for step in (1, 2)]
    if "is_left" not in last.column_names:
        return far
    # Both sides have a watermark.
    return [pa.concat_tables([end.set_column(3, "is_left", pa.array([left])) for left in (True, False)]) for end in far]


def _shifted(last: pa.Table, step: int) -> pa.Array:
    at = last.column("at")[-1].value + step * _FAR_MICROS
    return pa.array([at], pa.timestamp("us", tz="UTC"))


def frame_of(spark: Any, work: Work, way: str, data: Path) -> Any:
    rows = spark.readStream.schema(work.schema).option("maxFilesPerTrigger", 1).parquet(str(data))
    build: Any = work.native if way == "native" else work.holdfast
    return build(rows)


def started(spark: Any, work: Work, way: str, frame: Any, checkpoint: str, **sink: str) -> Any:
    """A query, with the settings of its way."""
    for name, value in NATIVE.items():
        spark.conf.set(name, value) if way == "native" else spark.conf.unset(name)
    writer = frame.writeStream.outputMode(work.native_mode if way == "native" else "append")
    return writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start(**sink)


def measure(spark: Any, work: Work, way: str, data: Path) -> dict[str, Any]:
    """One query over all files: what its full micro-batches took."""
    with tempfile.TemporaryDirectory() as folder:
        before = usage()
        query = started(spark, work, way, frame_of(spark, work, way, data), f"{folder}/checkpoint", format="noop")
        query.awaitTermination()
        after = usage()
        told = [report for report in query.recentProgress if report.batchDuration]
    rows = max(report.numInputRows for report in told)
    full = [report for report in told if report.numInputRows >= rows / 2]
    steady = full[_UNSTEADY:]
    return {
        "first_ms": full[0].batchDuration,
        "ms": [report.batchDuration for report in steady],
        "rows": sum(report.numInputRows for report in steady),
        "all_rows": sum(report.numInputRows for report in told),
        "jvm_cpu_s": after.jvm_cpu_s - before.jvm_cpu_s,
        "python_cpu_s": after.python_cpu_s - before.python_cpu_s,
        "parts_ms": [dict(report.durationMs) for report in steady],
        "peak_rss_bytes": after.worker_rss_bytes,
    }


def results(spark: Any, work: Work, way: str, data: Path) -> Any:
    """What a way's results come to."""
    with tempfile.TemporaryDirectory() as folder:
        frame, kept = frame_of(spark, work, way, data), Path(folder) / "results"
        if work.native_mode == "update" and way == "native":
            # Only a function takes results that replace each other.
            def keep(rows: Any, number: int) -> None:
                rows.write.parquet(str(kept / str(number)))

            query = frame.writeStream.outputMode("update").option("checkpointLocation", f"{folder}/checkpoint")
            query.trigger(availableNow=True).foreachBatch(keep).start().awaitTermination()
        else:
            started(spark, work, way, frame, f"{folder}/checkpoint", format="parquet", path=str(kept)).awaitTermination()
        files = [str(file) for file in kept.rglob("*.parquet")]
        return work.check(ds.dataset(files, format="parquet").to_table())


def compare(spark: Any, work: Work, folder: Path, seed: int) -> None:
    """Raises if the ways disagree over a smaller stream."""
    data = folder / f"{work.name}-small"
    write(data, work, 3, 10, seed)
    found = {way: results(spark, work, way, data) for way in ways_of(work)}
    if len({repr(_ordered(result)) for result in found.values()}) > 1:
        raise SystemExit(f"{work.name}: the results differ")


def _ordered(result: Any) -> Any:
    return sorted(result.items()) if isinstance(result, dict) else result


def ways_of(work: Work) -> tuple[str, ...]:
    return WAYS if work.native is not None else ("holdfast",)


def _told(run: dict[str, Any]) -> str:
    rate, p50 = 1000 * run["rows"] / sum(run["ms"]), statistics.median(run["ms"])
    return f"{rate:,.0f} rows/s, p50 {p50:,.0f} ms, {run['jvm_cpu_s']:.1f} + {run['python_cpu_s']:.1f} CPU s"


def summary(work: Work, runs: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Rows a second, p50 and processor seconds of each way, and the ratios of rounds that belong together."""
    told: dict[str, Any] = {"work": work.name, "title": work.title, "goal": work.goal}
    for way in ways_of(work):
        told[way] = {
            "rows_per_s": [1000 * run["rows"] / sum(run["ms"]) for run in runs[way]],
            "p50_ms": [statistics.median(run["ms"]) for run in runs[way]],
            "first_ms": [run["first_ms"] for run in runs[way]],
            "cpu_s_per_m": [1e6 * (run["jvm_cpu_s"] + run["python_cpu_s"]) / run["all_rows"] for run in runs[way]],
            "python_cpu_s_per_m": [1e6 * run["python_cpu_s"] / run["all_rows"] for run in runs[way]],
        }
    if work.native is not None:
        # Small micro-batches differ in their medians; a long one among them says nothing.
        what: Callable[[str], list[float]] = lambda way: told[way]["p50_ms"]  # noqa: E731
        told["faster"] = [ours / theirs for ours, theirs in zip(what("native"), what("holdfast"), strict=True)]
        told["less_cpu"] = [
            ours / theirs
            for ours, theirs in zip(told["native"]["cpu_s_per_m"], told["holdfast"]["cpu_s_per_m"], strict=True)
        ]
    return told


def table(told: list[dict[str, Any]]) -> None:
    lines = []
    for work in told:
        native, ours = work.get("native"), work["holdfast"]
        lines.append(
            [
                work["title"],
                "" if native is None else _spread(work["faster"], ".2f"),
                "" if native is None else f"{work['goal']:g}",
                "" if native is None else _spread(work["less_cpu"], ".2f"),
                _spread(ours["rows_per_s"], ",.0f"),
                "" if native is None else _spread(native["rows_per_s"], ",.0f"),
                _spread(ours["p50_ms"], ",.0f"),
                "" if native is None else _spread(native["p50_ms"], ",.0f"),
                f"{ours['first_ms'][0]:,.0f}" + ("" if native is None else f" / {native['first_ms'][0]:,.0f}"),
            ]
        )
    columns = ["work", "times as fast", "goal", "less CPU", "rows/s", "native", "p50 ms", "native", "first ms"]
    print_table(columns, lines)


def _spread(values: list[float], form: str) -> str:
    """The median of the warm rounds, with the lowest and highest of all."""
    warm = values[1:] or values
    return f"{statistics.median(warm):{form}} ({min(values):{form}}-{max(values):{form}})"


def draw(told: list[dict[str, Any]]) -> Callable[[Any], Any]:
    def figure(pyplot: Any) -> Any:
        rated = [work for work in told if "faster" in work][::-1]
        picture, axes = pyplot.subplots(figsize=(9, 0.6 * len(rated) + 1.5))
        warm = [statistics.median(work["faster"][1:] or work["faster"]) for work in rated]
        axes.barh([work["title"] for work in rated], warm, color="#3366aa")
        axes.scatter([work["goal"] for work in rated], range(len(rated)), color="black", marker="|", s=200, label="goal")
        axes.axvline(1, color="grey", linewidth=1)
        axes.set_xlabel("times as fast as native Spark")
        axes.legend()
        picture.tight_layout()
        return picture

    return figure


def main() -> None:
    names = [work.name for work in WORKS]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows")
    parser.add_argument("--no-compare", action="store_true", help="do not compare results first")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, default=Path("artifacts/matrix.json"))
    parser.add_argument("--plot", type=Path, default=Path("artifacts/matrix.png"))
    options = parser.parse_args()
    # Small files are split too, so that all cores take part in reading.
    spark = hf.session("matrix", cores=options.cores, config={"spark.sql.files.openCostInBytes": "0"})
    told = []
    with tempfile.TemporaryDirectory(prefix="holdfast-matrix-") as place:
        folder = Path(place)
        for work in [work for work in WORKS if work.name in options.only]:
            if not options.no_compare:
                compare(spark, work, folder, options.seed)
            data = folder / work.name
            write(data, work, work.batches, 10 if options.quick else 1, options.seed)
            runs: dict[str, list[dict[str, Any]]] = {way: [] for way in WAYS}
            for number in range(options.rounds):
                ways = [way for way in ways_of(work) if way in options.ways]
                for way in ways if number % 2 == 0 else ways[::-1]:
                    run = measure(spark, work, way, data)
                    runs[way].append(run)
                    print(f"{work.name}, round {number + 1}, {way}: {_told(run)}", flush=True)
            if set(options.ways) == set(WAYS):
                told.append(summary(work, runs))
    if told:
        print()
        table(told)
        save_json(options.json, {"machine": machine(), "works": told})
        save_plot(options.plot, draw(told))


if __name__ == "__main__":
    main()
