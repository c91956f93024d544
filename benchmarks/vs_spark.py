"""Holdfast beside what Spark has: a running count by key, on the same data, in one run.

Each contestant runs in a driver process of its own, on the same machine, session settings, files and sink; in the next
round they run in the opposite order. Spark's Python state APIs are called once for each key and would take very long,
so they get a slice of the data: the first rows of each of the first files. What each has counted is checked at the end.

    python benchmarks/vs_spark.py [--quick] [--rounds 3] [--only holdfast native]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from _contestants import CONTESTANTS
from _data import as_keys, linked, random_batches, write_batches
from _query import ContestantFailed, QueryRun, run_query
from _report import machine, megabytes, print_table, print_target, save_json, save_plot

_UNSTEADY_BATCHES = 2
_PROBE_ROWS = 2_000


class Workload:
    """The files of a run, and what the counts must be in the end."""

    def __init__(self, work: Path, options: argparse.Namespace) -> None:
        self._work = work
        self._options = options
        batches = random_batches(options.rows, options.keys, options.batch_rows, options.seed)
        slices = [batch[: options.slice_rows] for batch in batches[: options.slice_batches]]
        self._batches = {"whole": batches, "slice": slices}
        self._probe = np.unique(batches[0][:_PROBE_ROWS])
        for name, some in self._batches.items():
            write_batches(work / name, some, options.key_type)
        write_batches(work / "probe", [self._probe], options.key_type)

    def part(self, contestant: str) -> str:
        """Which of the files a contestant gets."""
        return "slice" if CONTESTANTS[contestant].is_python_api and self._options.slice_rows else "whole"

    def run(self, contestant: str, number: int) -> dict[str, Any]:
        """Runs a contestant; gives the figures of this round."""
        place = self._work / f"{contestant}-{number}"
        run = QueryRun(
            contestant,
            data=str(linked(self._work / self.part(contestant), place / "data")),
            checkpoint=str(place / "checkpoint"),
            key_type=self._options.key_type,
            cores=self._options.cores,
            probe=str(self._work / "probe"),
            options={"key_groups": self._options.key_groups},
        )
        measured = run_query(run)
        self._check(contestant, measured.pop("probe"))
        return figures(measured)

    def _check(self, contestant: str, counted: dict[str, int]) -> None:
        """Every key of the probe must have been counted as often as it came, over all batches and the probe itself."""
        came = np.concatenate([*self._batches[self.part(contestant)], self._probe])
        counts = np.bincount(came, minlength=self._options.keys)[self._probe]
        names = map(str, as_keys(self._probe, self._options.key_type).to_pylist())
        expected = dict(zip(names, counts.tolist(), strict=True))
        if counted != expected:
            wrong = sorted(key for key in expected | counted if expected.get(key) != counted.get(key))
            raise ContestantFailed(f"{contestant}: wrong counts for {len(wrong)} of {len(expected)} keys, as {wrong[:3]}")


def figures(measured: dict[str, Any]) -> dict[str, Any]:
    """The figures of one round, from its batches."""
    batches = measured["batches"]
    steady = batches[_UNSTEADY_BATCHES:]
    times = [batch["ms"] for batch in steady]
    rows = sum(batch["rows"] for batch in steady)
    before = batches[_UNSTEADY_BATCHES - 1]
    cpu = {name: batches[-1][name] - before[name] for name in ("jvm_cpu_s", "python_cpu_s")}
    return {
        "rows": sum(batch["rows"] for batch in batches),
        "batches": len(batches),
        "steady_rows_per_s": rows / sum(times) * 1000,
        "first_batch_ms": batches[0]["ms"],
        "start_to_first_batch_ms": batches[0]["since_start_s"] * 1000,
        "batch_ms_p50": float(np.percentile(times, 50)),
        "batch_ms_p99": float(np.percentile(times, 99)),
        "peak_worker_rss_bytes": measured["peak_worker_rss_bytes"],
        "checkpoint_bytes": measured["checkpoint_bytes"],
        "cpu_s_per_million_rows": {name: seconds / rows * 1e6 for name, seconds in cpu.items()},
        "measured": measured,
    }


def run_rounds(workload: Workload, names: list[str], rounds: int) -> dict[str, list[dict[str, Any]]]:
    """The figures of every contestant and round. A contestant that fails is out."""
    results: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    out: set[str] = set()
    for number in range(rounds):
        order = names if number % 2 == 0 else names[::-1]
        for name in order:
            if name in out:
                continue
            print(f"round {number + 1} of {rounds}: {CONTESTANTS[name].title}, {workload.part(name)}", flush=True)
            try:
                results[name].append(workload.run(name, number))
            except ContestantFailed as error:
                print(f"  FAILED: {error}", flush=True)
                out.add(name)
    return {name: rounds_of for name, rounds_of in results.items() if rounds_of and name not in out}


def middle(rounds: list[dict[str, Any]], name: str) -> float:
    return statistics.median(figures[name] for figures in rounds)


def spread(rounds: list[dict[str, Any]], name: str, unit: float = 1) -> str:
    """The median over the rounds, and if there are several the lowest and highest."""
    values = [figures[name] / unit for figures in rounds]
    digits = 0 if unit == 1 else 2
    text = f"{statistics.median(values):,.{digits}f}"
    return text if len(values) == 1 else f"{text} ({min(values):,.{digits}f}-{max(values):,.{digits}f})"


def show(results: dict[str, list[dict[str, Any]]], workload: Workload) -> None:
    columns = ["", "data", "rows/s", "first batch s", "p50 s", "p99 s", "worker memory", "checkpoint", "CPU s / M rows"]
    rows = []
    for name, rounds in sorted(results.items(), key=lambda item: -middle(item[1], "steady_rows_per_s")):
        cpu = [figures["cpu_s_per_million_rows"] for figures in rounds]
        jvm, python = (statistics.median(each[kind] for each in cpu) for kind in ("jvm_cpu_s", "python_cpu_s"))
        size = rounds[0]["rows"] // rounds[0]["batches"]
        rows.append(
            [
                CONTESTANTS[name].title,
                f"{workload.part(name)}: {rounds[0]['batches']} x {size:,}",
                spread(rounds, "steady_rows_per_s"),
                *(spread(rounds, time, 1000) for time in ("first_batch_ms", "batch_ms_p50", "batch_ms_p99")),
                *(megabytes(middle(rounds, size)) for size in ("peak_worker_rss_bytes", "checkpoint_bytes")),
                f"{jvm:.1f} JVM + {python:.1f} Python",
            ]
        )
    print()
    print_table(columns, rows)


def judge(results: dict[str, list[dict[str, Any]]]) -> dict[str, float]:
    """Prints the ratios that matter, and gives them."""
    rates = {name: middle(rounds, "steady_rows_per_s") for name, rounds in results.items()}
    apis = {name: rate for name, rate in rates.items() if CONTESTANTS[name].is_python_api}
    ratios: dict[str, float] = {}
    print()
    if {"holdfast", "native"} <= set(rates):
        ratios["to_native"] = rates["holdfast"] / rates["native"]
        print_target("rows/s, Holdfast / Spark's native count", ratios["to_native"], "at least", 1.5)
    if "holdfast" in rates and apis:
        fastest = max(apis, key=lambda name: apis[name])
        ratios["to_python_api"] = rates["holdfast"] / apis[fastest]
        what = f"rows/s, Holdfast / the fastest Python state API ({CONTESTANTS[fastest].title})"
        print_target(what, ratios["to_python_api"], "at least", 20)
    if {"holdfast", "native"} <= set(rates):
        first = {name: middle(results[name], "first_batch_ms") for name in ("holdfast", "native")}
        ratios["first_batch_to_native"] = first["holdfast"] / first["native"]
        print_target("first batch, Holdfast / native", ratios["first_batch_to_native"], "at most", 2)
    return ratios


def draw(results: dict[str, list[dict[str, Any]]], pyplot: Any) -> Any:
    panels = [
        ("steady rows/s (log)", "steady_rows_per_s", 1),
        ("first batch, s", "first_batch_ms", 1000),
        ("peak worker memory, MB", "peak_worker_rss_bytes", 1e6),
    ]
    names = sorted(results, key=lambda name: middle(results[name], "steady_rows_per_s"))
    figure, axes = pyplot.subplots(1, len(panels), figsize=(14, 3.6), sharey=True, layout="constrained")
    for axis, (title, value, unit) in zip(axes, panels, strict=True):
        numbers = [middle(results[name], value) / unit for name in names]
        colors = ["tab:blue" if name == "holdfast" else "tab:gray" for name in names]
        bars = axis.barh([CONTESTANTS[name].title for name in names], numbers, color=colors)
        axis.bar_label(bars, [f"{number:,.0f}" if number >= 100 else f"{number:.1f}" for number in numbers], padding=3)
        axis.set_title(title)
        axis.margins(x=0.25)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_xscale("log")
    return figure


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of everything")
    parser.add_argument("--rows", type=int, help="in all (4,000,000)")
    parser.add_argument("--keys", type=int, help="to draw from (1,000,000)")
    parser.add_argument("--batch-rows", type=int, help="in a micro-batch (500,000)")
    parser.add_argument("--slice-rows", type=int, help="in a micro-batch of Spark's Python state APIs (40,000); 0: all")
    parser.add_argument("--slice-batches", type=int, default=4, help="for Spark's Python state APIs")
    parser.add_argument("--key-type", choices=["string", "long"], default="string")
    parser.add_argument("--key-groups", type=int, default=32, help="of Holdfast")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="+", choices=list(CONTESTANTS), default=list(CONTESTANTS), metavar="CONTESTANT")
    parser.add_argument("--json", type=Path, default=Path("artifacts/vs_spark.json"))
    parser.add_argument("--plot", type=Path, default=Path("artifacts/vs_spark.png"))
    options = parser.parse_args()
    sizes = {"rows": 4_000_000, "keys": 1_000_000, "batch_rows": 500_000, "slice_rows": 40_000}
    for name, size in sizes.items():
        if getattr(options, name) is None:
            setattr(options, name, size // 10 if options.quick else size)
    if min(options.rows // options.batch_rows, options.slice_batches) <= _UNSTEADY_BATCHES:
        parser.error(f"--rows, --slice-batches: there must be more than {_UNSTEADY_BATCHES} batches")
    return options


def main() -> None:
    options = read_options()
    print(
        f"running count, {options.rows:,} rows over {options.keys:,} {options.key_type} keys, "
        f"{options.batch_rows:,} a batch, {options.cores} cores, {options.rounds} rounds, seed {options.seed}",
        flush=True,
    )
    with tempfile.TemporaryDirectory(prefix="holdfast-vs-spark-") as work:
        workload = Workload(Path(work), options)
        results = run_rounds(workload, options.only, options.rounds)
        if results:
            show(results, workload)
    ratios = judge(results)
    shown = {name: value for name, value in vars(options).items() if not isinstance(value, Path)}
    save_json(options.json, {"options": shown, "machine": machine(), "ratios": ratios, "contestants": results})
    if results:
        save_plot(options.plot, lambda pyplot: draw(results, pyplot))
    sys.exit(0 if len(results) == len(options.only) else 1)


if __name__ == "__main__":
    main()
