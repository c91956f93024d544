"""The life of a job: whether it runs, whether it was asked to stop, and whether a micro-batch may be processed.

    NEW ── begin ──▶ STARTING ── started ──▶ RUNNING ── ended ──▶ ENDED ── begin ──▶ STARTING …
                        ╰──────────────── ended ──────────────────▲

Invariants
- Spark commits a micro-batch when its handler returns. A handler returns only from `micro_batch`, after everything has
  been written; in any other case it raises, and Spark commits nothing. So it does not matter when Spark's own `stop()`
  arrives, nor in which order it marks the query as ended and interrupts its thread.
- Once a stop has been requested, no further micro-batch starts until the next `begin`.
- A request only becomes more urgent: an orderly stop may become an immediate one, never the other way round.
- `done` is the number of the last micro-batch that was completely written. It does not decrease until the next `begin`.
"""

from __future__ import annotations

import contextlib
import enum
import threading
from collections.abc import Iterator

__all__ = ["HeldBack", "Life", "Phase", "Stop", "Streak"]


class Phase(enum.Enum):
    """What a job is doing."""

    NEW = "new"
    STARTING = "starting"
    RUNNING = "running"
    ENDED = "ended"


class Stop(enum.IntEnum):
    """How urgent a stop is."""

    NONE = 0
    AFTER_BATCH = 1
    """After the running micro-batch."""
    NOW = 2
    """In the middle of it: the next start repeats it."""


class HeldBack(Exception):
    """Raised in the handler of a micro-batch that is left, untouched or unfinished, for the next start."""


class Life:
    """Shared by the thread that runs the job, those that stop it, and Spark's, which calls the handler."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._turn = threading.RLock()
        self._stop = Stop.NONE
        self._phase = Phase.NEW
        self._left_starting = threading.Event()
        self._was_asked = threading.Event()
        self._inside: int | None = None
        self._thread: int | None = None
        self._held_back: int | None = None
        self.done: int | None = None
        self.done_by_query: int | None = None
        """The last micro-batch that the present query has completely written."""
        self.done_since_begin = 0

    @property
    def phase(self) -> Phase:
        return self._phase

    @property
    def asked(self) -> Stop:
        return self._stop

    @property
    def inside(self) -> int | None:
        """The micro-batch that is being processed now."""
        return self._inside

    @property
    def held_back(self) -> bool:
        """Whether the query has ended, or is about to, because a micro-batch was left for the next start."""
        return self._held_back is not None

    @property
    def is_handler(self) -> bool:
        """Whether this is called from the handler."""
        return self._thread == threading.get_ident()

    def begin(self) -> None:
        """Starts a new life: earlier stop requests are forgotten."""
        with self._turn:
            self._stop = Stop.NONE
            self._was_asked.clear()
            self.done = None
            self.done_since_begin = 0
            self.start_again()

    def start_again(self) -> None:
        """Starts another query in the same life: a stop request stays."""
        with self._turn:
            self._left_starting.clear()
            self._phase = Phase.STARTING
            self._held_back = None
            self.done_by_query = None

    def started(self) -> None:
        with self._turn:
            self._phase = Phase.RUNNING
            self._left_starting.set()

    def ended(self) -> None:
        with self._turn:
            self._phase = Phase.ENDED
            self._left_starting.set()

    def ask(self, how: Stop) -> bool:
        """Requests a stop; returns whether that is new."""
        with self._turn:
            if how <= self._stop:
                return False
            self._stop = how
            self._was_asked.set()
            return True

    def wait_until_asked(self, seconds: float) -> bool:
        """Waits until a stop is requested; returns False on timeout."""
        return self._was_asked.wait(seconds)

    def wait_until_started(self, seconds: float | None) -> bool:
        """Waits while the job is starting; returns False on timeout."""
        return self._left_starting.wait(seconds if seconds is None else max(0.0, seconds))

    @contextlib.contextmanager
    def micro_batch(self, number: int) -> Iterator[None]:
        """Wraps the processing of a micro-batch. Raises HeldBack if it may not start, or may not continue."""
        with self._turn:
            if self._stop:
                self._hold_back(number)
            self._inside, self._thread = number, threading.get_ident()
        try:
            yield
        except BaseException:
            if self._stop is Stop.NOW:
                # Interrupted work fails in any number of ways, all of which mean this.
                self._hold_back(number)
            raise
        else:
            with self._turn:
                self.done = number if self.done is None else max(number, self.done)
                self.done_by_query = number
                self.done_since_begin += 1
        finally:
            self._inside = self._thread = None

    def _hold_back(self, number: int) -> None:
        self._held_back = number
        raise HeldBack(
            f"The job {self._name!r} was asked to stop. Micro-batch {number} is left for its next start. This is no failure."
        ) from None


class Streak:
    """Counts failures in a row without progress in between."""

    def __init__(self) -> None:
        self._at: int | None = None
        self._count = 0

    def count_at(self, done: int | None) -> int:
        """Counts one more failure; `done` is the progress so far."""
        self._count = self._count + 1 if self._count and done == self._at else 1
        self._at = done
        return self._count
