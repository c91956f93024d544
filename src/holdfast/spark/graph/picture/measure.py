"""How wide texts are, about: the fonts of whoever looks at a picture are not known, so it reckons with wide ones."""

from __future__ import annotations

import unicodedata
from math import fsum

__all__ = ["cut", "width_of"]

_NARROW = frozenset("fijlrtI.,:;'|!()[]{}/\\-· ")
_WIDE = frozenset("mwMW@%—…")


def width_of(text: str, size: float) -> float:
    """The width of a text in a sans-serif font."""
    return size * fsum(map(_share, text))


def cut(text: str, size: float, widest: float) -> str:
    """As much of a text as has room, with … if that is not all."""
    if width_of(text, size) <= widest:
        return text
    room = widest - width_of("…", size)
    kept = 0
    for letter in text:
        room -= size * _share(letter)
        if room < 0:
            break
        kept += 1
    return f"{text[:kept].rstrip()}…"


def _share(letter: str) -> float:
    if letter in _NARROW:
        return 0.38
    if letter in _WIDE:
        return 0.98
    if unicodedata.east_asian_width(letter) in ("W", "F"):
        return 1.05
    if unicodedata.combining(letter):
        return 0.0
    return 0.7 if letter.isupper() else 0.62
