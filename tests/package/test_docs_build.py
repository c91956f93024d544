"""The documentation builds without a warning, and has every public name."""

from __future__ import annotations

import importlib
import importlib.util
import re
import types
import warnings
from pathlib import Path

import pytest

# Names that need Spark are documented too.
pytest.importorskip("pyspark")
pytest.importorskip("pdoc")

ROOT = Path(__file__).parents[2]
PACKAGES = ["holdfast", "holdfast.testing", "holdfast.ops"]
IDENTITY = re.compile(r'\bid="([^"]+)"')
LINK = re.compile(r'\bhref="([^"]+)"')


def load_builder():
    spec = importlib.util.spec_from_file_location("build_docs", ROOT / "scripts" / "build_docs.py")
    assert spec is not None
    assert spec.loader is not None
    builder = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(builder)
    return builder


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("docs") / "html"
    load_builder().build(folder)
    return folder


def identities(page: Path) -> set[str]:
    return set(IDENTITY.findall(page.read_text(encoding="utf-8")))


def page_of(folder: Path, module: str) -> Path:
    return folder / "reference" / (module.replace(".", "/") + ".html")


def missing_names(folder: Path, package: str) -> list[str]:
    """Public names without an entry: a heading in the package's page, or a page of its own for a module."""
    there = identities(page_of(folder, package))
    module = importlib.import_module(package)
    missing = []
    for name in module.__all__:
        thing = getattr(module, name)
        is_module = isinstance(thing, types.ModuleType)
        if name not in there and not (is_module and page_of(folder, thing.__name__).is_file()):
            missing.append(name)
    return missing


def broken_links(folder: Path) -> list[str]:
    """Links of the guides that lead nowhere."""
    broken = []
    for page in sorted(set(folder.rglob("*.html")) - set((folder / "reference").rglob("*"))):
        for address in LINK.findall(page.read_text(encoding="utf-8")):
            path, _, fragment = address.partition("#")
            if "://" in address:
                continue
            target = (page.parent / path).resolve() if path else page
            if not target.is_file() or (fragment and target.suffix == ".html" and fragment not in identities(target)):
                broken.append(f"{page.relative_to(folder)}: {address}")
    return broken


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_is_in_the_reference(built, package):
    assert missing_names(built, package) == []


def test_a_missing_name_is_noticed(built, monkeypatch):
    module = importlib.import_module("holdfast.testing")
    monkeypatch.setattr(module, "forgotten", object(), raising=False)
    monkeypatch.setattr(module, "__all__", [*module.__all__, "forgotten"])
    assert missing_names(built, "holdfast.testing") == ["forgotten"]


def test_docstrings_are_in_it(built):
    text = page_of(built, "holdfast.testing").read_text(encoding="utf-8")
    assert "a way to run a function over it in milliseconds" in text


def test_inner_modules_are_not(built):
    assert not page_of(built, "holdfast.engine").exists()
    assert list((built / "reference" / "holdfast").rglob("engine*")) == []


def test_every_guide_is_in_the_index(built):
    index = (built / "index.html").read_text(encoding="utf-8")
    guides = sorted(path.stem for path in (ROOT / "docs").glob("*.md"))
    assert len(guides) > 10
    assert [name for name in guides if f'href="docs/{name}.html"' not in index] == []


def test_no_link_leads_nowhere(built):
    assert broken_links(built) == []


def test_a_broken_link_is_noticed(tmp_path):
    (tmp_path / "a.html").write_text('<a href="b.html#there"></a><a href="b.html#gone"></a><a href="c.html"></a>')
    (tmp_path / "b.html").write_text('<h2 id="there">There</h2>')
    assert broken_links(tmp_path) == ["a.html: b.html#gone", "a.html: c.html"]


def test_a_warning_is_an_error(tmp_path, monkeypatch):
    builder = load_builder()
    monkeypatch.setattr(builder.pdoc.render, "html_module", lambda *_: warnings.warn("unclear", stacklevel=1))
    with pytest.raises(UserWarning, match="unclear"):
        builder.build_reference(tmp_path, ["holdfast.testing"])
