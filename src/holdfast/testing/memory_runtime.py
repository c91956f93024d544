"""The memory runtime: the engine itself, over a store in memory, without a JVM."""

from __future__ import annotations

import contextlib
import copy
import shutil
import tempfile
import uuid
import zlib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from holdfast.engine.backends.choice import backend_name, backend_of
from holdfast.engine.backends.disk import DiskBackend
from holdfast.engine.backends.heap import HeapBackend
from holdfast.engine.backends.protocol import BackendFactory, Place, StateBackend
from holdfast.engine.log.chain import SnapshotOptions
from holdfast.engine.metrics.step import StepMetrics
from holdfast.engine.run.bundle import run_bundle
from holdfast.engine.run.choice import make_runner
from holdfast.engine.run.clocks import Clocks
from holdfast.engine.run.outputs import Output
from holdfast.engine.state.key_group import KeyGroupState, Layout
from holdfast.engine.state.keys import encode_slots, slot_of
from holdfast.engine.stored.evolution import adapted
from holdfast.engine.stored.manifest import Evolution, make_manifest
from holdfast.engine.tables import Slot
from holdfast.errors import HoldfastError, InvalidStep
from holdfast.model.functions.culprits import BACKEND_ADVICE, sending_problems
from holdfast.model.functions.options import StepOptions
from holdfast.model.functions.step import Step
from holdfast.model.time.timestamps import MIN_TIMESTAMP, Timestamp
from holdfast.testing.memory_store import MemoryStore
from holdfast.testing.stream import AddElements, AdvanceProcessingTime, AdvanceWatermark, Crash, Event

__all__ = ["DiskFiles", "HeapBackends", "MemoryRuntime", "copied_backend"]

Pairs = tuple[list[Any], list[int]]
"""Elements, and their times in microseconds."""


class HeapBackends:
    """Makes heap backends."""

    name = "heap"

    def __init__(self, options: SnapshotOptions | None = None) -> None:
        self._options = options

    def make(self, layout: Layout, place: Place) -> HeapBackend:
        return HeapBackend(layout, self._options)


class DiskFiles:
    """Makes disk backends over files that survive a crash, like those on a machine's disk."""

    name = "disk"

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="holdfast-disk-"))

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def make(self, layout: Layout, place: Place) -> DiskBackend:
        # Small parts, so that a test with a few keys has several.
        return DiskBackend(layout, self._folder / f"{place.name}.sqlite", part_keys=2)


def fitting(
    store: MemoryStore, step: Step, layout: Layout, key_groups: int, drop_cells: Sequence[str], backend: str
) -> Layout:
    """Adapts stored state to the step, as the first bundle of a key group does."""
    manifest = make_manifest(step.describe(), key=[], key_groups=key_groups, backend=backend)
    wanted = adapted(store, manifest, layout, Evolution.of(step.cells, drop_cells))
    store.commit()
    return wanted


class _Worker:
    """What a crash loses: the function's instance and the state in memory."""

    def __init__(
        self, step: Step, factory: BackendFactory, query: str, stores: list[MemoryStore], drop_cells: Sequence[str]
    ) -> None:
        self.layout = Layout(step)
        views = {name: side_input.view(side_input.source) for name, side_input in step.side_inputs.items()}
        extra = [side_input.view(side_input.source) for side_input in step.extra_side_inputs]
        self.runner = make_runner(step, self.layout, views, extra, origins=True)
        self.backends: list[StateBackend] = []
        for group, store in enumerate(stores):
            layout = fitting(store, step, self.layout, len(stores), drop_cells, factory.name)
            self.backends.append(factory.make(layout, Place(query, step.name, group)))
        self.runner.setup()

    def release(self) -> None:
        for backend in self.backends:
            backend.release()


class MemoryRuntime:
    """Plays the events of a script. Each is one micro-batch, committed as a whole if it succeeds."""

    def __init__(
        self,
        make_step: Callable[[], Step],
        options: StepOptions,
        *,
        query: str = "",
        stores: Sequence[MemoryStore] | None = None,
    ) -> None:
        self._make_step = make_step
        self._backend = backend_of(options)
        self._files = DiskFiles() if self._backend == "disk" else None
        self.query = query or uuid.uuid4().hex
        """Stands for the id of a Spark query."""
        self._drop_cells = options.drop_cells
        if stores is None:
            self.stores = [MemoryStore() for _ in range(options.key_groups)]
        else:
            # A copy of what an earlier run committed; that run keeps its own.
            self.stores = [MemoryStore(dict(store.committed)) for store in stores]
        self.outputs: list[Output] = []
        self.metrics = StepMetrics()
        self._watermark = MIN_TIMESTAMP.micros
        self._now = 0
        self._batch = -1
        self._worker = self._start()

    def _start(self) -> _Worker:
        return _Worker(self._make_step(), self._factory(), self.query, self.stores, self._drop_cells)

    def _factory(self) -> BackendFactory:
        """A copy of the user's factory, as a worker would receive it."""
        if isinstance(self._backend, str):
            return self._files or HeapBackends()
        return copied_backend(self._backend)

    def play(self, event: Event, more: Sequence[tuple[Any, Timestamp]] = ()) -> None:
        """Plays an event. `more` are further elements of the same micro-batch, with their times."""
        if isinstance(event, Crash):
            self._worker.release()
            self._worker = self._start()
            return
        pairs: list[Pairs] = [([], [])] * len(self.stores)
        late = self._watermark
        final = False
        if isinstance(event, AddElements):
            pairs = self._split([*event.elements, *more])
        elif more:
            pairs = self._split(more)
        if isinstance(event, AdvanceWatermark):
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
            if self._files is not None:
                self._files.close()

    def load(self, slot: Slot | None) -> list[KeyGroupState]:
        """The committed state as a fresh worker reads it, for the key group of a slot or for all."""
        groups = range(len(self.stores)) if slot is None else [self._group(slot)]
        step = self._make_step()
        layout = Layout(step)
        stores = [MemoryStore(dict(self.stores[group].committed)) for group in groups]
        # Any of Holdfast's own backends can read what another stored.
        factory = HeapBackends() if isinstance(self._backend, str) else self._factory()
        name = backend_name(self._backend)
        found: list[KeyGroupState] = []
        for group, store in zip(groups, stores, strict=True):
            fit = fitting(store, step, layout, len(self.stores), self._drop_cells, name)
            backend = factory.make(fit, Place(self.query, step.name, group))
            found += backend.everything(store)
            backend.release()
        return found

    def _split(self, elements: Sequence[tuple[Any, Timestamp]]) -> list[Pairs]:
        """The elements of each key group with their times. Those without a key go to the first one."""
        split: list[Pairs] = [([], []) for _ in self.stores]
        for element, timestamp in elements:
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


def copied_backend(backend: BackendFactory) -> BackendFactory:
    """A copy of the factory, as a worker would receive it."""
    try:
        return copy.deepcopy(backend)
    except Exception as error:
        problems = sending_problems(copy.deepcopy, [(type(backend).__name__, backend)], BACKEND_ADVICE)
        raise InvalidStep("run", problems or [f"The backend cannot be sent to a worker: {error}"]) from error


def _extend(outputs: list[Output], runner: Any) -> None:
    outputs.extend(runner.outputs())
