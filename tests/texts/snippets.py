"""Runs code of a text, with the changes that it needs and no others."""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import Any

__all__ = ["run_snippet"]


def run_snippet(text: str, changes: Mapping[str, str], **names: object) -> dict[str, Any]:
    """The names that a text defines, once its `changes` are made: each of them must be there to be changed.

    `names` are those that the text takes for granted.
    """
    for old, new in changes.items():
        assert old in text, f"the text does not have {old!r}"
        text = text.replace(old, new)
    # As in a notebook: nobody can import what it defines, so it travels to Spark's workers itself.
    module = types.ModuleType("snippet")
    module.__dict__.update(names)
    exec(compile(text, module.__name__, "exec"), module.__dict__)
    return module.__dict__
