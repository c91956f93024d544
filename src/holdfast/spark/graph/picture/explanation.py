"""An explanation of a job, as it is shown in a terminal, in a notebook and in a file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from holdfast.errors import InputError
from holdfast.spark.graph.description import GraphView
from holdfast.spark.graph.picture.svg import svg_of
from holdfast.spark.graph.picture.text import text_of

__all__ = ["Explanation"]


@dataclass(frozen=True, repr=False)
class Explanation:
    """How a job runs. Printed, it is a text; a notebook shows a picture; `graph` has it as values."""

    graph: GraphView

    @cached_property
    def svg(self) -> str:
        """The picture, as SVG."""
        return svg_of(self.graph)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes it to a file: the picture if its name ends with .svg, the text if with .txt."""
        contents = {".svg": lambda: self.svg, ".txt": lambda: f"{self}\n"}
        make = contents.get(Path(path).suffix.lower())
        if make is None:
            raise InputError(f"An explanation cannot be saved as {os.fspath(path)!r}.", todo="give a name with .svg or .txt")
        Path(path).write_text(make(), encoding="utf-8")

    def __str__(self) -> str:
        return text_of(self.graph)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return f'<div style="overflow-x: auto">{self.svg}</div>'
