"""The notebook of the examples, run cell by cell, as in a kernel."""

from __future__ import annotations

import ast
import json
import types
from pathlib import Path
from typing import Any

TOUR = Path(__file__).parents[1] / "examples" / "tour.ipynb"
CELLS = [cell for cell in json.loads(TOUR.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]


def needs_spark(cell: dict[str, Any]) -> bool:
    return "spark" in cell["metadata"].get("tags", ())


class Kernel:
    """Runs cells one after the other; the last expression of each is what a notebook shows."""

    def __init__(self) -> None:
        # A module that nobody can import: so its functions are sent to Spark's workers whole, as those of a notebook are.
        self.module = types.ModuleType("tour_of_holdfast")

    def run(self, cell: dict[str, Any]) -> Any:
        tree = ast.parse("".join(cell["source"]))
        last = tree.body[-1]
        if isinstance(last, ast.Expr):
            tree.body.pop()
        exec(compile(tree, TOUR.name, "exec"), vars(self.module))
        if not isinstance(last, ast.Expr):
            return None
        return eval(compile(ast.Expression(last.value), TOUR.name, "eval"), vars(self.module))
