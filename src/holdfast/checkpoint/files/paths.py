"""Paths of files, local and remote."""

from __future__ import annotations

import os
import re
from pathlib import Path

__all__ = ["for_reader", "is_local", "join", "local_path", "normalised"]


def join(path: str, *names: str) -> str:
    """A path below another."""
    return "/".join([path.rstrip("/"), *names])


def is_local(path: str) -> bool:
    """Whether a path is on this machine's own file system, which needs no Spark."""
    return local_path(path) is not None


def normalised(path: str) -> str:
    """A path as Spark would write it: absolute, with its scheme, and nothing in it escaped."""
    local = local_path(path)
    return path.rstrip("/") if local is None else f"file:{os.path.abspath(local)}"


def for_reader(path: str) -> str:
    """A path as Spark's readers of files want it, which would take some characters for a pattern."""
    return re.sub(r"([\\*?{}\[\]])", r"\\\1", normalised(path))


def local_path(path: str) -> Path | None:
    """The path without its scheme, if it is local. Hadoop takes a path literally: nothing in it is escaped."""
    scheme, colon, rest = path.partition(":")
    if not colon or "/" in scheme:
        return Path(path)
    if scheme != "file":
        return None
    return Path("/" + rest.lstrip("/"))
