"""The backends beside each other: a running count over 1 and 10 million keys, batches that touch 1 % and 30 % of them.

For each size and contestant a fresh query loads the keys, then come batches that touch a share of the keys, drawn evenly.
Spark's native count takes part, and `transformWithState` (Row) on a slice: a hundredth of the keys, the same shares.

    python benchmarks/backends.py [--quick] [--keys 1000000 10000000] [--only heap disk]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from _data import write_batches
from _query import ContestantFailed, QueryRun, run_query
from _report import machine, megabytes, print_table, print_target, save_json

_LOAD_ROWS_MAX = 500_000
_SHARES = (0.01, 0.3)
_TOUCHES = 4
_SLICE = 100

CONTESTANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "heap": ("holdfast", {"backend": "heap"}),
    "disk": ("holdfast", {"backend": "disk"}),
    "native": ("native", {}),
    "row": ("row", {}),
}


def keys_of(contestant: str, keys: int) -> int:
    return keys // _SLICE if contestant == "row" else keys


def measure(work: Path, contestant: str, keys: int, options: argparse.Namespace) -> dict[str, Any]:
    """Loads, then touches each share of the keys some times; the first time of each does not count."""
    name, more = CONTESTANTS[contestant]
    place = work / f"{contestant}-{keys}"
    number = keys_of(contestant, keys)
    generator = np.random.default_rng(options.seed)
    loading = np.array_split(np.arange(number), max(2, -(-number // _LOAD_ROWS_MAX)))
    touching = [generator.choice(number, int(number * share), replace=False) for share in _SHARES for _ in range(_TOUCHES)]
    write_batches(place / "data", [*loading, *touching], "string")
    run = QueryRun(
        name,
        data=str(place / "data"),
        checkpoint=str(place / "checkpoint"),
        cores=options.cores,
        options={"key_groups": options.key_groups, **more},
    )
    measured = run_query(run)
    batches = measured["batches"]
    figures: dict[str, Any] = {"keys": number, "largest_worker_bytes": measured["peak_largest_worker_rss_bytes"]}
    figures["checkpoint_bytes"] = measured["checkpoint_bytes"]
    for place_of, share in enumerate(_SHARES):
        first = len(loading) + place_of * _TOUCHES
        some = batches[first + 1 : first + _TOUCHES]
        rates = [batch["rows"] / batch["ms"] * 1000 for batch in some]
        written = [
            after["checkpoint_written_bytes"] - before["checkpoint_written_bytes"]
            for before, after in zip(batches[first:], some, strict=False)
        ]
        figures[f"{share:.0%}"] = {
            "rows_per_s": statistics.median(rates),
            "spread": [min(rates), max(rates)],
            "written_bytes": statistics.median(written),
        }
    return figures


def show(results: dict[tuple[str, int], dict[str, Any]]) -> None:
    columns = ["", "keys", *(f"{share:.0%}: rows/s" for share in _SHARES), *(f"{share:.0%}: written" for share in _SHARES)]
    columns += ["largest worker", "checkpoint"]
    rows = []
    for (contestant, _), figures in results.items():
        shares = [figures[f"{share:.0%}"] for share in _SHARES]
        rows.append(
            [
                contestant,
                f"{figures['keys']:,}",
                *(f"{s['rows_per_s']:,.0f} ({s['spread'][0]:,.0f}-{s['spread'][1]:,.0f})" for s in shares),
                *(megabytes(s["written_bytes"]) for s in shares),
                megabytes(figures["largest_worker_bytes"]),
                megabytes(figures["checkpoint_bytes"]),
            ]
        )
    print()
    print_table(columns, rows)


def judge(results: dict[tuple[str, int], dict[str, Any]], keys: int) -> dict[str, float]:
    ratios: dict[str, float] = {}
    print()
    disk, row = results.get(("disk", keys)), results.get(("row", keys))
    if disk is not None:
        ratios["disk_worker_mb"] = disk["largest_worker_bytes"] / 1e6
        print_target(f"MB of the largest worker, disk, {keys:,} keys", ratios["disk_worker_mb"], "below", 600)
    for share in _SHARES:
        if disk is not None and row is not None:
            ratio = disk[f"{share:.0%}"]["rows_per_s"] / row[f"{share:.0%}"]["rows_per_s"]
            ratios[f"disk_to_row_{share:.0%}"] = ratio
            print_target(f"rows/s, disk / transformWithState (Row), {share:.0%} of the keys", ratio, "at least", 3)
    return ratios


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the keys")
    parser.add_argument("--keys", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--only", nargs="+", choices=list(CONTESTANTS), default=list(CONTESTANTS))
    parser.add_argument("--key-groups", type=int, default=32)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, default=Path("artifacts/backends.json"))
    options = parser.parse_args()
    sizes = [keys // 10 for keys in options.keys] if options.quick else options.keys
    results: dict[tuple[str, int], dict[str, Any]] = {}
    with tempfile.TemporaryDirectory(prefix="holdfast-backends-") as work:
        for keys in sizes:
            for contestant in options.only:
                print(f"{contestant}, {keys_of(contestant, keys):,} keys", flush=True)
                try:
                    results[contestant, keys] = measure(Path(work), contestant, keys, options)
                except ContestantFailed as error:
                    print(f"  FAILED: {error}", flush=True)
    show(results)
    ratios = judge(results, sizes[-1])
    figures = {f"{contestant} {keys}": of for (contestant, keys), of in results.items()}
    save_json(options.json, {"machine": machine(), "ratios": ratios, "figures": figures})


if __name__ == "__main__":
    main()
