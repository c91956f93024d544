"""Lays out the documentation as a site's pages, and builds the site. A warning of the builder is an error.

Usage: build_docs.py [zensical | mkdocs]; `mkdocs.yml` says from where and to where.

The pages are the repository's own: they and whatever they link to keep their places, so relative links hold. The reference
is made here, a page for each topic, with an entry for each public name, which mkdocstrings fills in from the docstrings.
"""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
import sys
import types
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "build" / "pages"
BEGIN = (
    "README.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "examples/kafka_to_postgres/README.md",
)
LINK = re.compile(r"\]\(([^)\s]+)\)")
COMMANDS = {
    "zensical": ["zensical", "build", "--strict", "--clean"],
    "mkdocs": ["mkdocs", "build", "--strict", "--quiet", "--clean"],
}

TOPICS = {
    "functions": ("Functions", "holdfast.model.functions"),
    "state": ("State", "holdfast.model.state"),
    "time": ("Time and timers", "holdfast.model.time"),
    "windows": ("Windows", "holdfast.model.windows"),
    "aggregations": ("Aggregations", "holdfast.model.aggregate"),
    "coders": ("Coders", "holdfast.model.coders"),
    "metrics": ("Metrics", "holdfast.model.metrics"),
    "spark": ("On Spark", "holdfast.spark"),
    "errors": ("Errors", "holdfast.errors"),
}
"""Of `holdfast`: the page, its title, and where what is on it is defined."""
MODULES = (
    "holdfast.spark.sinks",
    "holdfast.spark.sources",
    "holdfast.recipes",
    "holdfast.testing",
    "holdfast.watch",
    "holdfast.ops",
)
"""Each has a page of its own."""
IN_HOLDFAST = "All names on this page are in `holdfast` itself: `import holdfast as hf`.\n\n"


def lay_out(folder: Path = PAGES) -> None:
    """All pages, into a folder that is made anew."""
    shutil.rmtree(folder, ignore_errors=True)
    waiting = [ROOT / name for name in BEGIN] + sorted((ROOT / "docs").rglob("*"))
    seen = set(waiting)
    while waiting:
        source = waiting.pop()
        if not source.is_file():
            continue
        target = folder / source.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
        if source.suffix == ".md":
            found = set(linked_files(source)) - seen
            waiting += found
            seen |= found
    for name, text in reference().items():
        (folder / "reference").mkdir(exist_ok=True)
        (folder / "reference" / f"{name}.md").write_text(text, encoding="utf-8")


def linked_files(source: Path) -> list[Path]:
    """The files to which a page links; a link that leads nowhere is for the builder to find."""
    text = source.read_text(encoding="utf-8")
    addresses = [address.partition("#")[0] for address in LINK.findall(text) if "://" not in address]
    return [(source.parent / address).resolve() for address in addresses if address]


def reference() -> dict[str, str]:
    """The pages of the reference, by name."""
    pages = {}
    for page, names in names_by_page().items():
        title = TOPICS[page][0] if page in TOPICS else f"`{page.replace('holdfast.spark.', 'hf.')}`"
        about = IN_HOLDFAST if page in TOPICS else f"{introduction(importlib.import_module(page))}\n\n"
        pages[page] = f"# {title}\n\n{about}" + "\n".join(f"::: {name}\n" for name in names)
    return pages


def names_by_page() -> dict[str, list[str]]:
    """Which names are on which page, where they are defined. Every public name is on one, and on no other."""
    found: dict[str, list[str]] = {page: [] for page in TOPICS}
    for place in defined("holdfast"):
        pages = [page for page, (_, prefix) in TOPICS.items() if place.startswith(f"{prefix}.")]
        found[pages[0]].append(place)
    for module in MODULES:
        there = {place for places in found.values() for place in places}
        found[module] = [place for place in defined(module) if place not in there]
    return found


def defined(package: str) -> list[str]:
    """The public names of a package that are no modules, each with where it is defined: there is what is said of it."""
    offered = importlib.import_module(package)
    places = []
    for name in offered.__all__:
        thing = getattr(offered, name)
        if isinstance(thing, types.ModuleType) or name == "__version__":
            continue
        homes = {**vars(offered).get("_HOMES", {}), **vars(offered).get("_ON_SPARK", {})}
        home = homes.get(name, getattr(thing, "__module__", package))
        has_it = home.startswith("holdfast") and hasattr(importlib.import_module(home), name)
        places.append(f"{home if has_it else package}.{name}")
    return places


def introduction(module: types.ModuleType) -> str:
    return (module.__doc__ or "").strip()


def build(builder: str) -> int:
    """The site, by one of the two; its exit code."""
    name, *words = COMMANDS[builder]
    program = Path(sys.executable).with_name(name)
    return subprocess.run([str(program), *words], cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    lay_out()
    code = build(sys.argv[1] if len(sys.argv) > 1 else "zensical")
    if code == 0:
        print(f"The documentation is in {ROOT / 'build' / 'docs'}; open index.html there")
    sys.exit(code)
