"""One key group as a worker has it, without Spark: its engine, its store, and what its bundles cost."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from holdfast.engine.backends.disk import DiskBackend
from holdfast.engine.backends.heap import HeapBackend
from holdfast.engine.run.bundle import run_bundle
from holdfast.engine.run.choice import make_runner
from holdfast.engine.run.clocks import Clocks, collection_paused
from holdfast.engine.state.key_group import Layout
from holdfast.model.functions.grouping import build
from holdfast.model.functions.options import StepOptions
from holdfast.testing.memory_store import MemoryStore

__all__ = ["CountingStore", "Worker", "load_average"]

SECOND = 1_000_000


class CountingStore(MemoryStore):
    """Counts the calls, each of which is a round trip on Spark, and the bytes that were put."""

    def __init__(self, blobs: dict[str, bytes] | None = None) -> None:
        super().__init__(blobs)
        self.calls = 0
        self.bytes_put = 0

    def get(self, name: str) -> bytes | None:
        self.calls += 1
        return super().get(name)

    def put(self, name: str, blob: bytes) -> None:
        self.calls += 1
        self.bytes_put += len(blob)
        super().put(name, blob)

    def remove(self, name: str) -> None:
        self.calls += 1
        super().remove(name)

    def items(self) -> Iterator[tuple[str, bytes]]:
        self.calls += 1
        return super().items()


class Worker:
    """Runs one step for one key group, on the heap, or on disk if there is a path."""

    def __init__(self, fn: Any, store: CountingStore, path: Path | None = None, **options: Any) -> None:
        step = build(fn, StepOptions(name="growth", **options))
        layout = Layout(step)
        self.runner: Any = make_runner(step, layout, {}, (), origins=False)
        self.backend: HeapBackend | DiskBackend
        self.backend = HeapBackend(layout) if path is None else DiskBackend(layout, path)
        self.store = store
        self.runner.setup()
        self._batch = 0

    def bundle(self, pairs: Sequence[tuple[Any, Any]], times: Sequence[int] | None = None, watermark: int = 0) -> float:
        """Runs and commits a bundle; returns milliseconds of processor time. `times` and `watermark` are in seconds."""
        stamps = [0] * len(pairs) if times is None else [time * SECOND for time in times]
        clocks = Clocks(watermark * SECOND, watermark * SECOND, 0)
        with collection_paused():
            began = time.process_time_ns()
            self.backend.open(self.store)
            taken = self.runner.elements(list(pairs), stamps)
            # As on Spark, where the next wake-up is asked for after each bundle.
            run_bundle(self.backend, self.store, self.runner, taken, clocks, self._batch, self._take)
            self.backend.next_due(self.runner)
            took = time.process_time_ns() - began
        self.store.commit()
        self._batch += 1
        return took / 1e6

    def open(self) -> float:
        """Opens the state and closes it unchanged; returns milliseconds of processor time for opening."""
        with collection_paused():
            began = time.process_time_ns()
            self.backend.open(self.store)
            took = time.process_time_ns() - began
        self.backend.commit(self.store)
        self.store.commit()
        return took / 1e6

    def _take(self) -> None:
        for _ in self.runner.outputs():
            pass

    def close(self) -> None:
        """Frees the memory before the next case."""
        self.backend.release()
        gc.collect()


def load_average() -> float:
    """How busy the machine was during the last minute."""
    return os.getloadavg()[0]
