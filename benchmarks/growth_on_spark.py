"""Does a micro-batch cost what it touches, or what is there? Batches that touch equally many keys over growing state.

For each size a fresh query loads the keys in ten batches; then come batches that each touch the same number of keys,
drawn evenly from all. Those count; the first few, in which the JVM still compiles, do not. Then the query is started
again on its checkpoint, in a fresh driver process, for one more batch: there a cold worker reads all of the state.

    python benchmarks/growth_on_spark.py [--quick] [--resident 100000 1000000 5000000] [--touched 100000]
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from _data import write_batches
from _query import QueryRun, run_query
from _report import machine, megabytes, print_table, print_target, save_json, save_plot

_LOADING_BATCHES = 10
_WARM_UP_BATCHES = 5
_FIRST_KEYS = 1_000


class Size:
    """One size of state: its files and its query."""

    def __init__(self, work: Path, resident: int, options: argparse.Namespace) -> None:
        self._place = work / f"resident-{resident}"
        self._resident = resident
        self._options = options
        self._generator = np.random.default_rng(options.seed)
        self._loads = self._place / "loads.jsonl"

    def measure(self) -> dict[str, Any]:
        """Loads, touches, and starts again."""
        print(f"{self._resident:,} keys: loading and touching", flush=True)
        numbers = np.arange(self._resident)
        loading = np.array_split(numbers, _LOADING_BATCHES)
        touching = [self._touched() for _ in range(_WARM_UP_BATCHES + self._options.batches)]
        # The first batch is small: after it the workers are there, but there is hardly any state.
        write_batches(self._place / "data", [numbers[:_FIRST_KEYS], *loading, *touching], self._options.key_type)
        measured = self._run("checkpoint")
        print(f"{self._resident:,} keys: starting again on the checkpoint", flush=True)
        write_batches(self._place / "data", [self._touched()], self._options.key_type)
        self._loads.unlink(missing_ok=True)
        return figures(self._resident, measured, self._run("checkpoint"), self._load_seconds())

    def start_empty(self) -> float:
        """Seconds of the first batch of a new query that touches as many keys, without any state."""
        print("no keys: first batch of a new query", flush=True)
        write_batches(self._place / "data", [self._touched()], self._options.key_type)
        return float(self._run("checkpoint")["batches"][0]["ms"]) / 1000

    def _touched(self) -> np.ndarray:
        return self._generator.choice(self._resident, self._options.touched, replace=False)

    def _run(self, checkpoint: str) -> dict[str, Any]:
        run = QueryRun(
            "holdfast",
            data=str(self._place / "data"),
            checkpoint=str(self._place / checkpoint),
            key_type=self._options.key_type,
            cores=self._options.cores,
            options={"key_groups": self._options.key_groups, "load_log": str(self._loads)},
        )
        return run_query(run)

    def _load_seconds(self) -> dict[str, float]:
        """How long workers read state: the one that read longest, and all together."""
        by_worker: dict[int, float] = defaultdict(float)
        lines = self._loads.read_text().splitlines() if self._loads.exists() else []
        for entry in map(json.loads, lines):
            by_worker[entry["worker"]] += entry["seconds"]
        return {"longest": max(by_worker.values(), default=0.0), "sum": sum(by_worker.values())}


def figures(resident: int, measured: dict[str, Any], restarted: dict[str, Any], load: dict[str, float]) -> dict[str, Any]:
    """The figures of one size."""
    batches = measured["batches"]
    touched = batches[1 + _LOADING_BATCHES + _WARM_UP_BATCHES :]
    times = [batch["ms"] for batch in touched]
    growth = touched[-1]["worker_rss_bytes"] - batches[0]["worker_rss_bytes"]
    cpu = (touched[-1][name] - touched[0][name] for name in ("jvm_cpu_s", "python_cpu_s"))
    return {
        "resident": resident,
        "batch_ms_median": statistics.median(times),
        "batch_ms_mean": statistics.mean(times),
        "batch_ms_max": max(times),
        "batch_cpu_s": sum(cpu) / (len(touched) - 1),
        "worker_rss_bytes": touched[-1]["worker_rss_bytes"],
        "bytes_per_key": growth / resident,
        "checkpoint_bytes": measured["checkpoint_bytes"],
        "restart_first_batch_s": restarted["batches"][0]["ms"] / 1000,
        "load_s": load,
        "metrics": {"before": measured["metrics"], "restarted": restarted["metrics"]},
        "batches": batches,
    }


def show(sizes: list[dict[str, Any]], empty_s: float) -> None:
    columns = ["resident keys", "batch ms", "mean", "max", "CPU s", "worker memory", "bytes/key", "checkpoint"]
    columns += ["restart: 1st batch", "more than empty", "reading state"]
    rows = []
    for size in sizes:
        rows.append(
            [
                f"{size['resident']:,}",
                *(f"{size[name]:,.0f}" for name in ("batch_ms_median", "batch_ms_mean", "batch_ms_max")),
                f"{size['batch_cpu_s']:.2f}",
                megabytes(size["worker_rss_bytes"]),
                f"{size['bytes_per_key']:,.0f}",
                megabytes(size["checkpoint_bytes"]),
                f"{size['restart_first_batch_s']:.1f} s",
                f"{size['restart_first_batch_s'] - empty_s:+.1f} s",
                f"{size['load_s']['longest']:.2f} s",
            ]
        )
    print()
    print_table(columns, rows)
    print(f"first batch of a new query, no state: {empty_s:.1f} s; reading state: in the worker that read longest")


def judge(sizes: list[dict[str, Any]]) -> dict[str, float]:
    """Prints how time and memory grow from the smallest size to the largest."""
    small, large = sizes[0], sizes[-1]
    ratio = large["batch_ms_median"] / small["batch_ms_median"]
    print()
    print_target(f"time of a batch, {large['resident']:,} / {small['resident']:,} keys", ratio, "below", 1.3)
    more_keys = large["resident"] - small["resident"]
    slope = (large["worker_rss_bytes"] - small["worker_rss_bytes"]) / more_keys if more_keys else 0.0
    print(f"memory of workers: {slope:,.0f} bytes for each key more, from the smallest size to the largest")
    return {"batch_time": ratio, "bytes_per_further_key": slope}


def draw(sizes: list[dict[str, Any]], pyplot: Any) -> Any:
    panels = [
        ("a batch, ms (median)", "batch_ms_median", 1),
        ("worker memory, MB", "worker_rss_bytes", 1e6),
        ("restart: first batch, s", "restart_first_batch_s", 1),
    ]
    resident = [size["resident"] / 1e6 for size in sizes]
    figure, axes = pyplot.subplots(1, len(panels), figsize=(12, 3.6), layout="constrained")
    for axis, (title, value, unit) in zip(axes, panels, strict=True):
        numbers = [size[value] / unit for size in sizes]
        axis.plot(resident, numbers, marker="o", color="tab:blue")
        axis.set_title(title)
        axis.set_xlabel("resident keys, millions")
        axis.set_ylim(0, 1.2 * max(numbers))
        axis.spines[["top", "right"]].set_visible(False)
    return figure


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of everything")
    parser.add_argument("--resident", type=int, nargs="+", help="keys in the state (100,000 1,000,000 5,000,000)")
    parser.add_argument("--touched", type=int, help="keys that a batch touches (100,000)")
    parser.add_argument("--batches", type=int, default=7, help="that count; at least 5")
    parser.add_argument("--key-type", choices=["string", "long"], default="string")
    parser.add_argument("--key-groups", type=int, default=32)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, default=Path("artifacts/growth_on_spark.json"))
    parser.add_argument("--plot", type=Path, default=Path("artifacts/growth_on_spark.png"))
    options = parser.parse_args()
    options.resident = sorted(
        options.resident or ([20_000, 100_000, 500_000] if options.quick else [100_000, 1_000_000, 5_000_000])
    )
    options.touched = options.touched or (10_000 if options.quick else 100_000)
    if options.batches < 5:
        parser.error("--batches: at least 5")
    if options.resident[0] < max(options.touched, _FIRST_KEYS):
        parser.error("--resident: there must be at least as many keys as a batch touches")
    return options


def main() -> None:
    options = read_options()
    print(
        f"batches that touch {options.touched:,} {options.key_type} keys, {options.cores} cores, seed {options.seed}",
        flush=True,
    )
    with tempfile.TemporaryDirectory(prefix="holdfast-growth-") as work:
        sizes = [Size(Path(work), resident, options).measure() for resident in options.resident]
        empty_s = Size(Path(work) / "empty", options.resident[0], options).start_empty()
    show(sizes, empty_s)
    ratios = judge(sizes)
    shown = {name: value for name, value in vars(options).items() if not isinstance(value, Path)}
    found = {"options": shown, "machine": machine(), "ratios": ratios, "empty_first_batch_s": empty_s, "sizes": sizes}
    save_json(options.json, found)
    save_plot(options.plot, lambda pyplot: draw(sizes, pyplot))


if __name__ == "__main__":
    main()
