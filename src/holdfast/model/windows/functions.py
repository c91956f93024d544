"""The contract of a window function, for the built-in ones and a user's own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from holdfast.model.time.timestamps import Duration, Timestamp
from holdfast.model.windows.bounded import BoundedWindow
from holdfast.model.windows.codec import window_from_bytes, window_to_bytes

__all__ = ["NonMergingWindowFn", "WindowFn"]


class WindowCoder(Protocol):
    """How windows of a user's own class become bytes and come back."""

    def encode(self, window: Any, /) -> bytes: ...

    def decode(self, data: bytes, /) -> BoundedWindow: ...


class WindowFn:
    """Assigns windows to elements and, unless it is a `NonMergingWindowFn`, merges them afterwards.

    Order of calls: `assign` for each element; then `merge` for each key that got a new window, with all of
    its windows. Both must depend only on their arguments. Two window functions are equal when their
    `describe()` is.
    """

    version = 1
    """Increase it in a subclass when its windows change, so that state of the old windows is not mistaken for theirs."""

    class AssignContext:
        """What `assign` may look at: the timestamp, the element, and the window it was in before."""

        __slots__ = ("element", "timestamp", "window")

        def __init__(self, timestamp: Timestamp | float, element: Any = None, window: BoundedWindow | None = None) -> None:
            self.timestamp = Timestamp.of(timestamp)
            self.element = element
            self.window = window

    class MergeContext:
        """What `merge` receives: the windows of a key. The engine's subclass records what is merged."""

        def __init__(self, windows: Iterable[BoundedWindow]) -> None:
            self.windows = list(windows)

        def merge(self, to_be_merged: Iterable[BoundedWindow], merge_result: BoundedWindow) -> None:
            """Merges `to_be_merged` into the one window `merge_result`."""
            raise NotImplementedError

    def assign(self, assign_context: WindowFn.AssignContext) -> Sequence[BoundedWindow]:
        """The windows of an element, possibly none."""
        raise NotImplementedError

    def merge(self, merge_context: WindowFn.MergeContext) -> None:
        """Calls `merge_context.merge` once for each set of windows that become one."""
        raise NotImplementedError

    def is_merging(self) -> bool:
        return True

    def get_window_coder(self) -> WindowCoder | None:
        """An object with `encode(window)` and `decode(data)`; None if all windows are interval windows or global."""
        return None

    def encode_window(self, window: BoundedWindow) -> bytes:
        coder = self.get_window_coder()
        return window_to_bytes(window) if coder is None else bytes(coder.encode(window))

    def decode_window(self, data: bytes) -> BoundedWindow:
        coder = self.get_window_coder()
        return window_from_bytes(data) if coder is None else coder.decode(data)

    def describe(self) -> dict[str, object]:
        """What is stored beside the state to tell whether its windows are still the same; JSON values.

        For a user's own function: its class, its version, and its public attributes that are plain values or
        times. Override it if the windows depend on anything else.
        """
        parameters = {name: _plain(value) for name, value in self._public().items()}
        return {
            "id": f"{type(self).__module__}.{type(self).__qualname__}",
            "version": self.version,
            **{name: value for name, value in parameters.items() if value is not _NOT_PLAIN},
        }

    def __eq__(self, other: object) -> bool:
        return self.describe() == other.describe() if isinstance(other, WindowFn) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.describe()["id"])

    def __repr__(self) -> str:
        arguments = [f"{name}={value!r}" for name, value in self._public().items()]
        return f"{type(self).__name__}({', '.join(arguments)})"

    def _public(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}


class NonMergingWindowFn(WindowFn):
    """A window function whose windows stay as they were assigned."""

    def is_merging(self) -> bool:
        return False

    def merge(self, merge_context: WindowFn.MergeContext) -> None:
        pass


_NOT_PLAIN = object()


def _plain(value: Any) -> Any:
    if isinstance(value, (Timestamp, Duration)):
        return value.micros
    return value if value is None or isinstance(value, (bool, int, float, str)) else _NOT_PLAIN
