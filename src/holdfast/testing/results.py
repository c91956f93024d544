"""The results of a scripted run: outputs in order of emission, the final state, and counters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, overload

from holdfast.engine.metrics.step import StepMetrics
from holdfast.engine.run.outputs import Output
from holdfast.engine.state.key_group import KeyGroupState
from holdfast.engine.state.keys import key_of, slot_of, sort_slots
from holdfast.engine.tables import Slot
from holdfast.model.functions.step import MAIN_TAG, Step
from holdfast.model.time.timestamps import Timestamp
from holdfast.model.windows.ready import BoundedWindow, GlobalWindows
from holdfast.testing.memory_store import MemoryStore

__all__ = ["Results"]


class Results(Sequence[Output]):
    """The outputs, as a sequence; `state`, `timers` and `metrics` for the rest.

    The state is what a fresh worker would read: it is decoded from the committed log, not taken from memory.
    """

    def __init__(
        self,
        step: Step,
        outputs: list[Output],
        metrics: StepMetrics,
        load: Callable[[Slot | None], list[KeyGroupState]],
        stores: Sequence[MemoryStore] = (),
        query: str = "",
    ) -> None:
        self._step = step
        self._outputs = outputs
        self._load = load
        self.metrics = metrics
        self.stores = stores
        """What was committed, for a run that resumes from here."""
        self.query = query
        """Stands for the query's id, which such a run keeps."""

    @overload
    def __getitem__(self, index: int) -> Output: ...

    @overload
    def __getitem__(self, index: slice) -> list[Output]: ...

    def __getitem__(self, index: int | slice) -> Output | list[Output]:
        return self._outputs[index]

    def __len__(self) -> int:
        return len(self._outputs)

    def __repr__(self) -> str:
        return f"Results({self._outputs!r})"

    @property
    def values(self) -> list[Any]:
        """The values of the main output."""
        return self.tagged(MAIN_TAG)

    def tagged(self, tag: str) -> list[Any]:
        """The values of one output."""
        return [output.value for output in self._outputs if output.tag == tag]

    def keys(self) -> list[Any]:
        """All keys that have state."""
        slots = [slot for state in self._load(None) for window in state.windows.values() for slot in window.slots()]
        return [key_of(slot) for slot in sort_slots(set(slots))]

    def state(self, key: object, window: BoundedWindow | None = None) -> dict[Any, Any]:
        """The cells of a key that hold a value, by name: those of the global window, or of the given one.

        If the step has other windows and none is given: such a dict for each window with state.
        """
        slot = slot_of(key)
        found: dict[Any, dict[str, Any]] = {}
        for state in self._load(slot):
            for held in state.windows.values():
                cells = {
                    spec.name: table.reveal(slot)
                    for spec, table in zip(state.layout.cells, held.tables, strict=False)
                    if slot in table.values
                }
                if cells:
                    found[held.window] = cells
        if window is not None:
            return found.get(window, {})
        if isinstance(self._step.windowing.window_fn, GlobalWindows):
            return next(iter(found.values()), {})
        return found

    def timers(self, key: object) -> list[tuple[str, str, BoundedWindow, Timestamp]]:
        """The set timers of a key: (name, tag, window, time), in order of time."""
        slot = slot_of(key)
        found = [
            (self._step.timers[entry.timer].name, entry.tag, window.window, Timestamp(micros=time))
            for state in self._load(slot)
            for window in state.windows.values()
            for entry, time in window.pending(slot)
        ]
        return sorted(found, key=lambda timer: (timer[3], timer[0], timer[1]))
