"""The history of a job, in two small files beside its checkpoint: JSON lines, appended, bounded.

    <checkpoint>/holdfast/history/now.jsonl       the newest records
    <checkpoint>/holdfast/history/before.jsonl    those before them; replaced when `now` is full

A record is one line. A line that cannot be read (cut short by a crash, damaged, of a later version) is left out and counted.

Invariants
- Only the job that has the lock on the checkpoint appends.
- A micro-batch is recorded after Spark has committed it. A driver that is killed in between leaves it out.
- Of several records of one micro-batch the last holds. A job that goes on from an earlier micro-batch than the last one
  recorded makes those after it void.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from holdfast.checkpoint.files.access import Files
from holdfast.checkpoint.files.paths import join
from holdfast.watch.records import BatchRecord, EventRecord, GroupsRecord, Record

__all__ = ["BEFORE", "NOW", "History", "HistoryFile", "Telling", "history_of", "read_history", "simplified"]

NOW = "holdfast/history/now.jsonl"
BEFORE = "holdfast/history/before.jsonl"
BYTES_MAX = 8 << 20
REMOTE_BYTES_MAX = 1 << 20
"""Where a file can only be written whole, as on object stores: that is done after each micro-batch."""

_decoder: msgspec.json.Decoder[Record] = msgspec.json.Decoder(Record)
_encoder = msgspec.json.Encoder()


@dataclass(frozen=True)
class History:
    """The records of a job that are kept: micro-batches by ascending number, events in the order in which they happened."""

    batches: list[BatchRecord] = field(default_factory=list)
    events: list[EventRecord] = field(default_factory=list)
    unreadable: int = 0
    """Lines that could not be read."""
    again: dict[int, int] = field(default_factory=dict)
    """Of these micro-batches, those that were committed before and done again after a rollback, and how often."""

    @property
    def last(self) -> BatchRecord | None:
        return self.batches[-1] if self.batches else None


class HistoryFile:
    """Appends records to the history beside a checkpoint."""

    def __init__(self, files: Files, checkpoint: str, bytes_max: int | None = None) -> None:
        self._files = files
        self._now, self._before = join(checkpoint, NOW), join(checkpoint, BEFORE)
        usual = BYTES_MAX if files.appends_in_place else REMOTE_BYTES_MAX
        self._bytes_max = usual if bytes_max is None else bytes_max
        """Of each of the two files."""
        self._size: int | None = None
        """Of the newer file; None if it is not known, as after an append that failed."""

    def append(self, record: Record) -> None:
        # The empty line ends one that a crash, or a full disk, may have cut short.
        line = (b"" if self._size else b"\n") + _encoder.encode(record) + b"\n"
        size, self._size = self._size, None
        if size is None:
            info = self._files.info(self._now)
            size = 0 if info is None else info.size
        if size and size + len(line) > self._bytes_max:
            self._files.remove(self._before)
            self._files.move(self._now, self._before)
            size = 0
        self._files.append(self._now, line)
        self._size = size + len(line)


class Telling:
    """Takes records from the oldest on, and gives the history that they tell.

    With `records_max` the oldest are let go. With `detailed_max` only so many of the newest keep their key groups and keys,
    which are most of a record.

    The micro-batches are kept by ascending number, so that taking a record never means going through all of them.
    """

    def __init__(self, records_max: int | None = None, detailed_max: int | None = None) -> None:
        self._batches: OrderedDict[int, BatchRecord] = OrderedDict()
        self._events: list[EventRecord] = []
        self._again: dict[int, int] = {}
        self._unreadable = 0
        self.rewrites = 0
        """How often what was told of a micro-batch became void or was told anew."""
        self._max = records_max
        self._detailed_max = detailed_max

    def line(self, line: bytes) -> None:
        """A line of the file."""
        if not line:
            return
        try:
            record = _decoder.decode(line)
        except (ValueError, RecursionError):
            self._unreadable += 1
            return
        self.add(record)

    def add(self, record: Record) -> None:
        if isinstance(record, BatchRecord):
            self._add_batch(record)
        else:
            self._events.append(record)
            if record.event == "started":
                self._void_after(-1 if record.batch is None else record.batch)
        if self._max is not None:
            del self._events[: -self._max]
            while len(self._batches) > self._max:
                number, _ = self._batches.popitem(last=False)
                self._again.pop(number, None)

    def _add_batch(self, record: BatchRecord) -> None:
        if record.batch in self._batches:
            self._again[record.batch] = self._again.get(record.batch, 0) + 1
            self.rewrites += 1
        else:
            # A lower number than before: the job went back, and its start was not told.
            self._void_after(record.batch)
        self._batches[record.batch] = record
        if self._detailed_max is not None:
            self._simplify(record.batch - self._detailed_max)

    def _simplify(self, number: int) -> None:
        record = self._batches.get(number)
        if record is not None:
            self._batches[number] = simplified(record)

    def _void_after(self, resumed: int) -> None:
        while self._batches and next(reversed(self._batches)) > resumed:
            number, _ = self._batches.popitem()
            self.rewrites += 1
            self._again[number] = self._again.get(number, 0) + 1

    def history(self) -> History:
        again = {number: count for number, count in self._again.items() if number in self._batches}
        return History(list(self._batches.values()), list(self._events), self._unreadable, again)


def read_history(files: Files, checkpoint: str) -> History:
    """The history beside a checkpoint; empty if there is none."""
    # In this order nothing is missed if `now` becomes `before` meanwhile: it is then read twice, the second time with what
    # was appended in between.
    now, before = (files.read(join(checkpoint, name)) or b"" for name in (NOW, BEFORE))
    return history_of([*before.splitlines(), *(() if before.startswith(now) else now.splitlines())])


def history_of(lines: Iterable[bytes]) -> History:
    """The history that these lines tell, from the oldest on."""
    telling = Telling()
    for line in lines:
        telling.line(line)
    return telling.history()


def simplified(record: BatchRecord) -> BatchRecord:
    """A record without key groups and keys."""
    steps = {
        name: msgspec.structs.replace(step, groups=GroupsRecord(), hot=[], heavy=[]) for name, step in record.steps.items()
    }
    return msgspec.structs.replace(record, steps=steps)
