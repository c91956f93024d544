"""The page about health says what the code does: names, defaults, metrics; and what the code refers to is there."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

import holdfast
from histories import Story
from holdfast.watch import Limit, Thresholds, judge
from holdfast.watch.health import failing, growth, pace, skewing, watermark
from holdfast.watch.health.texts import text_in
from holdfast.watch.outlets.names import METRICS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "health.md").read_text(encoding="utf-8")
SOURCES = Path(holdfast.__file__).parent / "watch" / "health"


@pytest.mark.parametrize("measure", judge(Story(batches=3).history()).measures, ids=lambda measure: measure.name)
def test_measures_with_their_defaults(measure):
    bounds = [text_in(measure.unit, bound) if bound is not None else "–" for bound in (measure.warning, measure.critical)]  # noqa: RUF001
    assert f"| {measure.title} | `{measure.name}` | {bounds[0]} | {bounds[1]} |" in PAGE


def test_the_other_thresholds_with_their_defaults():
    for each in dataclasses.fields(Thresholds):
        if not isinstance(each.default, Limit):
            assert f"| `{each.name}` | {each.default:,} |" in PAGE


def test_every_symptom():
    modules = (failing, growth, pace, skewing, watermark)
    names = {
        name for module in modules for name in re.findall(r'name="(\w+)"', Path(module.__file__).read_text(encoding="utf-8"))
    }
    assert len(names) == 10
    assert [name for name in names if f"| `{name}` |" not in PAGE] == []


def test_every_metric():
    for metric in METRICS.values():
        assert f"`{metric.name}{'_total' if metric.kind == 'counter' else ''}`" in PAGE


def test_pages_that_are_named_in_what_to_do_are_there():
    named = {
        found for file in SOURCES.glob("*.py") for found in re.findall(r"docs/([\w-]+)\.md(?:#([\w-]+))?", file.read_text())
    }
    assert len(named) > 10
    for page, section in named:
        text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
        headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
        anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
        assert not section or section in anchors, f"{page}.md#{section}"
