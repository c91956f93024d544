"""Descriptions of cells and timers, in their authors' words: for whoever looks at stored state, and no part of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["doc_problems", "with_doc", "without_doc"]


def doc_problems(doc: object, owner: str) -> Iterator[str]:
    """Why `doc` is no description, in sentences."""
    if doc is not None and (not isinstance(doc, str) or not doc.strip()):
        yield f"{owner} has doc={doc!r}; give a text that says what it is for, or leave it out."
    elif doc is not None and not _is_unicode(doc):
        yield f"{owner} has a doc that is not valid Unicode: {doc!r}."


def with_doc(described: dict[str, object], doc: str | None) -> dict[str, object]:
    """What a manifest records, with the description if there is one."""
    return described if doc is None else {**described, "doc": doc}


def without_doc(described: Mapping[str, Any]) -> dict[str, Any]:
    """What state depends on: everything that a manifest records of a cell or timer but its description."""
    return {name: value for name, value in described.items() if name != "doc"}


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
