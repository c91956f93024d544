"""The options of a step: one object for every kind of step and every runtime."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from holdfast.errors import InvalidStep
from holdfast.model.aggregate.triggers import Accumulation, Trigger
from holdfast.model.functions.side_inputs import SideInput
from holdfast.model.state.limits import Limits
from holdfast.model.time.timestamps import Duration
from holdfast.model.windows.ready import WindowFn

__all__ = ["KEY", "KEY_AND_WINDOW", "DurationLike", "OnError", "ParallelOver", "SideInputs", "StepOptions"]

KEY: Literal["key"] = "key"
KEY_AND_WINDOW: Literal["key+window"] = "key+window"
_KEY_GROUPS_MAX = 32_768

OnError = Literal["fail", "dead_letter"]
"""What happens to an element whose call raises: it stops the job, or goes to the output `dead_letter`."""

ParallelOver = Literal["key", "key+window"]
"""What runs in parallel: keys, or also the fixed windows of each key."""

DurationLike = Duration | int | float | str
"""A duration, seconds, or a text such as "10 minutes"."""

SideInputs = Mapping[str, SideInput] | Sequence[SideInput]
"""By the name of the parameter, or in the order of the parameters."""


@dataclass(frozen=True)
class StepOptions:
    """The options of a step, whatever it does and wherever it runs.

    Nothing is checked on creation: `problems` finds what is wrong here and the builder of the step finds the rest, so that
    a user sees all problems together.
    """

    name: str | None = None
    windowing: WindowFn | None = None
    allowed_lateness: DurationLike = 0
    trigger: Trigger | None = None
    accumulation_mode: Accumulation | None = None
    outputs: Iterable[str] | None = None
    """The tags that outputs may have besides the main output; None: any."""
    side_inputs: SideInputs | None = ()
    """None: not known yet, and not checked."""
    requires_time_sorted_input: bool = False
    on_error: OnError = "fail"
    drop_cells: Sequence[str] = ()
    limits: Limits | None = None
    key_groups: int = 1
    backend: object = None
    """A name, or the user's own factory; `engine.backends.choice` lists the names. None: the job's."""
    parallel_over: ParallelOver = KEY

    @classmethod
    def of(cls, step: str, given: Mapping[str, object], **more: object) -> StepOptions:
        """The options that a user gave by name. Raises InvalidStep for unknown names."""
        known = [field.name for field in dataclasses.fields(cls)]
        unknown = [name for name in given if name not in known or name in more]
        if unknown:
            raise InvalidStep.of(step, [_unknown(name, [n for n in known if n not in more]) for name in unknown])
        return cls(**{**given, **more})  # type: ignore[arg-type]  # what is wrong with them, `problems` and the builder say

    def problems(self) -> Iterator[str]:
        """What is wrong with the options for how a step is stored and distributed."""
        if type(self.key_groups) is not int or not 1 <= self.key_groups <= _KEY_GROUPS_MAX:
            yield f"key_groups is {self.key_groups!r}; it must be a whole number from 1 to {_KEY_GROUPS_MAX}."
        if isinstance(self.drop_cells, str):
            yield f"drop_cells is {self.drop_cells!r}; give the names in a list: drop_cells=[{self.drop_cells!r}]."
        if self.parallel_over not in (KEY, KEY_AND_WINDOW):
            yield f"parallel_over is {self.parallel_over!r}; it can be {KEY!r} or {KEY_AND_WINDOW!r}."
        if self.on_error not in ("fail", "dead_letter"):
            yield f"on_error is {self.on_error!r}; it can be 'fail' or 'dead_letter'."
        if isinstance(self.outputs, str):
            yield f"outputs is the text {self.outputs!r}; give the tags in a list or a dict: outputs=[{self.outputs!r}]."
        yield from Limits.problems(self.limits)

    @property
    def diverts(self) -> bool:
        """Whether elements over a limit go to an output."""
        return isinstance(self.limits, Limits) and self.limits.diverts


def _unknown(name: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"the options are {', '.join(known)}."
    return f"There is no option {name!r}; {hint}"
