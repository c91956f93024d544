"""Windows and combining beside Spark's native aggregation: the sum by key and hour, on the same data, in one run.

Each contestant runs in a driver process of its own, over the same files, and writes its results as Parquet files; these are
checked against sums computed with NumPy. Two sets of data: keys drawn evenly, and one key with nine tenths of all rows.

As many rows go before those that count, so that the JVM has compiled what it runs; what they say is shown too.

    python benchmarks/windows.py [--quick] [--rounds 3]
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from _data import as_keys, linked
from _query import ContestantFailed, QueryRun, run_query
from _report import machine, print_table, print_target, save_json
from _window_contestants import CONTESTANTS

_UNSTEADY_BATCHES = 2
"""At the very start, when nothing at all has been set up."""
_HOUR = 3_600_000_000
_BEGIN = 1_552_000_000_000_000 // _HOUR * _HOUR
_HOT_SHARE = 0.9
_TOLERANCE = 1e-3

RUNS = [
    ("even", "native"),
    ("even", "holdfast"),
    ("even", "holdfast-own"),
    ("even", "holdfast-unlifted"),
    ("hot", "native"),
    ("hot", "holdfast"),
]


class Rates(NamedTuple):
    """Rows per second."""

    steady: float
    warming_up: float


def draw_batches(options: argparse.Namespace, *, hot: bool) -> list[dict[str, np.ndarray]]:
    """Keys, times and values, batch by batch. A batch covers three hours, a little out of order."""
    generator = np.random.default_rng(options.seed)
    batches = []
    for number in range((options.warm_up_rows + options.rows) // options.batch_rows):
        keys = generator.integers(0, options.keys, size=options.batch_rows)
        if hot:
            keys[generator.random(options.batch_rows) < _HOT_SHARE] = 0
        start = _BEGIN + number * 3 * _HOUR
        times = np.sort(generator.integers(start, start + 3 * _HOUR, size=options.batch_rows))
        times -= generator.integers(0, 60_000_000, size=options.batch_rows)
        batches.append({"key": keys, "at": times, "value": generator.integers(1, 100, size=options.batch_rows) / 4})
    return batches


def write(directory: Path, batches: list[dict[str, np.ndarray]]) -> None:
    """One file for each micro-batch, and two with a single row far ahead, so that all hours come to their end."""
    directory.mkdir(parents=True)
    far = _BEGIN + (len(batches) * 3 + 100) * _HOUR
    ends = [{"key": np.array([0]), "at": np.array([far + n]), "value": np.array([0.0])} for n in (0, 1)]
    start = time.time() - 3600
    for number, batch in enumerate([*batches, *ends]):
        table = pa.table(
            {
                "key": as_keys(batch["key"], "string"),
                "at": pa.array(batch["at"], pa.timestamp("us", tz="UTC")),
                "value": batch["value"],
            }
        )
        file = directory / f"batch-{number:05d}.parquet"
        pq.write_table(table, file, row_group_size=max(1, -(-len(table) // 4)))
        os.utime(file, (start + number, start + number))


def expected(batches: list[dict[str, np.ndarray]], keys: int) -> dict[tuple[str, int], float]:
    key = np.concatenate([batch["key"] for batch in batches])
    hour = (np.concatenate([batch["at"] for batch in batches]) - _BEGIN) // _HOUR + 1
    value = np.concatenate([batch["value"] for batch in batches])
    groups, places = np.unique(hour * keys + key, return_inverse=True)
    sums = np.bincount(places, weights=value)
    names = as_keys(groups % keys, "string").to_pylist()
    return dict(zip(zip(names, (groups // keys - 1).tolist(), strict=True), sums.tolist(), strict=True))


def check(contestant: str, sink: Path, wanted: dict[tuple[str, int], float]) -> None:
    """The results must be those of NumPy, each once, but for the rows that only moved the watermark."""
    table = pa.concat_tables([pq.read_table(file) for file in sink.glob("*.parquet")])
    # Spark writes timestamps in nanoseconds.
    starts = table.column("window").combine_chunks().field("start").cast(pa.timestamp("us", tz="UTC"))
    hours = ((starts.cast(pa.int64()).to_numpy() - _BEGIN) // _HOUR).tolist()
    names = zip(table.column("key").to_pylist(), hours, strict=True)
    found = dict(zip(names, table.column("total").to_pylist(), strict=True))
    if len(found) != len(table):
        raise ContestantFailed(f"{contestant}: {len(table) - len(found)} results came twice")
    found = {name: total for name, total in found.items() if total}
    wrong = [name for name in wanted | found if abs(wanted.get(name, -1) - found.get(name, -2)) > _TOLERANCE]
    if wrong:
        raise ContestantFailed(f"{contestant}: {len(wrong)} of {len(wanted)} sums are wrong, as of {wrong[:3]}")


def run_one(work: Path, data: str, contestant: str, number: int, options: argparse.Namespace, wanted: Any) -> Rates:
    """Rows per second of the rows that count, and of those before."""
    place = work / f"{data}-{contestant}-{number}"
    run = QueryRun(
        contestant,
        data=str(linked(work / data, place / "data")),
        checkpoint=str(place / "checkpoint"),
        module="_window_contestants",
        cores=options.cores,
        sink=str(place / "results"),
        options={"key_groups": options.key_groups},
    )
    measured = run_query(run)
    check(contestant, place / "results", wanted)
    batches = [batch for batch in measured["batches"] if batch["rows"] > 1]
    warm = options.warm_up_rows // options.batch_rows
    return Rates(rate(batches[warm:]), rate(batches[_UNSTEADY_BATCHES:warm]))


def rate(batches: list[dict[str, Any]]) -> float:
    return float(sum(batch["rows"] for batch in batches) / sum(batch["ms"] for batch in batches) * 1000)


def spread(values: list[float]) -> str:
    return f"{statistics.median(values):,.0f} ({min(values):,.0f}-{max(values):,.0f})"


def judge(rates: dict[tuple[str, str], list[Rates]]) -> dict[str, float]:
    def ratios_of(one: tuple[str, str], other: tuple[str, str], place: int = 0) -> list[float]:
        return [a[place] / b[place] for a, b in zip(rates[one], rates[other], strict=True)]

    def ratio(one: tuple[str, str], other: tuple[str, str], place: int = 0) -> float:
        return statistics.median(ratios_of(one, other, place))

    single = ratios_of(("even", "holdfast"), ("even", "native"))
    ratios = {
        "to_native": ratio(("even", "holdfast"), ("even", "native")),
        "to_native_lowest": min(single),
        "to_native_highest": max(single),
        "to_native_warming_up": ratio(("even", "holdfast"), ("even", "native"), 1),
        "own_slower": ratio(("even", "holdfast"), ("even", "holdfast-own")),
        "hot_slower": ratio(("even", "holdfast"), ("hot", "holdfast")),
        "hot_to_native": ratio(("hot", "holdfast"), ("hot", "native")),
        "lifting": ratio(("even", "holdfast"), ("even", "holdfast-unlifted")),
    }
    print()
    print_target("rows/s, Holdfast / native, keys drawn evenly", ratios["to_native"], "at least", 1)
    print(
        f"  in single rounds {min(single):.2f} to {max(single):.2f}; while warming up {ratios['to_native_warming_up']:.2f}"
    )
    print_target("time, a CombineFn of one's own / Sum()", ratios["own_slower"], "at most", 2)
    print_target("time, one hot key / keys drawn evenly", ratios["hot_slower"], "at most", 1.3)
    print(f"rows/s, Holdfast / native, one hot key: {ratios['hot_to_native']:.2f}")
    print(f"rows/s, with lifting / without: {ratios['lifting']:.2f}")
    return ratios


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows")
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--warm-up-rows", type=int, default=4_000_000, help="before those that count")
    parser.add_argument("--keys", type=int, default=20_000)
    parser.add_argument("--batch-rows", type=int, default=500_000)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--key-groups", type=int, default=32, help="of Holdfast")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", nargs="+", choices=list(CONTESTANTS), help="with even keys only; no targets")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, default=Path("artifacts/windows.json"))
    options = parser.parse_args()
    if options.quick:
        options.rows, options.batch_rows = options.rows // 10, options.batch_rows // 10
        options.warm_up_rows //= 10
    print(
        f"sum by key and hour, {options.rows:,} rows after {options.warm_up_rows:,} to warm up, {options.keys:,} keys, "
        f"{options.batch_rows:,} a batch",
        flush=True,
    )
    runs = [("even", name) for name in options.only] if options.only else RUNS
    rates: dict[tuple[str, str], list[Rates]] = {run: [] for run in runs}
    with tempfile.TemporaryDirectory(prefix="holdfast-windows-") as folder:
        work, wanted = Path(folder), {}
        for name in ("even", "hot"):
            batches = draw_batches(options, hot=name == "hot")
            write(work / name, batches)
            wanted[name] = expected(batches, options.keys)
        for number in range(options.rounds):
            for data, contestant in runs if number % 2 == 0 else runs[::-1]:
                print(f"round {number + 1} of {options.rounds}: {CONTESTANTS[contestant].title}, {data}", flush=True)
                rates[data, contestant].append(run_one(work, data, contestant, number, options, wanted[data]))
    rows = [
        [CONTESTANTS[contestant].title, data, spread([of.steady for of in each]), spread([of.warming_up for of in each])]
        for (data, contestant), each in rates.items()
    ]
    print()
    print_table(["", "keys", "rows/s", "while warming up"], rows)
    ratios = {} if options.only else judge(rates)
    figures = {f"{data} {contestant}": [of._asdict() for of in each] for (data, contestant), each in rates.items()}
    save_json(options.json, {"machine": machine(), "ratios": ratios, "rows_per_s": figures})


if __name__ == "__main__":
    main()
