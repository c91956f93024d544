"""The memory runtime: the engine itself, over a store in memory, without a JVM."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import zlib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from holdfast.engine.backends.disk import DiskBackend
from holdfast.engine.backends.heap import HeapBackend
from holdfast.engine.backends.protocol import StateBackend
from holdfast.engine.bundle import run_bundle
from holdfast.engine.evolution import adapted
from holdfast.engine.keys import encode_slots, slot_of
from holdfast.engine.manifest import Evolution, make_manifest
from holdfast.engine.metrics import StepMetrics
from holdfast.engine.outputs import Output
from holdfast.engine.runner import Clocks
from holdfast.engine.runners import make_runner
from holdfast.engine.state import KeyGroupState, Layout
from holdfast.engine.tables import Slot
from holdfast.errors import HoldfastError
from holdfast.model.step import Step
from holdfast.model.timestamps import MIN_TIMESTAMP
from holdfast.testing.memory_store import MemoryStore
from holdfast.testing.stream import AddElements, AdvanceProcessingTime, AdvanceWatermark, Crash, Event

__all__ = ["DiskFiles", "MemoryRuntime"]

Pairs = tuple[list[Any], list[int]]
"""Elements, and their times in microseconds."""


class DiskFiles:
    """Makes disk backends over files that outlive a crash, as those on a machine's disk do."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="holdfast-disk-"))
        self._made = 0

    def close(self) -> None:
        shutil.rmtree(self._folder)

    def begin(self) -> None:
        """A worker starts: it asks for its key groups in their order."""
        self._made = 0

    def __call__(self, layout: Layout) -> DiskBackend:
        self._made += 1
        # Small parts, so that a test of a few keys has several.
        return DiskBackend(layout, self._folder / f"{self._made}.sqlite", part_keys=2)


def fitting(store: MemoryStore, step: Step, layout: Layout, key_groups: int, drop_cells: Sequence[str]) -> Layout:
    """Makes what is stored fit the step, as the first bundle of a key group does."""
    manifest = make_manifest(step.describe(), key=[], key_groups=key_groups, backend="heap")
    wanted = adapted(store, manifest, layout, Evolution.of(step.cells, drop_cells))
    store.commit()
    return wanted


class _Worker:
    """What a crash loses: the function's instance and the state in memory."""

    def __init__(
        self, step: Step, backend: Callable[[Layout], StateBackend], stores: list[MemoryStore], drop_cells: Sequence[str]
    ) -> None:
        self.layout = Layout(step)
        views = {name: side_input.view(side_input.source) for name, side_input in step.side_inputs.items()}
        extra = [side_input.view(side_input.source) for side_input in step.extra_side_inputs]
        self.runner = make_runner(step, self.layout, views, extra, origins=True)
        self.backends = [backend(fitting(store, step, self.layout, len(stores), drop_cells)) for store in stores]
        self.runner.setup()

    def release(self) -> None:
        for backend in self.backends:
            backend.release()


class MemoryRuntime:
    """Plays the events of a script. Each is one micro-batch, committed as a whole when it went well."""

    def __init__(
        self,
        make_step: Callable[[], Step],
        key_groups: int = 1,
        backend: Callable[[Layout], StateBackend] = HeapBackend,
        *,
        stores: Sequence[MemoryStore] | None = None,
        drop_cells: Sequence[str] = (),
    ) -> None:
        self._make_step = make_step
        self._backend = backend
        self._drop_cells = drop_cells
        if stores is None:
            self.stores = [MemoryStore() for _ in range(key_groups)]
        else:
            # What an earlier run has committed; that run keeps its own.
            self.stores = [MemoryStore(dict(store.committed)) for store in stores]
        self.outputs: list[Output] = []
        self.metrics = StepMetrics()
        self._watermark = MIN_TIMESTAMP.micros
        self._now = 0
        self._batch = -1
        self._worker = self._start()

    def _start(self) -> _Worker:
        if isinstance(self._backend, DiskFiles):
            self._backend.begin()
        return _Worker(self._make_step(), self._backend, self.stores, self._drop_cells)

    def play(self, event: Event) -> None:
        if isinstance(event, Crash):
            self._worker.release()
            self._worker = self._start()
            return
        pairs: list[Pairs] = [([], [])] * len(self.stores)
        late = self._watermark
        final = False
        if isinstance(event, AddElements):
            pairs = self._split(event)
        elif isinstance(event, AdvanceWatermark):
            self._watermark = event.to.micros
            final = event.is_final
        elif isinstance(event, AdvanceProcessingTime):
            self._now += event.by.micros
        self._micro_batch(pairs, Clocks(late, self._watermark, self._now, final))

    def finish(self) -> None:
        try:
            self._worker.runner.teardown()
        finally:
            self._worker.release()
            if isinstance(self._backend, DiskFiles):
                self._backend.close()

    def load(self, slot: Slot | None) -> list[KeyGroupState]:
        """The committed state as a fresh worker reads it, of the key group of a slot or of all."""
        groups = range(len(self.stores)) if slot is None else [self._group(slot)]
        step = self._make_step()
        layout = Layout(step)
        stores = [MemoryStore(dict(self.stores[group].committed)) for group in groups]
        layouts = [fitting(store, step, layout, len(self.stores), self._drop_cells) for store in stores]
        pairs = zip(stores, layouts, strict=True)
        return [state for store, fit in pairs for state in self._backend(fit).everything(store)]

    def _split(self, event: AddElements) -> list[Pairs]:
        """The elements of each key group with their times. Those without a key go to the first."""
        split: list[Pairs] = [([], []) for _ in self.stores]
        for element, timestamp in event.elements:
            group = 0
            if len(self.stores) > 1:
                with contextlib.suppress(HoldfastError):
                    group = self._group(slot_of(element[0]))
            split[group][0].append(tuple(element))
            split[group][1].append(timestamp.micros)
        return split

    def _group(self, slot: Slot) -> int:
        return zlib.crc32(encode_slots([slot])) % len(self.stores)

    def _micro_batch(self, pairs: list[Pairs], clocks: Clocks) -> None:
        self._batch += 1
        runner = self._worker.runner
        outputs: list[Output] = []
        metrics = StepMetrics()
        try:
            for group, (backend, store) in enumerate(zip(self._worker.backends, self.stores, strict=True)):
                backend.open(store)
                elements = runner.elements(*pairs[group])
                collect = partial(_extend, outputs, runner)
                metrics.add(run_bundle(backend, store, runner, elements, clocks, self._batch, collect))
        except Exception:
            for backend, store in zip(self._worker.backends, self.stores, strict=True):
                backend.abandon()
                store.rollback()
            raise
        for store in self.stores:
            store.commit()
        self.outputs.extend(outputs)
        self.metrics.add(metrics)


def _extend(outputs: list[Output], runner: Any) -> None:
    outputs.extend(runner.outputs())
