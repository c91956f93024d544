"""Projects that begin with a recipe: for each one what is filled into `skeleton/recipe/`, and the template made of that.

The texts here are code of the project that is made. Its tests compare what comes out with `wanted`, which is written out.
"""

from __future__ import annotations

import json
import re
import string
import textwrap
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import holdfast as hf
from holdfast.starter.beginnings import BEGINNINGS, Beginning
from holdfast.starter.templates import Template

if TYPE_CHECKING:
    from importlib.abc import Traversable

__all__ = ["RecipeTemplate", "kebab", "recipe_templates"]

_BEGIN = datetime(2026, 1, 5, 8, tzinfo=timezone.utc)
_DELAY_SECONDS = 60
"""What the job says of its watermark."""
_ORDER_TEST = """


def test_order_changes_nothing() -> None:
    assert play(TestStream().add_elements(reversed(ELEMENTS))).values == WANTED
"""


def kebab(name: str) -> str:
    """The name of a class as that of a template: SlidingLimit, sliding-limit."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).lower()


def recipe_templates() -> dict[str, Template]:
    """One for each recipe that has a beginning, by name."""
    folder = files("holdfast.starter").joinpath("skeleton").joinpath("recipe")
    return {kebab(one.recipe): RecipeTemplate(kebab(one.recipe), folder, one) for one in BEGINNINGS}


@dataclass(frozen=True)
class RecipeTemplate(Template):
    """A recipe with arguments, tests and a job."""

    name: str
    folder: Traversable
    beginning: Beginning

    @property
    def summary(self) -> str:
        return self.beginning.summary

    @property
    def about(self) -> str:
        said = (self._recipe.__doc__ or "").partition("Keeps for each key")[2]
        keeps = " ".join(f"Keeps for each key{said}".replace("`", "").split("Order:")[0].split())
        return textwrap.fill(f"The function is Holdfast's recipe `{self.beginning.recipe}`. {keeps}", 120)

    def text(self, file: str) -> str:
        if file == "sample.jsonl":
            return self._sample()
        template = string.Template(super().text(file))
        # What the project fills in itself is left as it is.
        return template.safe_substitute(self._words())

    @property
    def _recipe(self) -> type[Any]:
        found: type[Any] = getattr(hf.recipes, self.beginning.recipe)
        return found

    def _words(self) -> dict[str, str]:
        one = self.beginning
        is_combiner, is_sorted = (
            issubclass(self._recipe, hf.CombineFn),
            getattr(self._recipe, "needs_time_sorted_input", False),
        )
        windows = f", windowing={one.windows}" if one.windows else ""
        arguments = f"super().__init__({one.arguments})"
        body = f"\n\n    def __init__(self) -> None:\n        {arguments}" if one.arguments else ""
        blank = "\n\n" if one.functions.startswith("def ") else "\n"
        uses_hf = is_combiner or bool(one.windows)
        return {
            "recipe": one.recipe,
            "cls": one.cls,
            "doc": one.summary[0].upper() + one.summary[1:] + ".",
            "functions": f"{blank}{one.functions}\n" if one.functions else "",
            "body": body,
            "test_imports": "\n".join(
                [
                    *(["import holdfast as hf"] if uses_hf else []),
                    *(["import pytest"] if "pytest" in one.wanted else []),
                    "from holdfast import TimestampedValue",
                ]
            ),
            "elements": "\n".join(
                f"    TimestampedValue(({key!r}, {_code(value)}), {second}),".replace("'", '"')
                for key, value, second in one.elements
            ),
            "wanted": textwrap.indent(one.wanted.strip(), "    "),
            "instance": f"hf.CombinePerKey({one.cls}())" if is_combiner else f"{one.cls}()",
            "options": windows + (", requires_time_sorted_input=True" if is_sorted else ""),
            "order_test": _ORDER_TEST.rstrip() if is_sorted or is_combiner else "",
            "rows": f"{one.key}, {one.values}, at timestamp",
            "results": one.results,
            "key": one.key.split()[0],
            "value": self._value(),
            "step": self._step(is_combiner=is_combiner, is_sorted=is_sorted),
            "later": json.dumps(self._later_key),
            "keys": json.dumps(sorted(one.keys)),
        }

    def _value(self) -> str:
        names = [column.split()[0] for column in self.beginning.values.split(", ")]
        return json.dumps(names) if isinstance(self.beginning.elements[0][1], dict) else json.dumps(names[0])

    def _step(self, *, is_combiner: bool, is_sorted: bool) -> str:
        one = self.beginning
        keyed = f"keyed.window_into({one.windows})" if one.windows else "keyed"
        if is_combiner:
            return f'{keyed}.combine_per_key({one.cls}(), output=RESULTS, name="{self.name}")'
        options = ", requires_time_sorted_input=True" if is_sorted else ""
        return f'{keyed}.par_do({one.cls}(), output=RESULTS, name="{self.name}"{options})'

    def _later(self) -> tuple[Any, Any, int]:
        """One more row of the sample, for the watermark: as late as all others need to come out, and not so late that their
        state is gone. There is something to see then."""
        elements, size = self.beginning.elements, self.beginning.window_seconds
        last = max(second for _, _, second in elements)
        end = (last // size + 1) * size if size else last
        return self._later_key, elements[0][1], end + _DELAY_SECONDS

    @property
    def _later_key(self) -> Any:
        return "later" if self.beginning.key.endswith(" string") else 0

    def _sample(self) -> str:
        one = self.beginning
        columns = [column.split()[0] for column in one.values.split(", ")]
        lines = []
        for key, value, second in (*one.elements, self._later()):
            fields = value if isinstance(value, dict) else {columns[0]: value}
            at = (_BEGIN + timedelta(seconds=second)).isoformat().replace("+00:00", "Z")
            lines.append(json.dumps({one.key.split()[0]: key, **fields, "at": at}))
        return "\n".join(lines) + "\n"


def _code(value: object) -> str:
    return repr(value)
