"""Ctrl-C and SIGTERM stop a job at the end of a micro-batch; the second time at once."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

from holdfast.spark.job.life import Life, Stop

__all__ = ["stopped_by_signals"]


@contextlib.contextmanager
def stopped_by_signals(life: Life, announce: Callable[[Stop], None]) -> Iterator[None]:
    """Within this, signals ask for a stop, which is announced. Does nothing outside the main thread, which alone may take
    signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def on_signal(number: int, frame: FrameType | None) -> None:
        how = Stop.NOW if life.asked else Stop.AFTER_BATCH
        if life.ask(how):
            # Not here: the signal may have come in the middle of what the progress is writing.
            threading.Thread(target=announce, args=(how,), name="holdfast-signal", daemon=True).start()

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
