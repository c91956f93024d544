"""The lock on a checkpoint: one job, or one tool that writes, at a time.

`<checkpoint>/holdfast/lock.json` names the holder: the owner, its host and process, since when, and its last sign of life,
which is renewed every ten seconds. A lock is stale if its process has ended, which is known at once on the same machine,
or if it has given no sign of life for a minute. One whose last sign of life is more than a minute ahead is watched: if it is
not renewed, it is stale.

Rules:

* A lock is taken by creating the file, which only one contender can do.
* A stale lock may be replaced only by the holder of its guard, a lock of the same kind beside it, and only if it is still
  unchanged. So if several find the same stale lock, one gets it; and one that dies on the way leaves a stale guard, to which
  the same applies.
* Before each sign of life the holder checks that the lock is still its own. If somebody else has it, the holder was
  presumed dead: it is told so, and must stop. If the file is gone, it is made again, unless others have had the lock since
  (`turns.py`), which counts as if they still had it.
* A sign of life that cannot be written, because the disk is full or the network is down, is tried again; nothing else
  happens.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import json
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from holdfast.checkpoint.destination import not_written
from holdfast.checkpoint.files.choice import Files, files_of, is_local, join
from holdfast.checkpoint.host import ProcessId, has_ended, this_process
from holdfast.checkpoint.notices import LOCK_VERSION, read_lock
from holdfast.checkpoint.registry import copied_from
from holdfast.checkpoint.turns import is_turn_of, take_turn
from holdfast.errors import CheckpointLocked

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["LOCK_FILE", "Lock", "LockInfo", "current_lock", "holding", "new_token"]

LOCK_FILE = "holdfast/lock.json"

_BEAT_SECONDS = 10.0
_STALE_SECONDS = 60.0
_LOOK_SECONDS = 1.0
_TRUST_SECONDS = 5.0
_TRIES = 5
_AGAIN_SECONDS = 0.2


@dataclass(frozen=True)
class LockInfo:
    """Who holds the lock on a checkpoint, and since when."""

    owner: str
    process: ProcessId
    taken_at: datetime
    alive_at: datetime
    """The last sign of life, by the clock of its host."""
    token: str
    """Differs for each holder."""

    def is_stale(self) -> bool:
        ended = has_ended(self.process)
        if ended is None:
            return _age(self) > _STALE_SECONDS
        return ended or self._left_over()

    def is_of_the_future(self) -> bool:
        """Whether its last sign of life is still to come, by a clock that is wrong here or there: it says nothing."""
        return has_ended(self.process) is None and _age(self) < -_STALE_SECONDS

    def _left_over(self) -> bool:
        """Whether it names this process, which does not hold it: its removal failed."""
        return self.process == this_process() and self.token not in _held

    def __str__(self) -> str:
        return f"{self.owner} on {self.process.host}, process {self.process.number}, since {_text(self.taken_at)}"


class Lock:
    """A lock that can be acquired and released repeatedly, by one holder at a time.

    While the lock is held, `every_second` is called about that often, and `on_lost` once with the one who took it over. Both
    are called from the lock's own thread. `in_use` says whether the holder still needs it; if not, another holder in the
    same process may take it.
    """

    def __init__(
        self,
        spark: SparkSession | None,
        checkpoint: str,
        owner: str,
        *,
        token: str | None = None,
        every_second: Callable[[], None] | None = None,
        on_lost: Callable[[LockInfo], None] | None = None,
        in_use: Callable[[], bool] | None = None,
    ) -> None:
        self._files = files_of(spark, checkpoint)
        self._checkpoint = checkpoint
        self._path = join(checkpoint, LOCK_FILE)
        self._owner = owner
        self._token = token or new_token()
        self._every_second = every_second
        self._on_lost = on_lost
        self._in_use = in_use
        self._process = this_process()
        self._taken_at = _now()
        self._ended = threading.Event()
        self._turn = threading.RLock()
        self._confirmed = 0.0
        self.lost: LockInfo | None = None

    def acquire(self) -> Lock:
        """Takes the lock. Raises CheckpointLocked if somebody else has it, CheckpointError if it cannot be written."""
        before = _held.get(self._token)
        if before is not None:
            if before.needed:
                raise _locked(self._checkpoint, before._info(), "is in use:")
            before.release()
        self._taken_at = _now()
        self.lost = None
        # A lock that is not in there would be mistaken for a leftover of this process.
        _held[self._token] = self
        try:
            _take(self._files, self._path, self._content, self._checkpoint)
            take_turn(self._files, self._checkpoint, self._token)
        except BaseException as error:
            self.release()
            _held.pop(self._token, None)
            if isinstance(error, OSError):
                raise not_written(self._checkpoint, error) from error
            raise
        self._confirmed = _awake_seconds()
        self._sweep()
        self._ended = threading.Event()
        threading.Thread(target=self._live, args=(self._ended,), name="holdfast-lock", daemon=True).start()
        return self

    def release(self) -> None:
        """Releases the lock; does nothing if it is not held, or no longer."""
        with self._turn:
            if not self.is_held:
                return
            self._ended.set()
            # If it cannot be removed it is stale anyway, since nobody here holds it any more.
            with contextlib.suppress(Exception):
                if self._is_own():
                    self._files.remove(self._path)
            _held.pop(self._token, None)

    def check(self) -> None:
        """Raises CheckpointLocked if the lock was lost to somebody else."""
        if self.lost is _SOMEBODY:
            raise CheckpointLocked(
                f"Others have used the checkpoint {self._checkpoint!r} since this process last gave a sign of life.",
                detail="It was presumed dead, and has written nothing since.",
                todo="start it again: it resumes after the last committed micro-batch",
            )
        if self.lost is not None:
            raise _locked(self._checkpoint, self.lost, "was taken over by")

    def confirm(self) -> None:
        """Raises CheckpointLocked if somebody else has taken the lock. Call this before anything that cannot be undone.

        A check a moment ago still counts: a lock is only taken over after a minute without a sign of life.
        """
        with self._turn:
            if _awake_seconds() - self._confirmed > _TRUST_SECONDS:
                self._look()
        self.check()
        if not self.is_held:
            raise CheckpointLocked(
                f"The lock on the checkpoint {self._checkpoint!r} has been released, so nothing more may be written.",
                todo="start the job again: it resumes after the last committed micro-batch",
            )

    @property
    def is_held(self) -> bool:
        return _held.get(self._token) is self

    @property
    def is_of_this_process(self) -> bool:
        """False in a process that was forked from the holder's."""
        return self._process.number == os.getpid()

    @property
    def needed(self) -> bool:
        return self._in_use is None or self._in_use()

    def beat(self) -> None:
        """Gives a sign of life, unless the lock was lost."""
        with self._turn:
            if self._look():
                self._files.write(self._path, self._content())

    def _look(self) -> bool:
        """Whether the lock exists and is still ours. Makes it again if it is gone; records it if it was lost."""
        if not self.is_held:
            return False
        if not is_turn_of(self._files, self._checkpoint, self._token):
            self._lose(self._other_holder() or _SOMEBODY)
            return False
        stored = _read(self._files, self._path)
        if stored is None:
            if self._files.create(self._path, self._content()):
                self._confirmed = _awake_seconds()
                return False
            stored = _read(self._files, self._path)
        info = None if stored is None else _info(self._files, self._path, stored)
        if info is None or (not info.token and _age(info) < _BEAT_SECONDS / 2):
            # Gone, or being written: the next look will show by whom.
            return False
        if info.token not in ("", self._token):
            self._lose(info)
            return False
        self._confirmed = _awake_seconds()
        return True

    def _other_holder(self) -> LockInfo | None:
        stored = _read(self._files, self._path)
        info = None if stored is None else _parse(stored)
        return None if info is None or info.token == self._token else info

    def _lose(self, to: LockInfo) -> None:
        self.lost = to
        _held.pop(self._token, None)
        self._ended.set()

    def _live(self, ended: threading.Event) -> None:
        beaten = time.monotonic()
        while not ended.wait(_LOOK_SECONDS):
            if time.monotonic() - beaten >= _BEAT_SECONDS:
                # A full disk or an unreachable file system is no reason to stop.
                with contextlib.suppress(Exception):
                    self.beat()
                    beaten = time.monotonic()
            if self._every_second is not None and not ended.is_set():
                with contextlib.suppress(Exception):
                    self._every_second()
        if self.lost is not None and self._on_lost is not None:
            self._on_lost(self.lost)

    def _sweep(self) -> None:
        """Removes what others left when they were killed while writing or taking over."""
        folder, _, name = self._path.rpartition("/")
        with contextlib.suppress(Exception):
            for entry in self._files.entries(folder) or ():
                if entry.name.lstrip(".").startswith(f"{name}.") and time.time() - entry.modified_seconds > _STALE_SECONDS:
                    self._files.remove(entry.path)

    def _is_own(self) -> bool:
        stored = _read(self._files, self._path)
        info = None if stored is None else _parse(stored)
        return info is not None and info.token == self._token

    def _content(self) -> bytes:
        return _content(self._info())

    def _info(self) -> LockInfo:
        return LockInfo(self._owner, self._process, self._taken_at, _now(), self._token)


_EPOCH = datetime.fromtimestamp(0, timezone.utc)
_SOMEBODY = LockInfo("somebody", ProcessId("an unknown host", "", 0, ""), _EPOCH, _EPOCH, "")
"""Stands for a holder that has released the lock."""

_held: dict[str, Lock | None] = {}
"""The locks and guards of this process, by token."""


def new_token() -> str:
    return uuid.uuid4().hex


@contextlib.contextmanager
def holding(spark: SparkSession | None, checkpoint: str, owner: str) -> Iterator[Lock]:
    """Holds the lock while a tool works. Raises CheckpointLocked at the start if somebody else has it.

    Call `check()` on the lock before making lasting changes after a long time.
    """
    lock = Lock(spark, checkpoint, owner).acquire()
    try:
        yield lock
    finally:
        lock.release()


def current_lock(spark: SparkSession | None, checkpoint: str) -> LockInfo | None:
    """Who is using a checkpoint now; None if nobody is, or the lock is stale."""
    files, path = files_of(spark, checkpoint), join(checkpoint, LOCK_FILE)
    stored = _read(files, path)
    if stored is None and not is_local(checkpoint):
        # On file systems that cannot replace a file atomically, it is absent for a moment while it is renewed.
        time.sleep(_AGAIN_SECONDS)
        stored = _read(files, path)
    if stored is None:
        return None
    info = _info(files, path, stored)
    return None if info is None or info.is_stale() or _is_over(info) else info


def _take(files: Files, path: str, content: Callable[[], bytes], checkpoint: str) -> None:
    """Takes the lock file with this content. Raises CheckpointLocked if somebody else has it."""
    for _ in range(_TRIES):
        if files.create(path, content()):
            return
        stored = _read(files, path)
        if stored is None:
            continue
        info = _info(files, path, stored)
        if info is None:
            continue
        if _is_over(info):
            held = _held.get(info.token)
            if held is not None:
                held.release()
        elif not (info.is_stale() or info.is_of_the_future()) or _gives_signs(files, path, info):
            raise _locked(checkpoint, info, "is in use:")
        elif _replace(files, path, stored, content, checkpoint):
            return
    raise CheckpointLocked(f"{checkpoint!r} is in use: others keep taking and releasing its lock.", todo="try again")


def _replace(files: Files, path: str, stale: bytes, content: Callable[[], bytes], checkpoint: str) -> bool:
    """Replaces a stale lock; returns whether it was still there."""
    guard = f"{path}.{hashlib.sha256(stale).hexdigest()[:16]}"
    token = new_token()
    _held[token] = None
    try:
        now = _now()
        _take(files, guard, lambda: _content(LockInfo("taking over", this_process(), now, _now(), token)), checkpoint)
        try:
            if _read(files, path) != stale:
                return False
            files.write(path, content())
            return True
        finally:
            files.remove(guard)
    finally:
        del _held[token]


def _gives_signs(files: Files, path: str, info: LockInfo) -> bool:
    """Whether a lock that looks old is still being renewed: its host's clock may be slow."""
    if has_ended(info.process) is not None:
        return False
    before = _read(files, path)
    deadline = time.monotonic() + 1.5 * _BEAT_SECONDS
    while time.monotonic() < deadline:
        time.sleep(min(_LOOK_SECONDS, _BEAT_SECONDS / 4))
        if _read(files, path) != before:
            return True
    return False


def _is_over(info: LockInfo) -> bool:
    """Whether the holder, in this process, no longer needs the lock but has not yet released it."""
    held = _held.get(info.token)
    return held is not None and not held.needed


def _read(files: Files, path: str) -> bytes | None:
    """The content of a lock. If a file may be visible before it is whole, waits a little."""
    stored = None
    for attempt in range(_TRIES):
        time.sleep(_AGAIN_SECONDS if attempt else 0)
        stored = files.read(path)
        if stored is None or _parse(stored) is not None:
            break
    return stored


def _info(files: Files, path: str, stored: bytes) -> LockInfo | None:
    """What a lock says. One that cannot be read may have just been created: then its file's age counts."""
    info = _parse(stored)
    if info is not None:
        return info
    file = files.info(path)
    if file is None:
        return None
    changed = datetime.fromtimestamp(file.modified_seconds, timezone.utc)
    return LockInfo("somebody", ProcessId("an unknown host", "", 0, ""), changed, changed, "")


def _content(info: LockInfo) -> bytes:
    content = {
        "lock_version": LOCK_VERSION,
        "owner": info.owner,
        "host": info.process.host,
        "machine": info.process.machine,
        "process": info.process.number,
        "process_started": info.process.started,
        "taken_at": info.taken_at.isoformat(),
        "alive_at": info.alive_at.isoformat(),
        "token": info.token,
    }
    return json.dumps(content, indent=2).encode()


def _parse(stored: bytes) -> LockInfo | None:
    found = read_lock(stored)
    if found is None:
        return None
    process = ProcessId(found.host, found.machine, found.process, found.process_started)
    return LockInfo(found.owner, process, found.taken_at, found.alive_at, found.token)


def _locked(checkpoint: str, info: LockInfo, how: str) -> CheckpointLocked:
    original = copied_from(checkpoint, info.token)
    if original is not None:
        return CheckpointLocked(
            f"The checkpoint {checkpoint!r} is a copy of {original!r}, made while it was in use: {info}.",
            detail="Files that were copied one after the other, while a job changed them, need not fit together.",
            todo=f"take a savepoint, which disturbs nobody, and restore that: holdfast savepoint create {original} DEST",
        )
    is_job = info.owner.startswith("job ")
    return CheckpointLocked(
        f"The checkpoint {checkpoint!r} {how} {info}.",
        detail=f"Its last sign of life was at {_text(info.alive_at)}.",
        todo=f"stop it first: holdfast stop {checkpoint}" if is_job else "wait until it is done",
    )


def _age(info: LockInfo) -> float:
    return (_now() - info.alive_at).total_seconds()


def _text(time: datetime) -> str:
    return time.astimezone(timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")


def _awake_seconds() -> float:
    """A clock that keeps running while the process or the machine sleeps."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


def _now() -> datetime:
    return datetime.now(timezone.utc)


@atexit.register
def _release_all() -> None:
    """A process that exits normally leaves no lock, not even one that only its own machine would know to be stale."""
    for lock in list(_held.values()):
        if lock is not None and lock.is_of_this_process:
            lock.release()
