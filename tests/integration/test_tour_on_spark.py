"""The notebook as a whole, on Spark."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from notebooks import CELLS, Kernel


def test_the_cells_on_spark(monkeypatch, spark, tmp_path):
    """The session is that of the tests, which goes on."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("holdfast.session", lambda name: spark)
    kernel = Kernel()
    shown = [kernel.run(cell) for cell in CELLS if "spark.stop()" not in "".join(cell["source"])]
    assert kernel.module.found == [("ann", 1, 10), ("ann", 2, 17), ("bob", 1, 5)]
    assert "<svg" in shown[-3]._repr_html_()
    assert {cell.key for cell in shown[-1].cells} == {"ann", "bob"}
    assert ">17<" in shown[-1]._repr_html_()
