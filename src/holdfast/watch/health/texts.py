"""Numbers with their units, and texts of users, for people. Nothing here raises, whatever the numbers are."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime, timedelta, timezone

from holdfast.engine.stored.readable import visible

__all__ = ["UNKNOWN", "bytes_text", "count_text", "cut", "ms_text", "share_text", "text_in", "time_text"]

UNKNOWN = "?"
"""A value that is not known."""

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def bytes_text(size: float) -> str:
    for unit in ("B", "KB", "MB", "GB"):
        if abs(size) < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:,.1f} TB"


def ms_text(ms: float) -> str:
    """A duration in the unit that suits it."""
    if abs(ms) < 1000:
        return f"{ms:.1f} ms" if abs(ms) < 10 else f"{ms:.0f} ms"
    seconds = ms / 1000
    if abs(seconds) < 120:
        return f"{seconds:.1f} s"
    if abs(seconds) < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if abs(seconds) < 172_800 else f"{seconds / 86_400:,.0f} days"


def count_text(count: float) -> str:
    return f"{count:,.0f}"


def share_text(share: float) -> str:
    return f"{100 * share:.3g}%"


def _ratio_text(ratio: float) -> str:
    return f"{ratio:.3g}" if abs(ratio) < 100 else f"{ratio:,.0f}"


_TEXTS: dict[str, Callable[[float], str]] = {
    "bytes": bytes_text,
    "ms": ms_text,
    "records": count_text,
    "times": count_text,
    "share": share_text,
    "ratio": _ratio_text,
}


def text_in(unit: str, value: float | None) -> str:
    """A value with its unit."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    return _TEXTS[unit](value)


def time_text(ms: int) -> str:
    """A time in UTC; one that no calendar has, as its milliseconds."""
    try:
        return (_EPOCH + timedelta(milliseconds=ms)).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError):
        return f"{ms} ms"


def cut(text: str, longest: int = 80) -> str:
    """A text of a user, made visible, and no longer than this."""
    shown = visible(text[: longest + 1])
    return shown if len(shown) <= longest else shown[: longest - 3] + "..."
