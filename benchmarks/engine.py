"""The engine beside a hand-written dict loop: the running counter, in one process, without Spark.

Both count how often each key came and give a (key, count) pair for every element, bundle after bundle over state that
is already there. The loop keeps its counts in a dict and nothing else. The engine runs the DoFn below: it also tracks
what changed, and (in the second column) writes it to the log. Rounds alternate, so that a noisy machine is noisy for
both; the ratio is the median of the rounds' ratios, with the lowest and highest.

    python benchmarks/engine.py [--keys 1000000] [--elements 500000] [--rounds 7] [--json FILE]
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import statistics
import time
from pathlib import Path
from typing import Any

import holdfast as hf
from holdfast.engine.backends.heap import HeapBackend
from holdfast.engine.run.clocks import Clocks, collection_paused
from holdfast.engine.run.intake import Elements
from holdfast.engine.run.step_runner import StepRunner
from holdfast.engine.state.key_group import Layout
from holdfast.model.functions.step import build_step
from holdfast.testing.memory_store import MemoryStore


class RunningCounter(hf.DoFn):
    COUNT = hf.ValueStateSpec("count", hf.VarIntCoder())

    def process(self, element: Any, count: Any = hf.DoFn.StateParam(COUNT)) -> Any:
        key, _ = element
        n = (count.read() or 0) + 1
        count.write(n)
        yield key, n


class Engine:
    """The engine as a worker has it: one key group, a log in memory."""

    def __init__(self) -> None:
        step = build_step(RunningCounter())
        layout = Layout(step)
        self.runner = StepRunner(step, layout, {}, origins=False)
        self.backend = HeapBackend(layout)
        self.store = MemoryStore()
        self.runner.setup()
        self.batch = 0

    def bundle(self, pairs: list[tuple[str, int]]) -> tuple[float, float, list[Any]]:
        """Seconds for the elements, and for all of it with the log; and the outputs."""
        start = time.perf_counter()
        with collection_paused():
            state = self.backend.open(self.store)
            elements = Elements.of(pairs, [0] * len(pairs))
            outputs = self.runner.run(state, elements, Clocks(0, 0, 0), self.batch).items
            ran = time.perf_counter() - start
            self.backend.commit(self.store)
        self.store.commit()
        self.batch += 1
        return ran, time.perf_counter() - start, outputs


def dict_loop(counts: dict[str, int], pairs: list[tuple[str, int]]) -> tuple[float, list[Any]]:
    start = time.perf_counter()
    outputs = []
    for key, _ in pairs:
        n = (counts.get(key) or 0) + 1
        counts[key] = n
        outputs.append((key, n))
    return time.perf_counter() - start, outputs


def compare(keys: int, elements: int, rounds: int, seed: int) -> dict[str, Any]:
    generator = random.Random(seed)
    names = [f"user-{number}" for number in range(keys)]
    engine, counts = Engine(), {}
    warm = [(name, 1) for name in names]
    engine.bundle(warm)
    dict_loop(counts, warm)
    loop_ns, run_ns, all_ns = [], [], []
    for _ in range(rounds):
        pairs = [(generator.choice(names), 1) for _ in range(elements)]
        gc.collect()
        seconds, expected = dict_loop(counts, pairs)
        ran, whole, outputs = engine.bundle(pairs)
        assert outputs == expected, "the engine and the loop disagree"
        loop_ns.append(seconds / elements * 1e9)
        run_ns.append(ran / elements * 1e9)
        all_ns.append(whole / elements * 1e9)
    return {
        "keys": keys,
        "elements": elements,
        "rounds": rounds,
        "loop_ns": statistics.median(loop_ns),
        "engine_ns": statistics.median(run_ns),
        "engine_with_log_ns": statistics.median(all_ns),
        "ratio": spread([a / b for a, b in zip(run_ns, loop_ns, strict=True)]),
        "ratio_with_log": spread([a / b for a, b in zip(all_ns, loop_ns, strict=True)]),
    }


def spread(ratios: list[float]) -> dict[str, float]:
    return {"median": statistics.median(ratios), "min": min(ratios), "max": max(ratios)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, nargs="+", default=[1_000, 100_000, 1_000_000])
    parser.add_argument("--elements", type=int, default=500_000, help="in a bundle")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write the figures here too")
    options = parser.parse_args()
    results = []
    print(f"running counter, {options.elements:,} elements a bundle, {options.rounds} rounds, seed {options.seed}")
    print(f"{'keys':>10} {'dict loop':>12} {'engine':>12} {'ratio':>20} {'with its log':>13} {'ratio':>20}")
    for keys in options.keys:
        result = compare(keys, options.elements, options.rounds, options.seed)
        results.append(result)
        cells = [f"{keys:>10,}", f"{result['loop_ns']:>9.0f} ns", f"{result['engine_ns']:>9.0f} ns"]
        cells += [f"{as_text(result['ratio']):>20}", f"{result['engine_with_log_ns']:>10.0f} ns"]
        print(" ".join([*cells, f"{as_text(result['ratio_with_log']):>20}"]), flush=True)
    if options.json:
        options.json.write_text(json.dumps(results, indent=2))


def as_text(ratio: dict[str, float]) -> str:
    return f"{ratio['median']:.2f} ({ratio['min']:.2f}-{ratio['max']:.2f})"


if __name__ == "__main__":
    main()
