"""The user's own cache: what can be made again, such as a view of Spark's home and jars that were fetched."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["cache_folder"]


def cache_folder() -> Path:
    """Where it is, whether it is there or not. Who makes it lets nobody else in."""
    given = os.environ.get("XDG_CACHE_HOME")
    return (Path(given) if given else Path.home() / ".cache") / "holdfast"
