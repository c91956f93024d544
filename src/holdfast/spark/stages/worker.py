"""What a Python worker remembers between tasks: steps that are set up, and the key groups it has processed.

Invariants
- A key group in here is only a cached copy. Its backend checks it against the store at the start of every bundle.
- All key groups together stay within the memory budget: the least recently used are dropped first, never from the store.
- Entries are separate by query, step and label, so that two queries in one process do not keep replacing each other's
  copies; that they cannot see each other's state is ensured by the backend's tokens alone.
"""

from __future__ import annotations

import gc
import hashlib
import logging
from collections import OrderedDict
from collections.abc import Hashable
from pathlib import Path

from holdfast.engine.backends.disk import DiskBackend
from holdfast.engine.backends.heap import HeapBackend
from holdfast.engine.backends.protocol import Place, StateBackend
from holdfast.engine.log.chain import SnapshotOptions
from holdfast.engine.state.key_group import Layout
from holdfast.spark.stages.plan import Loaded, StepPlan
from holdfast.spark.stages.working_folder import working_folder

__all__ = ["WORKER", "Worker"]

_STEPS_MAX = 64
_FREEZE_BYTES_MIN = 32 * 1024 * 1024
_FREEZE_RATIO = 1.25


def _tear_down(old: Loaded) -> None:
    """Ends a step that has not been used for a while. Its errors must not affect the step about to run."""
    try:
        old.runner.teardown()
    except Exception:
        logging.getLogger("holdfast").warning("The step %r could not be torn down.", old.plan.name, exc_info=True)


class Worker:
    """The memory of one worker process."""

    def __init__(self) -> None:
        self._steps: OrderedDict[Hashable, Loaded] = OrderedDict()
        self._groups: OrderedDict[Hashable, StateBackend] = OrderedDict()
        self._manifests: dict[Hashable, bytes | None] = {}
        """The manifest that each key group was read with."""
        self._sizes: dict[Hashable, int] = {}
        self._budgets: OrderedDict[str, int] = OrderedDict()
        """By query, most recently used last."""
        self._frozen = _FREEZE_BYTES_MIN

    def step(self, plan: StepPlan, query: str) -> Loaded:
        """The step of a plan, set up once per query."""
        name = (query, plan.digest)
        loaded = self._steps.get(name)
        if loaded is None:
            loaded = self._steps[name] = plan.load()
            while len(self._steps) > _STEPS_MAX:
                _, old = self._steps.popitem(last=False)
                _tear_down(old)
        self._steps.move_to_end(name)
        loaded.refresh(plan.side_inputs)
        return loaded

    def group(self, query: str, loaded: Loaded, label: int, manifest: bytes | None) -> StateBackend | None:
        """The backend of a key group, if it was processed here before under the manifest that is stored now."""
        name = (query, loaded.plan.digest, label)
        backend = self._groups.get(name)
        if backend is not None and self._manifests[name] != manifest:
            self.forget(query, loaded, label)
            return None
        if backend is not None:
            self._groups.move_to_end(name)
        return backend

    def add_group(self, query: str, loaded: Loaded, place: Place, layout: Layout, manifest: bytes | None) -> StateBackend:
        """A new backend for a key group, with the layout of its stored state."""
        label = place.key_group
        # Key groups with equal load would all write their snapshots in the same micro-batch; the label spreads them.
        options = SnapshotOptions(spread=(label * 2654435761 % 2**32) / 2**32)
        backend: StateBackend
        if loaded.factory is not None:
            backend = loaded.factory.make(layout, place)
        elif loaded.plan.backend == "disk":
            backend = DiskBackend(layout, _file_of(query, loaded.plan.digest, label), options)
        else:
            backend = HeapBackend(layout, options)
        name = (query, loaded.plan.digest, label)
        self._groups[name] = backend
        self._manifests[name] = manifest
        return backend

    def used(self, query: str, loaded: Loaded, label: int, budget: int) -> None:
        """Records the size of a key group after a bundle, and enforces the worker's budget, the largest of any query's."""
        name = (query, loaded.plan.digest, label)
        self._sizes[name] = self._groups[name].memory_bytes
        self._budgets[query] = budget
        self._budgets.move_to_end(query)
        while len(self._budgets) > _STEPS_MAX:
            self._budgets.popitem(last=False)
        budget = max(self._budgets.values())
        total = sum(self._sizes.values())
        while total > budget and len(self._groups) > 1:
            evicted, backend = self._groups.popitem(last=False)
            backend.release()
            del self._manifests[evicted]
            total -= self._sizes.pop(evicted, 0)
        if total > _FREEZE_RATIO * self._frozen:
            # Spark's worker collects garbage after every task, and would traverse all of the state each time. What is
            # garbage now would stay for good.
            gc.collect()
            gc.freeze()
            self._frozen = total

    def forget(self, query: str, loaded: Loaded, label: int) -> None:
        """Drops a key group whose bundle failed, or that does not match what is stored."""
        name = (query, loaded.plan.digest, label)
        backend = self._groups.pop(name, None)
        if backend is not None:
            backend.abandon()
            backend.release()
        self._manifests.pop(name, None)
        self._sizes.pop(name, None)

    @property
    def memory_bytes(self) -> int:
        return sum(self._sizes.values())


def _file_of(query: str, digest: str, label: int) -> Path:
    """The disk backend's working file."""
    name = hashlib.blake2b(query.encode(), digest_size=8).hexdigest()
    return working_folder() / f"{name}-{digest}" / f"{label}.sqlite"


WORKER = Worker()
