"""The examples from public texts print what their first lines say; their functions over DataFrames can be built."""

from __future__ import annotations

import ast
import runpy
import textwrap
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples" / "texts"
FILES = sorted(FOLDER.glob("*.py"))


def told(file: Path) -> str:
    """What a file says that it prints: all that is indented at the end of its docstring, after the command."""
    docstring = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8")))
    command, _, printed = docstring.partition(f"    python examples/texts/{file.name}\n\n")
    assert command
    assert printed
    return textwrap.dedent(printed).strip()


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_it_prints_what_it_says(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(file), run_name="__main__")
    assert capsys.readouterr().out.strip() == told(file)


def test_each_is_in_the_table() -> None:
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert len(FILES) == 4
    assert [file.name for file in FILES if f"[{file.name}]" not in text] == []
    assert (FOLDER / "../lesson_store.py").exists()
