"""How the suite reads outputs: key by key.

Outputs of one key have an order. Those of different keys have none: a runtime may work on them side by side. So every
function of the suite gives tuples that begin with the key, and the tests look at one key at a time.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from holdfast import GlobalWindow, TimestampedValue
from holdfast.testing import Results

GLOBAL = "global"


def by_key(results: Results, tag: str = "main") -> dict[Any, list[Any]]:
    """What came out for each key, in order, without the key: the one item that is left, or the tuple of them."""
    found: dict[Any, list[Any]] = {}
    for output in results:
        if output.tag == tag:
            key, rest = _split(output.value)
            found.setdefault(key, []).append(rest)
    return found


def stamped(results: Results, tag: str = "main") -> dict[Any, list[tuple[Any, float, Any]]]:
    """The same, each with its time in seconds and its window as `span` gives it."""
    found: dict[Any, list[tuple[Any, float, Any]]] = {}
    for output in results:
        if output.tag == tag:
            key, rest = _split(output.value)
            found.setdefault(key, []).append((rest, float(output.timestamp), span(output.window)))
    return found


def panes(results: Results) -> dict[Any, list[tuple[Any, Any, str]]]:
    """The results of an aggregation for each key, in order: (result, window as `span` gives it, timing)."""
    found: dict[Any, list[tuple[Any, Any, str]]] = {}
    for output in results:
        if output.tag == "main":
            key, result = output.value
            found.setdefault(key, []).append((result, span(output.window), output.pane.timing.name))
    return found


def span(window: Any) -> Any:
    """A window as plain values: (start, end) in seconds, or the word for the global one."""
    return GLOBAL if isinstance(window, GlobalWindow) else (float(window.start), float(window.end))


def at(*timed: tuple[Any, Any, float]) -> list[TimestampedValue]:
    """Elements from (key, value, seconds)."""
    return [TimestampedValue((key, value), time) for key, value, time in timed]


def plain(value: Any) -> Any:
    """What a cell gave, as values that any runtime can carry: views as lists, sets sorted, times as seconds."""
    if isinstance(value, (set, frozenset)):
        return sorted(map(plain, value))
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        return list(map(plain, value))
    return float(value) if hasattr(value, "micros") else value


def _split(value: Any) -> tuple[Any, Any]:
    key, *rest = value
    return key, rest[0] if len(rest) == 1 else tuple(rest)
