"""What Spark's stateful operator gets: as little as possible, until there is work.

At each start of a query Spark runs a separate process on the driver, only to ask a processor which state it has. That
process must start within ten seconds, however busy the machine is, and the first micro-batch waits for it. So what it
unpickles is pickled by value and imports nothing of Holdfast; the processor itself is inside, as bytes.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

from pyspark import cloudpickle
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

__all__ = ["Operator", "by_value"]


class Operator(StatefulProcessor):
    """Declares the one state variable, and hands everything else to the processor.

    Each variable costs the JVM tens of milliseconds in every task. Nothing in here may name a module of Holdfast.
    """

    def __init__(self, pickled: bytes, key: Any, value: Any) -> None:
        self._pickled = pickled
        self._key = key
        self._value = value

    def init(self, handle: Any) -> None:
        self._handle = handle
        self._state = handle.getMapState("blobs", self._key, self._value)
        self._processor = None

    def _opened(self) -> Any:
        if self._processor is None:
            # Imported here, not above: only a worker that has work needs it.
            from pyspark import cloudpickle

            self._processor = cloudpickle.loads(self._pickled)
            self._processor.open(self._handle, self._state)  # type: ignore[attr-defined]
        return self._processor

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        return self._opened().handle_rows(key, rows, timerValues)

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:
        self._opened().handle_initial_state(key, initialState, timerValues)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Any:
        return self._opened().handle_rows(key, (), timerValues)

    def close(self) -> None:
        """The end of the task. A worker keeps everything for the next one."""
        if self._processor is not None:
            self._processor.close()


@contextlib.contextmanager
def by_value() -> Iterator[None]:
    """Wraps the call that hands Spark an operator, which pickles it."""
    module = sys.modules[__name__]
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        cloudpickle.unregister_pickle_by_value(module)  # type: ignore[no-untyped-call]
