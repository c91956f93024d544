"""Outputs: what calls returned or yielded, with the time and window they came from.

Plain values are gathered in one list at the speed of `list.extend`; their origin is recorded once per call (`marks`), and
only if requested. The few outputs that are not plain values are told apart by type at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import GeneratorType
from typing import Any, NamedTuple

from holdfast.errors import OutputError
from holdfast.model.functions.dofn import TaggedOutput
from holdfast.model.functions.step import MAIN_TAG, Step
from holdfast.model.time.timestamps import Timestamp
from holdfast.model.windows.ready import WindowFn
from holdfast.model.windows.values import PANE_INFO_UNKNOWN, PaneInfo, TimestampedValue, WindowedValue

__all__ = ["Collector", "Output", "check_finish_bundle", "checked", "tag_and_value"]

_SPECIAL = frozenset({TaggedOutput, TimestampedValue, WindowedValue})


class Output(NamedTuple):
    """One output: its value, event time, window and tag; for an aggregation, also its pane."""

    value: Any
    timestamp: Timestamp
    window: Any
    tag: str
    pane: PaneInfo = PANE_INFO_UNKNOWN


class Collector:
    """Gathers the outputs of one bundle, in order of emission."""

    __slots__ = ("items", "marks", "origins")

    def __init__(self, origins: bool) -> None:
        self.items: list[Any] = []
        self.origins = origins
        self.marks: list[tuple[int, int, Any]] = []
        """(number of items so far, time in microseconds, window) after each call."""

    def collect(self, result: Any, time: int, window: Any, method: str) -> None:
        """Takes the result of one call."""
        if result is not None:
            self.items.extend(result if type(result) is GeneratorType else checked(result, method))
        if self.origins:
            self.marks.append((len(self.items), time, window))

    def tagged(self, step: Step, *, whole: bool = False) -> Iterator[tuple[str, Any]]:
        """(tag, value) of every output, without time and window unless it is asked for whole."""
        if _SPECIAL.isdisjoint(map(type, self.items)):
            for item in self.items:
                yield MAIN_TAG, item
            return
        for item in self.items:
            tag, item = _untag(item, step)
            bare = isinstance(item, (TimestampedValue, WindowedValue)) and not whole
            yield tag, item.value if bare else item

    def plain(self) -> list[Any] | None:
        """All outputs, if they are plain values for the main output."""
        return self.items if _SPECIAL.isdisjoint(map(type, self.items)) else None

    def outputs(self, step: Step) -> Iterator[Output]:
        """Every output with its time and window. Needs `origins`."""
        window_fn = step.windowing.window_fn
        start = 0
        for end, time, window in self.marks:
            for item in self.items[start:end]:
                yield from _outputs(item, time, window, window_fn, step)
            start = end


def tag_and_value(item: Any) -> tuple[str, Any]:
    """The tag of an output, declared or not, and the value to write."""
    tag, value = (item.tag, item.value) if isinstance(item, TaggedOutput) else (MAIN_TAG, item)
    return tag, value.value if isinstance(value, (TimestampedValue, WindowedValue)) else value


def _outputs(item: Any, time: int, window: Any, window_fn: WindowFn, step: Step) -> Iterator[Output]:
    tag, item = _untag(item, step)
    if isinstance(item, WindowedValue):
        value = item.value if step.grouping is None else step.grouping.shaped(item.value)
        for own in item.windows:
            yield Output(value, item.timestamp, own, tag, item.pane_info)
    elif isinstance(item, TimestampedValue):
        timestamp = Timestamp.of(item.timestamp)
        for assigned in window_fn.assign(WindowFn.AssignContext(timestamp, item.value)):
            yield Output(item.value, timestamp, assigned, tag)
    else:
        yield Output(item, Timestamp(micros=time), window, tag)


def _untag(item: Any, step: Step) -> tuple[str, Any]:
    if not isinstance(item, TaggedOutput):
        return MAIN_TAG, item
    if step.tags is not None and item.tag not in step.tags and item.tag != MAIN_TAG:
        raise OutputError(
            f"The step {step.name!r} gave an output with the tag {item.tag!r}, which is not declared.",
            detail=f"Declared tags: {', '.join(sorted(step.tags)) or 'none'}. The output is {item.value!r}.",
            todo=f"declare it: outputs={{{item.tag!r}: ...}}",
        )
    return item.tag, item.value


def checked(result: Any, method: str) -> Iterable[Any]:
    """Refuses results that are iterable but surely not meant as several outputs."""
    if isinstance(result, (str, bytes, dict)) or not isinstance(result, Iterable):
        kind = type(result).__name__
        raise OutputError(
            f"{method} returned a {kind}; it must return an iterable of outputs, or None.",
            detail=f"It returned {result!r:.200}",
            todo=f"yield the {kind}, or return it in a list: return [result]",
        )
    return result


def check_finish_bundle(result: Any) -> Iterator[Any]:
    """The outputs of finish_bundle: with no element to take time and window from, they must carry their own."""
    for item in checked(result, "finish_bundle"):
        value = item.value if isinstance(item, TaggedOutput) else item
        if not isinstance(value, WindowedValue):
            raise OutputError(
                f"finish_bundle gave {item!r:.200}; it can only give WindowedValue, or TaggedOutput of one.",
                todo="yield WindowedValue(value, timestamp, [window])",
            )
        yield item
