"""The templates: what a project can begin with, found by name. There is one for each recipe, from `from_recipes.py`.

Another template is a folder of its name, in the folder `templates` of one of the packages in `HOMES`. In it are

    about.md            what it does: a line for lists, and after it what the project's README says
    function.py.txt     the function, a module that has the template's name
    test_function.py.txt    its tests, without Spark
    job.py.txt          the job
    test_job.py.txt     its test, on Spark
    sample.jsonl        a few rows of input
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING

from holdfast.errors import InputError

if TYPE_CHECKING:
    from importlib.abc import Traversable

__all__ = ["HOMES", "Template", "find_template", "templates"]

HOMES = ["holdfast.starter"]
"""Packages that have templates; of two with one name the first counts."""


@dataclass(frozen=True)
class Template:
    """A function with its tests and its job, not yet filled in."""

    name: str
    folder: Traversable

    @property
    def summary(self) -> str:
        """In one line."""
        return self.text("about.md").partition("\n")[0]

    @property
    def about(self) -> str:
        """What the project's README says of it."""
        return self.text("about.md").partition("\n")[2].strip()

    def text(self, file: str) -> str:
        return self.folder.joinpath(file).read_text(encoding="utf-8")


def templates() -> dict[str, Template]:
    """All there are, by name."""
    found: dict[str, Template] = {}
    for home in HOMES:
        for folder in sorted(files(home).joinpath("templates").iterdir(), key=lambda folder: folder.name):
            if folder.joinpath("about.md").is_file():
                found.setdefault(folder.name, Template(folder.name, folder))
    # Which are templates themselves.
    from holdfast.starter.from_recipes import recipe_templates

    return {**recipe_templates(), **found}


def find_template(name: str) -> Template:
    """The template of this name; raises InputError, with those there are, if there is none."""
    from holdfast.starter.from_recipes import kebab

    known = templates()
    name = kebab(name)
    if name not in known:
        raise InputError(
            f"--from: there is no template {name!r}.",
            detail="\n".join(f"{template.name:<24}{template.summary}" for template in known.values()),
            todo="choose one of these",
        )
    return known[name]
