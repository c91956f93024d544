"""DoFn: the function a user writes, and what it may yield."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

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

    A method asks for more than the element through the defaults of its parameters:

        def process(self, element, count=DoFn.StateParam(COUNT), ts=DoFn.TimestampParam): ...

    After the element, parameters without such a default are side inputs.
    """

    # Each has the type that the call receives, so that an editor knows it without an annotation. Elements, keys, windows
    # and side inputs are typed by the user: `window: IntervalWindow = DoFn.WindowParam` passes a type checker.
    ElementParam: Any = Param(ParamKind.ELEMENT)
    KeyParam: Any = Param(ParamKind.KEY)
    TimestampParam: Timestamp = Param(ParamKind.TIMESTAMP)  # type: ignore[assignment]
    WindowParam: Any = Param(ParamKind.WINDOW)
    WindowedValueParam: WindowedValue = Param(ParamKind.WINDOWED_VALUE)  # type: ignore[assignment]
    PaneInfoParam: PaneInfo = Param(ParamKind.PANE_INFO)  # type: ignore[assignment]
    SideInputParam: Any = Param(ParamKind.SIDE_INPUT)
    DynamicTimerTagParam: str = Param(ParamKind.TIMER_TAG)  # type: ignore[assignment]

    needs_time_sorted_input: ClassVar[bool] = False
    """Whether the function is right only if a key's elements come in order of event time. Its steps are then refused
    unless they say requires_time_sorted_input=True."""

    if TYPE_CHECKING:

        @staticmethod
        def StateParam(state_spec: StateSpec[LiveT]) -> LiveT: ...

        @staticmethod
        def TimerParam(timer_spec: TimerSpec) -> Timer: ...
    else:
        StateParam = params.StateParam
        TimerParam = params.TimerParam

    def setup(self) -> None:
        """Called once per instance, before its first bundle: open connections, load models."""

    def start_bundle(self) -> None:
        """Called before the first element of a bundle. Cannot give output."""

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
        """Called once for each key that had an element in the window, after its timers and before its state is dropped."""
        return None

    def default_label(self) -> str:
        """The default name of a step that runs this function."""
        return type(self).__name__

    def declaration_problems(self) -> Iterable[str]:
        """What is wrong with the constructor's arguments, in sentences; reported with all other problems of the step."""
        return ()

    def state_parameters(self) -> Mapping[str, object]:
        """The constructor's arguments that stored state depends on, as plain JSON values.

        They are stored with the state. Code whose parameters differ cannot continue from it.
        """
        return {}


class Grouped(NamedTuple):
    """The elements of one key and window in a bundle, as columns, in order of arrival."""

    values: list[Any]
    times: list[int]
    """Event times in microseconds."""


class GroupedDoFn(DoFn):
    """A function that sees all elements of a key at once: `process` is called once for each key and window of a bundle,
    with (key, Grouped). Its timestamp is that of the last element.

    Its results must not depend on how elements are split into bundles; Holdfast's own functions of this kind say where
    theirs do.
    """


class TaggedOutput:
    """An output for the tag's stream instead of the main one."""

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
