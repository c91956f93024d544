"""The site of the documentation: it builds without a warning, has every public name and page, and no link leads nowhere."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import re
import shutil
import subprocess
import sys
import types
from html import unescape
from pathlib import Path
from urllib.parse import unquote

import pytest
import yaml

# Names that need Spark are documented too.
pytest.importorskip("pyspark")
pytest.importorskip("zensical")

ROOT = Path(__file__).parents[2]
PACKAGES = ["holdfast", "holdfast.testing", "holdfast.ops", "holdfast.watch"]
IDENTITY = re.compile(r'\b(?:id|name)="?([^"\s>]+)')
LINK = re.compile(r'\b(?:href|src)="([^"]+)"')
NAV = re.compile(r"^ +- (?:[^:\n]+: )?(\S+\.md)$", re.MULTILINE)


def load_builder() -> types.ModuleType:
    spec = importlib.util.spec_from_file_location("build_docs", ROOT / "scripts" / "build_docs.py")
    assert spec is not None
    assert spec.loader is not None
    builder = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(builder)
    return builder


def project(folder: Path) -> Path:
    """A project of its own, so that builds side by side have folders of their own."""
    folder.mkdir()
    shutil.copyfile(ROOT / "mkdocs.yml", folder / "mkdocs.yml")
    (folder / "src").symlink_to(ROOT / "src")
    load_builder().lay_out(folder / "build" / "pages")
    return folder


def build(folder: Path, builder: str) -> subprocess.CompletedProcess[str]:
    name, *words = load_builder().COMMANDS[builder]
    program = Path(sys.executable).with_name(name)
    return subprocess.run([program, *words], cwd=folder, capture_output=True, text=True, check=False, timeout=600)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = project(tmp_path_factory.mktemp("docs") / "project")
    done = build(folder, "zensical")
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "build" / "docs"


@functools.cache
def identities(page: Path) -> set[str]:
    """Of a page that does not change any more."""
    return {unescape(found) for found in IDENTITY.findall(page.read_text(encoding="utf-8"))}


def missing_names(folder: Path, package: str) -> list[str]:
    """Public names, but for modules, that no page of the reference has."""
    there = {name for page in (folder / "reference").glob("*.html") for name in identities(page)}
    return [place for place in load_builder().defined(package) if place not in there]


def broken_links(folder: Path) -> list[str]:
    """Links within the site that lead nowhere."""
    broken = []
    for page in sorted(folder.rglob("*.html")):
        if page.name == "404.html":
            continue
        for address in map(unescape, LINK.findall(page.read_text(encoding="utf-8"))):
            path, _, fragment = address.partition("#")
            if re.match(r"[a-z]+:|//", address):
                continue
            target = (page.parent / unquote(path.partition("?")[0])).resolve() if path else page
            target = target / "index.html" if target.is_dir() else target
            lacks = fragment and target.suffix == ".html" and unquote(fragment) not in identities(target)
            if not target.is_file() or (lacks and not fragment.startswith("__")):
                broken.append(f"{page.relative_to(folder)}: {address}")
    return broken


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_is_in_the_reference(built, package):
    assert missing_names(built, package) == []


def test_a_missing_name_is_noticed(built, monkeypatch):
    module = importlib.import_module("holdfast.testing")
    monkeypatch.setattr(module, "forgotten", object(), raising=False)
    monkeypatch.setattr(module, "__all__", [*module.__all__, "forgotten"])
    assert missing_names(built, "holdfast.testing") == ["holdfast.testing.forgotten"]


def test_docstrings_are_in_it(built):
    text = (built / "reference" / "holdfast.testing.html").read_text(encoding="utf-8")
    assert "a way to run a function over it in milliseconds" in text


def test_no_link_leads_nowhere(built):
    assert broken_links(built) == []


def test_a_broken_link_is_noticed(tmp_path):
    (tmp_path / "a.html").write_text('<a href="b.html#there"></a><a href="b.html#gone"></a><a href="c.html"></a>')
    (tmp_path / "b.html").write_text('<h2 id="there">There</h2>')
    assert broken_links(tmp_path) == ["a.html: b.html#gone", "a.html: c.html"]


def test_every_page_is_in_the_navigation():
    """And each of its entries is a page."""
    named = set(NAV.findall((ROOT / "mkdocs.yml").read_text(encoding="utf-8")))
    reference = {f"reference/{name}.md" for name in load_builder().names_by_page()}
    pages = {path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert pages | reference <= named
    assert [name for name in named - reference if not (ROOT / name).is_file()] == []


def test_a_link_that_leads_nowhere_fails_the_build(tmp_path):
    """That the builder is strict: a small site will do."""
    (tmp_path / "build" / "pages").mkdir(parents=True)
    (tmp_path / "build" / "pages" / "index.md").write_text("# Here\n\n[there](nowhere.md)\n")
    settings = {"site_name": "Small", "docs_dir": "build/pages", "site_dir": "build/docs"}
    (tmp_path / "mkdocs.yml").write_text(yaml.safe_dump(settings))
    done = build(tmp_path, "zensical")
    assert done.returncode != 0
    assert "page does not exist" in done.stdout + done.stderr


@pytest.mark.night
def test_the_other_builder_builds_it_too(tmp_path):
    folder = project(tmp_path / "project")
    done = build(folder, "mkdocs")
    assert done.returncode == 0, done.stdout + done.stderr
    assert broken_links(folder / "build" / "docs") == []
