"""One key group on a backend under test: bundles that succeed, and bundles that do not."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

from holdfast.engine.backends.protocol import BackendFactory, Due, Part, Place
from holdfast.engine.log.store import BlobStore
from holdfast.engine.run.bundle import run_bundle
from holdfast.engine.run.choice import make_runner
from holdfast.engine.run.clocks import Clocks
from holdfast.engine.run.intake import Elements
from holdfast.engine.state.key_group import KeyGroupState, Layout
from holdfast.engine.state.keys import key_of
from holdfast.model.functions.grouping import build
from holdfast.model.functions.options import StepOptions
from holdfast.model.time.timestamps import MIN_TIMESTAMP
from holdfast.testing.backend_functions import Batch, Script
from holdfast.testing.memory_runtime import copied_backend
from holdfast.testing.memory_store import MemoryStore

__all__ = ["FullStore", "KeyGroup", "Stopped", "Worker", "content_of"]

_SECOND = 1_000_000

Content = dict[Any, Any]
"""(window, cell or timer, key) → what it holds."""


class Stopped(Exception):
    """Raised by the rig in the middle of a bundle."""


class FullStore(MemoryStore):
    """A store that accepts nothing."""

    def put(self, name: str, blob: bytes) -> None:
        raise Stopped("no room")


class KeyGroup:
    """The key group of a script: its place, and its store, which only `micro_batch` commits."""

    def __init__(self, factory: BackendFactory, script: Script, key_group: int = 0, query: str = "") -> None:
        self.factory = factory
        self.script = script
        self.store = MemoryStore()
        self.place = Place(query or uuid.uuid4().hex, "check", key_group)
        self._late = MIN_TIMESTAMP.micros
        self._made: list[Worker] = []
        self.turns: list[Worker] = []
        """The workers that take turns, if any."""

    def worker(self) -> Worker:
        """A worker that has never seen this key group."""
        self._made.append(Worker(self))
        return self._made[-1]

    def clocks(self, batch: Batch) -> Clocks:
        watermark = self._late if batch.watermark is None else int(batch.watermark * _SECOND)
        return Clocks(self._late, watermark, int(batch.now * _SECOND), batch.final)

    def micro_batch(self, worker: Worker, batch: Batch) -> list[str]:
        """Runs a bundle whose writes become durable."""
        outputs = worker.bundle(self.store, batch)
        self.commit(batch)
        return outputs

    def commit(self, batch: Batch) -> None:
        self.store.commit()
        self._late = self.clocks(batch).watermark

    def content(self) -> Content:
        """The committed state, as a fresh worker sees it."""
        worker = self.worker()
        return content_of(list(worker.backend.everything(MemoryStore(self.store.committed))))

    def release(self) -> None:
        for worker in self._made:
            worker.backend.release()


class Worker:
    """A worker process: a copy of the factory, of the function, and a backend."""

    def __init__(self, group: KeyGroup) -> None:
        self._group = group
        step = build(group.script.fn, StepOptions(name=group.place.step, **group.script.options))
        layout = Layout(step)
        self.runner = make_runner(step, layout, {}, (), origins=True)
        self.backend = copied_backend(group.factory).make(layout, group.place)

    def bundle(self, store: BlobStore, batch: Batch, stop_after: int | None = None) -> list[str]:
        """Runs a bundle until `commit` returns; returns its outputs in a canonical order. May stop after some part."""
        self.backend.open(store)
        return self.finish(store, batch, stop_after)

    def finish(self, store: BlobStore, batch: Batch, stop_after: int | None = None) -> list[str]:
        """The same on an open backend."""
        outputs: list[str] = []
        parts = 0

        def collect() -> None:
            nonlocal parts
            outputs.extend(f"{o.value!r} at {o.timestamp} in {o.window}" for o in self.runner.outputs())
            parts += 1
            if parts == stop_after:
                raise Stopped

        run_bundle(self.backend, store, self.runner, self._elements(batch), self._group.clocks(batch), 0, collect)
        return sorted(outputs)

    def _elements(self, batch: Batch) -> Elements:
        pairs = [(key, value) for key, value, _ in batch.elements]
        elements: Elements = self.runner.elements(pairs, [int(time * _SECOND) for *_, time in batch.elements])
        return elements

    def parts(self, batch: Batch) -> Iterator[Part]:
        """The parts of a bundle on an open backend, each run before the next."""
        elements, clocks = self._elements(batch), self._group.clocks(batch)
        for part in self.backend.parts(elements.slots, clocks, self.runner):
            yield part
            self.runner.run(part.state, elements if part.positions is None else elements.take(part.positions), clocks, 0)

    def due(self) -> Due:
        return self.backend.next_due(self.runner)


def content_of(states: list[KeyGroupState]) -> Content:
    """The content of states, as a user sees it; marks a key that two of them have in the same window."""
    found: Content = {}
    for state in states:
        for window in state.windows.values():
            for spec, table in zip(state.layout.cells, window.tables, strict=False):
                for slot in table.values:
                    place = (str(window.window), spec.name, repr(key_of(slot)))
                    held = table.reveal(slot)
                    told = list(held.items()) if isinstance(held, dict) else held
                    found[place] = "in two pieces of everything()" if place in found else _plain(told)
            for entry, time in window.pending():
                timer = f"timer {state.layout.step.timers[entry.timer].name}:{entry.tag}"
                found[str(window.window), timer, repr(key_of(entry.slot))] = time / _SECOND
    return found


def _plain(value: Any) -> Any:
    return sorted(value, key=repr) if isinstance(value, (set, frozenset)) else value
