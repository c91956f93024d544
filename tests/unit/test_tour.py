"""The notebook: its cells run in order, as in a kernel, and it is kept without what they gave."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from notebooks import CELLS, Kernel, needs_spark


def test_it_is_kept_without_outputs():
    assert len(CELLS) > 8
    assert [cell for cell in CELLS if cell["outputs"] or cell["execution_count"] is not None] == []


def test_what_needs_spark_comes_last():
    assert [needs_spark(cell) for cell in CELLS] == sorted(needs_spark(cell) for cell in CELLS)
    assert not needs_spark(CELLS[0])


def test_the_cells_in_memory():
    kernel = Kernel()
    shown = [kernel.run(cell) for cell in CELLS if not needs_spark(cell)]
    assert shown[1] == [("ann", 1, 10), ("bob", 1, 5), ("ann", 2, 17)]
    assert shown[2] == {"count": 2, "total": 17}
    assert shown[3] == [("ann", 1800.0)]
    assert sorted(shown[4]) == [(("ann", 10), 7200.0), (("ann", 20), 0.0)]
    assert "'seen'" in kernel.module.problem
