"""DoFn: the function that a user writes, and what it may yield."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.errors import OutputError
from holdfast.model.functions import params
from holdfast.model.functions.params import Param, ParamKind
from holdfast.model.time.timestamps import Timestamp
from holdfast.model.windows.values import PaneInfo, WindowedValue

if TYPE_CHECKING:
    from holdfast.model.state.specs import LiveT, StateSpec
    from holdfast.model.time.timers import Timer, TimerSpec

__all__ = ["DoFn", "Grouped", "GroupedDoFn", "TaggedOutput"]


class DoFn:
    """A function over keyed elements that remembers things for each key and window.

    Order of calls, for one instance in one worker:

        setup → { start_bundle → (process | timer callback | on_window_expiration)* → finish_bundle }* → teardown

    A *bundle* is what one key group gets in one micro-batch. `teardown` is best effort. A call is atomic: if it
    raises, none of its state, timers or outputs survive. Outputs are what a method returns (an iterable) or yields:
    plain values, `TimestampedValue`, `WindowedValue` or `TaggedOutput`.

    What a method wants beyond the element it says by the defaults of its parameters:

        def process(self, element, count=DoFn.StateParam(COUNT), ts=DoFn.TimestampParam): ...

    Parameters without such a default, after the element, are side inputs.
    """

    # Each is typed as what the call is given in its place, so that an editor knows it without an annotation. Elements, keys,
    # windows and side inputs are what the user says: `window: IntervalWindow = DoFn.WindowParam` passes a type checker.
    ElementParam: Any = Param(ParamKind.ELEMENT)
    KeyParam: Any = Param(ParamKind.KEY)
    TimestampParam: Timestamp = Param(ParamKind.TIMESTAMP)  # type: ignore[assignment]
    WindowParam: Any = Param(ParamKind.WINDOW)
    WindowedValueParam: WindowedValue = Param(ParamKind.WINDOWED_VALUE)  # type: ignore[assignment]
    PaneInfoParam: PaneInfo = Param(ParamKind.PANE_INFO)  # type: ignore[assignment]
    SideInputParam: Any = Param(ParamKind.SIDE_INPUT)
    DynamicTimerTagParam: str = Param(ParamKind.TIMER_TAG)  # type: ignore[assignment]
    if TYPE_CHECKING:

        @staticmethod
        def StateParam(state_spec: StateSpec[LiveT]) -> LiveT: ...

        @staticmethod
        def TimerParam(timer_spec: TimerSpec) -> Timer: ...
    else:
        StateParam = params.StateParam
        TimerParam = params.TimerParam

    def setup(self) -> None:
        """Called once for an instance, before its first bundle: open connections, load models."""

    def start_bundle(self) -> None:
        """Called before the first element of a bundle. Gives no output."""

    def process(self, element: Any, *args: Any, **kwargs: Any) -> Iterable[Any] | None:
        """Called for each element, a (key, value) pair, once for each of its windows."""
        raise OutputError(
            f"{type(self).__name__} has no process method.",
            todo="define process(self, element, ...) in the class",
        )

    def finish_bundle(self) -> Iterable[object] | None:
        """Called after the last call of a bundle. May yield `WindowedValue`, or `TaggedOutput` of one."""
        return None

    def teardown(self) -> None:
        """Called when the instance is no longer needed; best effort."""

    def on_window_expiration(self, *args: Any, **kwargs: Any) -> Iterable[Any] | None:
        """Called once for each key that had an element in the window, after its timers, before its state goes."""
        return None

    def default_label(self) -> str:
        """The name of a step that runs this function, when it is given no other."""
        return type(self).__name__

    def declaration_problems(self) -> Iterable[str]:
        """What is wrong with the arguments that it was made with, in sentences; told with all else when it is built."""
        return ()

    def state_parameters(self) -> Mapping[str, object]:
        """Arguments that it was made with and that its stored state depends on, as plain JSON values.

        They are stored with the state. Code that gives others is refused to go on from it.
        """
        return {}


class Grouped(NamedTuple):
    """The elements of one key, and window, in a bundle: as columns, in order of arrival."""

    values: list[Any]
    times: list[int]
    """Event times in microseconds."""


class GroupedDoFn(DoFn):
    """A function that sees the elements of a key together: `process` is called once for each key and window of a bundle,
    with (key, Grouped). Its timestamp is that of the last of them.

    What it does must not depend on which elements come in one bundle; the functions in Holdfast that are written in
    this way say where theirs does.
    """


class TaggedOutput:
    """An output for the tag's stream rather than for the main one."""

    __slots__ = ("tag", "value")

    def __init__(self, tag: str, value: object) -> None:
        if not isinstance(tag, str):
            raise OutputError(
                f"The tag of a TaggedOutput is a string, not {tag!r}.",
                todo="write TaggedOutput('name', value)",
            )
        self.tag = tag
        self.value: Any = value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TaggedOutput):
            return NotImplemented
        return (self.tag, self.value) == (other.tag, other.value)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"TaggedOutput({self.tag!r}, {self.value!r})"
