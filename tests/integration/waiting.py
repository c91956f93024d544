"""Waiting for something that another thread or process does."""

from __future__ import annotations

import time


def until(is_so, seconds=90):
    """Waits for something, and not longer than a busy machine may need."""
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)
