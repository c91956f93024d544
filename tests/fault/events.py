"""The input of the pipeline: files of events, each the input of one micro-batch, made from a seed.

Some events are sent again, in the same file or in a later one; some have a broken amount, and may come again mended; some
have no id; some are refunds, which the second step refuses. Half of the users are in the even files, half in the odd ones,
each with one id a file at most: so a micro-batch of two files, which a kill can lead to, has no two ids of one user, and
what the steps give does not depend on the order of ids. The last two files move event time far ahead, so that all timers
fire.
"""

from __future__ import annotations

import random
from typing import NamedTuple

from .stream import BEGIN, iso

__all__ = ["Event", "make_events"]

USERS = 40
FILE_SECONDS = 12
DISORDER_SECONDS = 40
BROKEN = "?"


class Event(NamedTuple):
    """A row of a file."""

    id: str | None
    user: str
    amount: str
    at: int
    """In seconds since the epoch."""

    def columns(self) -> dict[str, str | None]:
        """As a line of a file has it."""
        return {"id": self.id, "user": self.user, "amount": self.amount, "at": iso(self.at)}


def make_events(seed: int, files: int) -> list[list[Event]]:
    """The content of so many files."""
    maker = _Maker(random.Random(f"events {seed}"))
    far = BEGIN + (files + 1000) * FILE_SECONDS
    ends = [[Event(f"end-{number}", f"end-{number}", "0", far + number)] for number in range(2)]
    return [*(maker.file(number) for number in range(files - 2)), *ends]


class _Maker:
    def __init__(self, draw: random.Random) -> None:
        self._draw = draw
        self._sent: dict[str, list[Event]] = {}

    def file(self, number: int) -> list[Event]:
        content: list[Event] = []
        for user in (f"user-{name:02d}" for name in range(number % 2, USERS, 2)):
            kind = self._draw.random()
            if kind < 0.7:
                content.append(self._new(user, number))
            elif kind < 0.9 and user in self._sent:
                content.append(self._again(user, number))
        content += self._draw.choices(content, k=4)
        content += [self._new("user-00", number)._replace(id=None)] * self._draw.randrange(2)
        self._draw.shuffle(content)
        return content

    def _new(self, user: str, number: int) -> Event:
        kind = self._draw.random()
        amount = str(self._draw.randrange(1000))
        event = Event(f"{user}-{number}", user, BROKEN if kind < 0.08 else f"-{amount}" if kind < 0.16 else amount, 0)
        event = event._replace(at=self._time(number))
        self._sent.setdefault(user, []).append(event)
        return event

    def _again(self, user: str, number: int) -> Event:
        event = self._draw.choice(self._sent[user])
        if event.amount == BROKEN:
            return event._replace(amount=str(number), at=self._time(number))
        return event

    def _time(self, number: int) -> int:
        return BEGIN + number * FILE_SECONDS + self._draw.randrange(-DISORDER_SECONDS, FILE_SECONDS)
