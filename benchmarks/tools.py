"""How long the command line takes to look at large state, from a cold start.

A job counts rows of `--keys` keys, in batches that touch all of them, and then a tenth of them. Each command then runs in a
process of its own, as somebody at a terminal would run it. *Spark alone* is a process that only starts Spark and ends, which
the commands no longer do.

    python benchmarks/tools.py [--quick] [--keys 1000000] [--rounds 3]
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from _data import write_batches
from _query import QueryRun, run_query
from _report import machine, print_table, print_target, save_json

_START_ONLY = "from holdfast.cli.output import quiet_spark\nwith quiet_spark() as spark: spark.range(1).collect()"
_COMMAND = "import sys\nfrom holdfast.cli.main import main\nsys.exit(main(sys.argv[1:]))"
_WANTED_SECONDS = {"state ls": 2.0, "state show --key": 0.5, "state diff": 2.0}


def make_checkpoint(work: Path, keys: int, key_groups: int) -> Path:
    """Runs the job; gives its checkpoint."""
    numbers = np.arange(keys)
    touched = [numbers[i::10] for i in range(3)]
    write_batches(work / "data", [*np.array_split(numbers, 4), *touched], "string")
    checkpoint = work / "checkpoint"
    run_query(QueryRun("holdfast", str(work / "data"), str(checkpoint), options={"key_groups": key_groups}))
    return checkpoint


def timed(code: str, *arguments: str) -> float:
    """Seconds that a fresh Python process takes."""
    start = time.perf_counter()
    ended = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)
    if ended.returncode:
        raise SystemExit(f"{' '.join(arguments)}: exit code {ended.returncode}\n{ended.stderr[-2000:]}")
    return time.perf_counter() - start


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--key-groups", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="a tenth of the keys, one round")
    parser.add_argument("--json", type=Path, default=Path("artifacts/tools.json"))
    options = parser.parse_args()
    if options.quick:
        options.keys, options.rounds = options.keys // 10, 1
    return options


def main() -> None:
    options = read_options()
    print(f"{options.keys:,} keys, {options.rounds} rounds", flush=True)
    with tempfile.TemporaryDirectory(prefix="holdfast-tools-") as work:
        checkpoint = str(make_checkpoint(Path(work), options.keys, options.key_groups))
        key = f"user-{options.keys // 2}"
        commands = {
            "state ls": ["state", "ls", checkpoint],
            "state show --key": ["state", "show", checkpoint, "--key", key],
            "state diff": ["state", "diff", checkpoint, "--from", "4", "--to", "6"],
            "state history --key": ["state", "history", checkpoint, "--key", key],
            "checkpoint verify": ["checkpoint", "verify", checkpoint],
        }
        seconds: dict[str, list[float]] = {"Spark alone": [], **{name: [] for name in commands}}
        for number in range(options.rounds):
            print(f"round {number + 1}", flush=True)
            seconds["Spark alone"].append(timed(_START_ONLY))
            for name, arguments in commands.items():
                seconds[name].append(timed(_COMMAND, *arguments))
    show(seconds)
    found: dict[str, Any] = {"keys": options.keys, "machine": machine(), "seconds": seconds}
    save_json(options.json, found)


def show(seconds: dict[str, list[float]]) -> None:
    start = statistics.median(seconds["Spark alone"])
    rows = []
    for name, taken in seconds.items():
        middle = statistics.median(taken)
        rows.append([name, f"{middle:.1f} s", f"{min(taken):.1f} - {max(taken):.1f} s", f"{middle / start:.0%}"])
    print_table(["command", "median", "lowest - highest", "of Spark's start"], rows)
    for name, wanted in _WANTED_SECONDS.items():
        print_target(f"{name}, seconds", statistics.median(seconds[name]), "below", wanted)


if __name__ == "__main__":
    main()
