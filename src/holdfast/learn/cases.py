"""What an exercise checks: a script, and what must come out of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

from holdfast.testing import TestStream

__all__ = ["Case", "Exercise"]

_TEXTS = resources.files("holdfast.learn") / "texts"


@dataclass(frozen=True)
class Case:
    """One thing that an exercise must do."""

    shows: str
    """In words, after "it …"."""
    stream: TestStream
    """What is played."""
    wants: tuple[object, ...]
    """The values of the main output, in order. Lists and tuples are taken for each other."""
    todo: str
    """What to think of if it does something else."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of the run."""
    keeps: tuple[object, ...] | None = None
    """The keys that may have state at the end; None if that does not matter."""
    parts: tuple[tuple[object, ...], ...] = ()
    """Of a CombineFn, in place of a stream: what is added to accumulators of their own, which are then merged."""


@dataclass(frozen=True)
class Exercise:
    """A task, with a file to begin with, a hint, a solution, and what is checked. Its texts are files of the package."""

    name: str
    about: str
    """What it teaches, in a few words."""
    class_name: str
    """The class that is to be written."""
    uses: tuple[type, ...]
    """Each must be among the kinds of cells and timers that the class declares."""
    cases: tuple[Case, ...]

    @property
    def stub(self) -> str:
        """The file to begin with: the task, and a class without its body."""
        return self._text("stub")

    @property
    def hint(self) -> str:
        return self._text("hint")

    @property
    def solution(self) -> str:
        return self._text("solution")

    @property
    def file_name(self) -> str:
        return f"{self.name.replace('-', '_')}.py"

    def _text(self, kind: str) -> str:
        return (_TEXTS / f"{self.name}.{kind}.txt").read_text(encoding="utf-8")
