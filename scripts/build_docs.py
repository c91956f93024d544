"""Builds the documentation as static HTML: the guides of docs/*.md, and a reference of the public names from docstrings.

Usage: build_docs.py [FOLDER]; the folder is build/docs unless one is given. A warning is an error.
"""

from __future__ import annotations

import html
import importlib
import itertools
import re
import shutil
import sys
import types
import typing
import warnings
from pathlib import Path
from string import Template

import pdoc
from markdown_it import MarkdownIt

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("holdfast", "holdfast.testing", "holdfast.ops", "holdfast.recipes", "holdfast.watch")
LINK = re.compile(r"\]\(([^)\s]+)\)")

PAGE = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title · Holdfast</title>
<style>
body { font: 16px/1.55 system-ui, sans-serif; color: #212529; max-width: 54rem; margin: 0 auto; padding: 1.5rem; }
nav { border-bottom: 1px solid #dee2e6; padding-bottom: .6rem; margin-bottom: 1.5rem; }
nav a { margin-right: 1rem; }
a { color: #0b5394; }
h1, h2, h3 { line-height: 1.25; margin-top: 2rem; }
pre { background: #f6f8fa; padding: .8rem 1rem; border-radius: 6px; overflow-x: auto; }
code { font: .9em ui-monospace, monospace; background: #f6f8fa; padding: .1em .25em; border-radius: 3px; }
pre code { padding: 0; }
table { border-collapse: collapse; display: block; overflow-x: auto; }
th, td { border: 1px solid #dee2e6; padding: .3rem .6rem; text-align: left; vertical-align: top; }
</style>
</head>
<body>
<nav><a href="${up}index.html">Holdfast</a><a href="${up}reference/holdfast.html">Reference</a></nav>
$body
</body>
</html>
""")


def build(folder: Path) -> None:
    """Everything, into a folder that is made anew."""
    shutil.rmtree(folder, ignore_errors=True)
    modules = public_modules()
    build_reference(folder / "reference", modules)
    guides = sorted((ROOT / "docs").glob("*.md"))
    decisions = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    build_pages(folder, [*guides, *decisions])
    (folder / "index.html").write_text(page(contents(guides, decisions, modules), ""), encoding="utf-8")


def build_pages(folder: Path, sources: list[Path]) -> None:
    """These files and whatever they link to, laid out as in the repository, so that relative links hold."""
    waiting, seen = list(sources), set(sources)
    while waiting:
        source = waiting.pop()
        target = folder / source.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix != ".md":
            shutil.copyfile(source, target)
            continue
        text = source.read_text(encoding="utf-8")
        up = "../" * (len(source.relative_to(ROOT).parts) - 1)
        target.with_suffix(".html").write_text(page(text, up), encoding="utf-8")
        found = {path for path in linked_files(source, text) if path.is_file()} - seen
        waiting += found
        seen |= found


def linked_files(source: Path, text: str) -> list[Path]:
    addresses = [address.partition("#")[0] for address in LINK.findall(text) if "://" not in address]
    return [(source.parent / address).resolve() for address in addresses if address]


def public_modules() -> list[str]:
    """The packages that users import from, and the modules among their public names."""
    found = list(PACKAGES)
    for package in map(importlib.import_module, PACKAGES):
        for name in package.__all__:
            thing = getattr(package, name)
            # Names that need Spark are looked up when they are first used; pdoc reads only what is there already.
            vars(package)[name] = thing
            if isinstance(thing, types.ModuleType):
                found.append(thing.__name__)
            if hasattr(thing, "_fields"):
                # Python makes the constructor of a NamedTuple in no module, where its annotations mean nothing.
                thing.__new__.__annotations__ = typing.get_type_hints(thing)
    return sorted(set(found))


def build_reference(folder: Path, names: list[str]) -> None:
    """A page for each module, and the index that the search box uses."""
    version = importlib.import_module("holdfast").__version__
    pdoc.render.configure(docformat="markdown", show_source=False, footer_text=f"Holdfast {version}")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        modules = {name: pdoc.doc.Module.from_name(name) for name in names}
        for name, module in modules.items():
            target = folder / (name.replace(".", "/") + ".html")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(pdoc.render.html_module(module, modules), encoding="utf-8")
        (folder / "index.html").write_text(pdoc.render.html_index(modules), encoding="utf-8")
        (folder / "search.js").write_text(pdoc.render.search_index(modules), encoding="utf-8")


def page(markdown: str, up: str) -> str:
    """A page of Markdown as HTML; `up` leads to the folder of the index."""
    parser = MarkdownIt("commonmark").enable("table")
    tokens = parser.parse(markdown)
    title = "Holdfast"
    for opening, inline in itertools.pairwise(tokens):
        if opening.type == "heading_open":
            opening.attrSet("id", anchor(inline.content))
            title = inline.content if opening.tag == "h1" else title
    for token in tokens:
        for link in token.children or ():
            if link.type == "link_open":
                link.attrSet("href", linked(str(link.attrGet("href"))))
    body = parser.renderer.render(tokens, parser.options, {})
    return PAGE.substitute(title=html.escape(title), up=up, body=body)


def anchor(heading: str) -> str:
    """What a link to a heading calls it: lower case, words joined by hyphens."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def linked(address: str) -> str:
    """Files of Markdown link to each other as such; here they are pages."""
    if "://" in address:
        return address
    return re.sub(r"\.md(?=#|$)", ".html", address)


def contents(guides: list[Path], decisions: list[Path], modules: list[str]) -> str:
    def title(path: Path) -> str:
        return path.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")

    lines = ["# Holdfast", "", "Stateful stream processing for PySpark.", "", "## Guides", ""]
    lines += [f"* [{title(path)}](docs/{path.stem}.html)" for path in guides]
    lines += ["", "## Reference", ""]
    lines += [f"* [`{name}`](reference/{name.replace('.', '/')}.html)" for name in modules]
    lines += ["", "## Decisions", ""]
    lines += [f"* [{title(path)}](docs/decisions/{path.stem}.html)" for path in decisions]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    destination = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "docs"
    build(destination)
    print(f"The documentation is in {destination}; open {destination / 'index.html'}")
