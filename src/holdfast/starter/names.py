"""What a new project may be called, and its package."""

from __future__ import annotations

import keyword
import re
import sys

from holdfast.errors import InputError

__all__ = ["package_name"]

_NAME = re.compile(r"[a-z][a-z0-9]*(?:[-_][a-z0-9]+)*")
_LENGTH_MAX = 64
_TAKEN = frozenset({"holdfast", "numpy", "pandas", "py4j", "pyarrow", "pyspark", "pytest", "tests"})
"""What a project's package would hide from its own imports."""


def package_name(project: str) -> str:
    """The package of a project; raises InputError for a name that a project cannot have."""
    if not _NAME.fullmatch(project) or len(project) > _LENGTH_MAX:
        raise InputError(
            f"NAME: {project!r} cannot be the name of a project.",
            detail=f"small letters and digits, with single - or _ between; first a letter; at most {_LENGTH_MAX} characters",
            todo="for example: holdfast new card-alerts",
        )
    package = project.replace("-", "_")
    if keyword.iskeyword(package) or package in sys.stdlib_module_names or package in _TAKEN:
        raise InputError(
            f"NAME: {project!r} cannot be the name of a project: Python has a word or a package {package!r}.",
            todo=f"choose another, for example: holdfast new my-{project}",
        )
    return package
