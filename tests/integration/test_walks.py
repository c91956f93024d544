"""The pages that begin in an empty folder, followed to the letter: each file is written, each command is run by a shell.

`<!-- file: NAME -->` stands above what is saved under that name. Above a text block, `<!-- says -->` means that the commands
before it print each of its lines, in this order, at least. What is installed is not installed again.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from documents import WALKS, Block, blocks, name_of

_FILE = re.compile(r"<!-- file: ([\w./-]+) -->")
SAYS = "<!-- says -->"
BY_NIGHT = {"tutorial.md"}
"""It starts Spark many times."""
INSTALLING = ("pip install", "python -m venv", "python3 -m venv", ". .venv/")


class Walk:
    """Somebody in an empty folder, who does what a page says."""

    def __init__(self, folder: Path, state: Path) -> None:
        self.folder = folder
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        # As a shell of one's own has it: Python finds what is in the folder, and nothing of the tests'.
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "PYTHONPATH"))}
        self.environment = {**kept, "PATH": path, "XDG_STATE_HOME": str(state), "COLUMNS": "200"}
        self.said = ""

    def follow(self, block: Block) -> None:
        file = _FILE.fullmatch(block.marker)
        if file:
            (self.folder / file[1]).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / file[1]).write_text(block.text.lstrip("\n"), encoding="utf-8")
        elif block.language == "sh":
            lines = [line for line in block.text.splitlines() if not line.startswith(INSTALLING)]
            command, places = ["bash", "-euc", "\n".join(lines)], {"cwd": self.folder, "env": self.environment}
            done = subprocess.run(command, **places, capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{name_of(block.page)}:{block.line}\n{done.stdout}\n{done.stderr}"
            self.said = done.stdout
        elif block.marker == SAYS:
            assert_says(self.said, block)
        else:
            raise AssertionError(f"{name_of(block.page)}:{block.line}: nobody knows what to do with this block")


def assert_says(said: str, block: Block) -> None:
    """Each line of the block is in a line of what was said, after those before it."""
    place = 0
    for line in block.text.strip().splitlines():
        found = said.find(line.strip(), place)
        assert found >= 0, f"{name_of(block.page)}:{block.line}: not said: {line}\n{said}"
        place = found + len(line.strip())


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=[pytest.mark.night] * (page.name in BY_NIGHT)) for page in WALKS], ids=name_of
)
def test_the_page_to_the_letter(page, tmp_path):
    folder = tmp_path / "empty"
    folder.mkdir()
    walk = Walk(folder, tmp_path / "state")
    for block in blocks(page):
        walk.follow(block)


@pytest.mark.parametrize("page", WALKS, ids=name_of)
def test_a_reader_is_told_where_to_save_a_file(page):
    """What the marker says is not to be seen: the name stands above it, too."""
    text = page.read_text(encoding="utf-8")
    for match in _FILE.finditer(text):
        assert f"`{match[1]}`" in text[max(0, match.start() - 250) : match.start()], match[1]


@pytest.mark.parametrize(
    ("language", "marker", "text"),
    [("text", SAYS, "b\na"), ("text", "", "a"), ("python", "", "pass"), ("sh", "", "exit 3"), ("sh", "", "echo $nothing")],
)
def test_what_is_not_so_is_noticed(tmp_path, language, marker, text):
    walk = Walk(tmp_path, tmp_path)
    walk.follow(Block(WALKS[0], "sh", "", "echo a; echo b"))
    walk.follow(Block(WALKS[0], "text", SAYS, "a\nb"))
    with pytest.raises(AssertionError, match=r"five-minutes\.md"):
        walk.follow(Block(WALKS[0], language, marker, text))
