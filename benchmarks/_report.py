"""How the Spark benchmarks show their figures: tables, a JSON file, plots, and whether a target is met."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

__all__ = ["machine", "megabytes", "print_table", "print_target", "save_json", "save_plot"]


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """The first column to the left, the others to the right."""
    widths = [max(len(line[place]) for line in [columns, *rows]) for place in range(len(columns))]
    for line in [columns, ["-" * width for width in widths], *rows]:
        cells = [line[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True))]
        print("  ".join(cells).rstrip())


def print_target(what: str, value: float, relation: str, target: float) -> bool:
    """Says whether a ratio is what is wanted of it. `relation` is `at least`, `at most` or `below`."""
    is_met = {"at least": value >= target, "at most": value <= target, "below": value < target}[relation]
    print(f"{what}: {value:.2f}; wanted: {relation} {target:g}; {'met' if is_met else 'NOT MET'}")
    return is_met


def megabytes(size: float) -> str:
    return f"{size / 1e6:,.0f} MB"


def machine() -> dict[str, Any]:
    """Where figures come from."""
    return {"cores": os.cpu_count(), "machine": platform.machine(), "python": platform.python_version()}


def save_json(path: Path, figures: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(figures, indent=2))
    print(f"figures: {path}")


def save_plot(path: Path, draw: Callable[[Any], Any]) -> None:
    """Saves the figure that `draw` makes with matplotlib.pyplot, if that is installed."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError:
        print("no plot: matplotlib is not installed (pip install matplotlib)")
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    figure = draw(pyplot)
    figure.savefig(path, dpi=150)
    print(f"plot: {path}")
