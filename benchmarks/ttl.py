"""State that levels off: one-shot keys over simulated days, with a time to live of 24 hours and without.

Every micro-batch brings keys that never come again, an hour of event time at once. Noted after each: how many keys are in
the state, how large the checkpoint is and what it consists of, and what share of the time went into removing what has
expired.

    python benchmarks/ttl.py [--quick] [--keys 2000000] [--days 10] [--hours 1]
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from _data import as_keys
from _report import machine, print_table, print_target, save_json, save_plot

import holdfast as hf
from holdfast.engine.metrics.step import StepMetrics
from holdfast.spark.stages.metrics import reported_metrics

_CORES = 2
_BEGIN = 1_600_000_000
_SCHEMA = "key string, at timestamp, value double"


def counter(ttl: Any) -> hf.DoFn:
    """Remembers that it has seen a key."""

    class Seen(hf.DoFn):
        SEEN = hf.ValueStateSpec("seen", hf.VarIntCoder(), ttl=ttl)

        def process(self, element: Any, seen: Any = hf.DoFn.StateParam(SEEN)) -> Any:
            if seen.read() is not None:
                yield element[0], 1
            seen.write(1)

    return Seen()


def write(directory: Path, options: argparse.Namespace) -> None:
    directory.mkdir(parents=True)
    batches = options.days * 24 // options.hours
    generator = np.random.default_rng(options.seed)
    numbers = np.array_split(np.arange(options.keys), batches)
    for place, some in enumerate(numbers):
        start = (_BEGIN + place * options.hours * 3600) * 1_000_000
        times = generator.integers(start, start + options.hours * 3_600_000_000, size=len(some))
        table = pa.table(
            {
                "key": as_keys(some, "string"),
                "at": pa.array(np.sort(times), pa.timestamp("us", tz="UTC")),
                "value": np.ones(len(some)),
            }
        )
        file = directory / f"batch-{place:05d}.parquet"
        pq.write_table(table, file, row_group_size=max(1, -(-len(some) // 4)))
        os.utime(file, (time.time() - 3600 + place,) * 2)


def measure(spark: Any, data: Path, checkpoint: Path, ttl: Any, options: argparse.Namespace) -> list[dict[str, Any]]:
    """What there was after each micro-batch."""
    rows = spark.readStream.schema(_SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(data))
    stream = hf.keyed(rows, key="key", value="value", timestamp="at", watermark="10 minutes")
    out = stream.par_do(counter(ttl), output="key string, n int", backend=options.backend, name="Seen")
    writer = out.writeStream.format("noop").option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    query = writer.start()
    noted: list[dict[str, Any]] = []
    total, swept = StepMetrics(), 0
    while not query.awaitTermination(0.05):
        for report in query.recentProgress[len(noted) :]:
            total.add(reported_metrics([report])["Seen"])
            metrics = total
            kinds = kinds_of(checkpoint)
            noted.append(
                {
                    "batch": report["batchId"],
                    "day": report["batchId"] * options.hours / 24,
                    "ms": report["durationMs"]["triggerExecution"],
                    "keys": metrics.elements - metrics.cells_expired,
                    "expired": metrics.cells_expired,
                    "sweep_ms": (metrics.sweep_micros - swept) / 1000,
                    "checkpoint_bytes": sum(kinds.values()),
                    "kinds": kinds,
                }
            )
            swept = metrics.sweep_micros
            last = noted[-1]
            print(
                f"    day {last['day']:.1f}: {last['keys']:,} keys, {last['checkpoint_bytes'] / 1e6:,.1f} MB, "
                f"{last['ms']:,} ms of which {last['sweep_ms']:.0f} ms sweeping; "
                + ", ".join(f"{kind} {size / 1e6:.1f}" for kind, size in kinds.items()),
                flush=True,
            )
    return noted


def kinds_of(checkpoint: Path) -> dict[str, int]:
    """How many bytes of the checkpoint are of which kind."""
    sizes = dict.fromkeys(["changelogs", "snapshots", "Spark's logs", "other"], 0)
    for file in checkpoint.rglob("*"):
        try:
            size = file.stat().st_size if file.is_file() else 0
        except FileNotFoundError:
            # Spark has removed it just now.
            continue
        sizes[_kind_of(file.relative_to(checkpoint))] += size
    return sizes


def _kind_of(file: Path) -> str:
    """`.crc` files count with the files that they are of."""
    if file.parts[0] in ("offsets", "commits", "sources"):
        return "Spark's logs"
    name = file.name.removeprefix(".").removesuffix(".crc")
    if name.endswith(".changelog"):
        return "changelogs"
    return "snapshots" if name.endswith((".zip", ".sst")) or "SSTs" in file.parts else "other"


def level(noted: list[dict[str, Any]], name: str) -> float:
    """The last quarter over the second: 1 if it has levelled off, more if it grows."""
    quarter = len(noted) // 4
    early = statistics.mean(batch[name] for batch in noted[quarter : 2 * quarter])
    late = statistics.mean(batch[name] for batch in noted[-quarter:])
    return late / early


def draw(results: dict[str, list[dict[str, Any]]], pyplot: Any) -> Any:
    figure, axes = pyplot.subplots(1, 3, figsize=(15, 3.6), layout="constrained")
    panels = [("keys in the state, thousands", "keys", 1e3), ("checkpoint, MB", "checkpoint_bytes", 1e6)]
    for axis, (title, name, unit) in zip(axes, panels, strict=False):
        for label, noted in results.items():
            axis.plot([b["day"] for b in noted], [b[name] / unit for b in noted], label=label)
        axis.set_title(title)
    noted = results["24 hours"]
    kinds = list(noted[0]["kinds"])
    sizes = [[batch["kinds"][kind] / 1e6 for batch in noted] for kind in kinds]
    axes[2].stackplot([b["day"] for b in noted], sizes, labels=kinds)
    axes[2].set_title("checkpoint with the TTL, by kind, MB")
    for axis in axes:
        axis.set_xlabel("simulated days")
        axis.set_ylim(bottom=0)
        axis.legend()
        axis.spines[["top", "right"]].set_visible(False)
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the keys")
    parser.add_argument("--keys", type=int, default=2_000_000)
    parser.add_argument("--days", type=int, default=10)
    parser.add_argument("--hours", type=int, default=1, help="of event time in a micro-batch")
    parser.add_argument("--backend", choices=["heap", "disk"], default="heap")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, default=Path("artifacts/ttl.json"))
    parser.add_argument("--plot", type=Path, default=Path("artifacts/ttl.png"))
    options = parser.parse_args()
    if options.quick:
        options.keys //= 10
    # Versions that nobody goes back to are removed soon, so that the checkpoint shows what is in the state.
    config = {
        "spark.sql.streaming.minBatchesToRetain": "2",
        "spark.sql.streaming.stateStore.maintenanceInterval": "2s",
        "spark.sql.files.openCostInBytes": "0",
        # What a query tells of each micro-batch stays until it has been read.
        "spark.sql.streaming.numRecentProgressUpdates": "10000",
    }
    results: dict[str, list[dict[str, Any]]] = {}
    with tempfile.TemporaryDirectory(prefix="holdfast-ttl-") as folder:
        work = Path(folder)
        write(work / "data", options)
        spark = hf.session("ttl", cores=_CORES, config=config)
        for label, ttl in (("24 hours", hf.Ttl("24 hours", time="event")), ("no TTL", None)):
            print(f"{label}: {options.keys:,} keys over {options.days} days", flush=True)
            results[label] = measure(spark, work / "data", work / f"checkpoint-{label}", ttl, options)
        # Spark would go on with its maintenance of checkpoints that are about to be removed.
        spark.stop()
    print()
    rows = [
        [
            label,
            f"{noted[-1]['keys']:,}",
            f"{max(b['keys'] for b in noted):,}",
            f"{noted[-1]['checkpoint_bytes'] / 1e6:,.1f} MB",
        ]
        for label, noted in results.items()
    ]
    print_table(["", "keys at the end", "most keys", "checkpoint at the end"], rows)
    with_ttl = results["24 hours"]
    # Workers sweep side by side, one on each core.
    share = sum(b["sweep_ms"] for b in with_ttl) / _CORES / sum(b["ms"] for b in with_ttl)
    print()
    print_target("keys, last quarter / second quarter, 24 hours", level(with_ttl, "keys"), "below", 1.2)
    print_target("checkpoint, last quarter / second quarter, 24 hours", level(with_ttl, "checkpoint_bytes"), "below", 1.2)
    print_target("keys, last quarter / second quarter, no TTL", level(results["no TTL"], "keys"), "at least", 1.5)
    grown = level(results["no TTL"], "checkpoint_bytes")
    print_target("checkpoint, last quarter / second quarter, no TTL", grown, "at least", 1.5)
    print_target("share of the time that the sweep takes", share, "below", 0.1)
    save_json(options.json, {"machine": machine(), "results": results, "sweep_share": share})
    save_plot(options.plot, lambda pyplot: draw(results, pyplot))


if __name__ == "__main__":
    main()
