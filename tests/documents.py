"""The code blocks of the documents, and how each is run.

A Python block runs in memory, or on Spark if `<!-- on spark -->` stands above it, which may also ask for PostgreSQL or
Kafka. A block of shell commands is run against a checkpoint. There is no way to say that a block is not run.

A page that is followed from an empty folder is another matter: its Python is files, and a shell runs its commands.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
WITH_EXAMPLES = [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))]
WALKS = [ROOT / "docs" / "five-minutes.md", ROOT / "docs" / "tutorial.md"]
"""Pages that are followed to the letter, from an empty folder: tests/integration/test_walks.py."""
WITH_EXAMPLES = [page for page in WITH_EXAMPLES if page not in WALKS]
ON_SPARK = "<!-- on spark -->"
WITH_POSTGRES = "<!-- on spark, with PostgreSQL -->"
WITH_KAFKA = "<!-- on spark, with kafka -->"
"""Above Python that needs a broker, too: `localhost:9092` is one."""
MARKERS_ON_SPARK = (ON_SPARK, WITH_POSTGRES, WITH_KAFKA)
WHILE_RUNNING = "<!-- while alerts runs -->"
"""Above shell commands for which the job `alerts` must be running."""

_FENCED = re.compile(r"^```([a-z]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"<!--(?:(?!-->).)*-->\s*\Z", re.DOTALL)


class Block(NamedTuple):
    page: Path
    language: str
    marker: str
    """The comment above it, if there is one."""
    text: str
    """With blank lines before it, so that a traceback names the page's own line."""

    @property
    def line(self) -> int:
        return len(self.text) - len(self.text.lstrip("\n"))


def blocks(page: Path) -> list[Block]:
    """All blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in _FENCED.finditer(text):
        before = text[: match.start()]
        comment = _COMMENT.search(before)
        marker = comment[0].strip() if comment else ""
        found.append(Block(page, match[1], marker, "\n" * (before.count("\n") + 1) + match[2]))
    return found


def in_memory(page: Path) -> list[Block]:
    """The Python blocks that need no Spark."""
    return [block for block in blocks(page) if block.language == "python" and block.marker not in MARKERS_ON_SPARK]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))
