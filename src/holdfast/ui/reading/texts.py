"""Texts from files, which anybody may have written: visible, and no longer than there is room for."""

from __future__ import annotations

from holdfast.engine.stored.readable import visible

__all__ = ["cut"]


def cut(text: str, longest: int, keep: str = "") -> str:
    """A text in which every character is visible, except those to keep, with … if that is not all."""
    # Nothing becomes shorter by being made visible, so no more need be looked at.
    shown = visible(text[: longest + 1], keep)
    return shown if len(shown) <= longest else f"{shown[: longest - 1]}…"
