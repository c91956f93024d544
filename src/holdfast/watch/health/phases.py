"""The phases of a micro-batch, in words. Histories have them by Spark's names."""

from __future__ import annotations

from holdfast.watch.health.texts import cut

__all__ = ["phase_text"]

_WORDS = {
    "latestOffset": "ask sources",
    "getBatch": "get batch",
    "queryPlanning": "plan",
    "walCommit": "log offsets",
    "addBatch": "process",
    "commitOffsets": "commit offsets",
    "commitBatch": "commit",
}


def phase_text(name: str) -> str:
    """What the dashboard calls a phase; a name that is not known, as it is."""
    return _WORDS.get(name) or cut(name)
