"""Packages that an extra installs: whether they are here, and the message that says how to get them."""

from __future__ import annotations

import importlib.util
import re

from holdfast.errors import MissingExtra

__all__ = ["SPARK", "TOOLS", "as_missing_extra", "require_extra", "require_spark", "require_tools"]

TOOLS = ("lz4", "xxhash")
"""The packages that the extra `tools` installs and that every look at a checkpoint needs."""
SPARK = ("pyspark", "pyarrow", "pandas", "xxhash", "lz4")
"""The packages that the extra `spark` installs and Holdfast imports."""


def require_spark(what: str) -> None:
    """Raises MissingExtra, naming `what` needs it, unless everything needed to run on Spark is installed."""
    missing = [name for name in SPARK if not _is_here(name)]
    if missing:
        raise _missing(what, *missing)


def require_tools(what: str) -> None:
    """Raises MissingExtra, naming `what` needs it, unless everything needed to look at a checkpoint is installed."""
    missing = [name for name in TOOLS if not _is_here(name)]
    if missing:
        raise _missing(what, *missing, extra="tools")


def require_extra(extra: str, package: str, version: tuple[int, int], what: str, distribution: str = "") -> None:
    """Raises MissingExtra, naming `what` needs it, unless the package that an extra installs is here and new enough.

    `distribution`: what installs it, if that is called otherwise.
    """
    if not _is_here(package):
        raise _missing(what, package, extra=extra)
    import importlib.metadata

    found = importlib.metadata.version(distribution or package)
    if tuple(int(part) for part in re.findall(r"\d+", found)[:2]) < version:
        needed = ".".join(map(str, version))
        raise MissingExtra(
            f"{what} needs {package} {needed} or newer, and {found} is installed: pip install 'holdfast[{extra}]'"
        )


def as_missing_extra(error: BaseException, what: str) -> MissingExtra | None:
    """Python's error as a MissingExtra, if it is about a package that the extra installs."""
    if not isinstance(error, ModuleNotFoundError) or error.name is None:
        return None
    package = error.name.partition(".")[0]
    return _missing(what, package) if package in SPARK and not _is_here(package) else None


def _missing(what: str, *names: str, extra: str = "spark") -> MissingExtra:
    listed = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    verb = "is" if len(names) == 1 else "are"
    error = MissingExtra(f"{what} needs {listed}, which {verb} not installed: pip install 'holdfast[{extra}]'")
    # As in Python's own error, for code that asks which module is missing.
    error.name = names[0]
    return error


def _is_here(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        # What it is in is not here.
        return False
    except ValueError:
        # It is imported already, but its module has no spec.
        return True
