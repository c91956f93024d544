"""Does a bundle cost what it touches, or what is there? The engine alone, in one process, without Spark.

Each case does the same small work over little state and over much, and compares the processor time: the median of eleven
bundles. Then come the bytes of the log for each byte that changed, and the calls of the store for each small bundle.

    python benchmarks/growth.py [--quick] [--only catching] [--json FILE]

`growth_on_spark.py` measures whole micro-batches.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path
from typing import Any

from _growth_cases import CALLS, CASES, LOG, Case, log_ratio
from _report import machine, print_table, save_json
from _rig import load_average

RATIO_MAX = 1.5


def measured(case: Case, quick: bool) -> dict[str, Any]:
    large = max(case.large // 10, case.small) if quick else case.large
    small_ms, large_ms = (statistics.median(case.measure(size)) for size in (case.small, large))
    ratio = large_ms / small_ms
    return {
        "part": case.part,
        "case": case.name,
        "small": case.small,
        "large": large,
        "small_ms": small_ms,
        "large_ms": large_ms,
        "ratio": ratio,
        "load": load_average(),
    }


def row(found: dict[str, Any]) -> list[str]:
    sizes = f"{found['small']:,} → {found['large']:,}"
    times = f"{found['small_ms']:.2f} → {found['large_ms']:.2f} ms"
    return [f"{found['part']}: {found['case']}", sizes, times, f"{found['ratio']:.2f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the large sizes")
    parser.add_argument("--only", default="", help="cases whose description has this text")
    parser.add_argument("--json", type=Path, default=Path("artifacts/growth.json"))
    options = parser.parse_args()
    print(f"load average {load_average():.1f}", flush=True)
    times = []
    for case in CASES:
        if options.only in f"{case.part}: {case.name}":
            times.append(measured(case, options.quick))
            print("  ".join(row(times[-1])), flush=True)
    keys = 10_000 if options.quick else 100_000
    log = {cells: log_ratio(cells, keys) for cells in LOG} if options.only in "log" else {}
    sizes = (1_000, keys)
    calls = {name: [count(size) for size in sizes] for name, count in CALLS.items()} if options.only in "calls" else {}
    print()
    print_table(["case", "sizes", "processor time", "ratio"], [row(found) for found in times])
    above = [found for found in times if found["ratio"] > RATIO_MAX]
    print(f"{len(times) - len(above)} of {len(times)} ratios are at most {RATIO_MAX}")
    print()
    columns = ["cells changed in a bundle", "bytes put into the store / bytes that changed"]
    print_table(columns, [[f"{cells:,}", f"{ratio:.1f}"] for cells, ratio in log.items()])
    print()
    columns = ["calls of the store in a bundle of 100 elements", *(f"{size:,} keys" for size in sizes)]
    print_table(columns, [[name, *(f"{count:.1f}" for count in counts)] for name, counts in calls.items()])
    found = {"quick": options.quick, "machine": machine(), "times": times, "log": log, "calls": calls}
    save_json(options.json, found)


if __name__ == "__main__":
    main()
