"""The documentation: its examples run, its links lead somewhere, and it leaves nothing out."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path

import pytest

import holdfast as hf
from holdfast import errors

sys.path.insert(0, str(Path(__file__).parents[1]))

from documents import MARKERS_ON_SPARK, ROOT, WHILE_RUNNING, WITH_EXAMPLES, blocks, in_memory, name_of

SOURCES = ROOT / "src" / "holdfast"
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("benchmarks/*.md"), *ROOT.glob("docs/**/*.md")])

_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def read(page: Path) -> str:
    return page.read_text(encoding="utf-8")


@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=name_of)
def test_examples_run(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Classes look for their module by name, so the page is one while its examples run.
    module = types.ModuleType(f"docs_page_{page.stem.replace('-', '_')}")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    for block in in_memory(page):
        exec(compile(block.text, name_of(page), "exec"), module.__dict__)


@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=name_of)
def test_every_block_is_run(page: Path) -> None:
    """Python in memory or on Spark, shell commands against a checkpoint; `text` is what a program says."""
    left_out = [
        f"{name_of(page)}:{block.line}"
        for block in blocks(page)
        if block.language not in ("python", "sh", "text") or block.marker not in ("", *MARKERS_ON_SPARK, WHILE_RUNNING)
    ]
    assert left_out == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    targets = [target for target in _LINK.findall(read(page)) if not target.startswith(("http", "#"))]
    missing = [target for target in targets if not (page.parent / target.partition("#")[0]).exists()]
    assert missing == []


def test_architecture_mentions_every_room() -> None:
    """Each package by its path, and each module that stands outside a room."""
    text = read(ROOT / "ARCHITECTURE.md")
    packages = [init.parent.relative_to(SOURCES) for init in SOURCES.rglob("__init__.py") if init.parent != SOURCES]
    rooms = [f"{package.as_posix()}/" for package in packages if package.name != "startup"]
    assert len(rooms) > 30
    assert [room for room in sorted(rooms) if room not in text] == []
    assert [path.name for path in SOURCES.glob("*.py") if path.name != "__init__.py" and path.name not in text] == []


@pytest.mark.parametrize("error", errors.__all__)
def test_errors_page_has_every_error(error: str) -> None:
    assert f"`{error}`" in read(ROOT / "docs" / "errors.md")


def test_state_page_has_every_coder_and_spec() -> None:
    text = read(ROOT / "docs" / "state.md")
    names = [name for name in hf.__all__ if name.endswith(("Coder", "StateSpec")) and name not in ("Coder", "StateSpec")]
    assert [name for name in names if name not in text] == []
