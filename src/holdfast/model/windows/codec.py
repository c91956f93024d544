"""Windows as bytes, for storage and for sorting.

Format: the global window is zero bytes. An `IntervalWindow` is 16 bytes: start, then end, each as microseconds in a
big-endian 64-bit integer with the sign bit flipped.

Invariant: the bytes of two interval windows sort as the windows do.
"""

from __future__ import annotations

import struct

from holdfast.errors import CoderError, CorruptState
from holdfast.model.time.units import MAX_MICROS, MIN_MICROS
from holdfast.model.windows.bounded import BoundedWindow, GlobalWindow, IntervalWindow

__all__ = ["window_from_bytes", "window_to_bytes"]

_SIGN = 1 << 63
_PAIR = struct.Struct(">QQ")


def window_to_bytes(window: BoundedWindow) -> bytes:
    """The bytes of a `GlobalWindow` or an `IntervalWindow`; other windows need their own coder."""
    # Not isinstance: a subclass may hold more than start and end, which would be lost.
    if type(window) is IntervalWindow:
        return _PAIR.pack(window.start.micros + _SIGN, window.end.micros + _SIGN)
    if type(window) is GlobalWindow:
        return b""
    raise CoderError(
        f"A window of the class {type(window).__qualname__} cannot be stored: it has no coder.",
        detail=f"The window: {window!r}",
        todo="Let get_window_coder() of its window function return an object with encode and decode.",
    )


def window_from_bytes(data: bytes) -> BoundedWindow:
    """The inverse of `window_to_bytes`."""
    if not data:
        return GlobalWindow()
    if len(data) != _PAIR.size:
        raise CorruptState(f"A window cannot be read from {len(data)} bytes: it has 0 or {_PAIR.size}.")
    raw_start, raw_end = _PAIR.unpack(data)
    start, end = raw_start - _SIGN, raw_end - _SIGN
    if not MIN_MICROS <= start <= end <= MAX_MICROS:
        raise CorruptState(f"A window cannot go from {start} to {end} microseconds.")
    return IntervalWindow._of_micros(start, end)
