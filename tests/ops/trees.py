"""What is in a directory, to tell whether anything was altered."""

from __future__ import annotations

import hashlib
from pathlib import Path


def checksums(folder: Path) -> dict[str, str]:
    """The checksum of every file below a directory, but for the count of those that had the lock."""
    files = sorted(path for path in Path(folder).rglob("*") if path.is_file() and path.name != "turn.json")
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
