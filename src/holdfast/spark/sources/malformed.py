"""Records that are not what their format says: the reason, on its way from a decoder to a dead letter."""

from __future__ import annotations

__all__ = ["Malformed"]

_REASON_CHARACTERS_MAX = 500


class Malformed(Exception):
    """A record that cannot be read. The reason says what is wrong and where, and has nothing of the record's content but
    names."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason[:_REASON_CHARACTERS_MAX]
