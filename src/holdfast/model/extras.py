"""What only an extra installs: whether it is here, and the sentence that says how to get it."""

from __future__ import annotations

import importlib.util

from holdfast.errors import MissingExtra

__all__ = ["SPARK", "missing_extra", "require_spark"]

SPARK = ("pyspark", "pyarrow", "pandas")
"""What the extra `spark` installs and Holdfast imports."""


def require_spark(what: str) -> None:
    """Raises MissingExtra unless everything that `what` needs to run on Spark is installed."""
    missing = [name for name in SPARK if not _is_here(name)]
    if missing:
        raise missing_extra(what, *missing)


def missing_extra(what: str, *missing: str) -> MissingExtra:
    """The error that says what `what` needs, and what installs it."""
    names = missing[0] if len(missing) == 1 else f"{', '.join(missing[:-1])} and {missing[-1]}"
    verb = "is" if len(missing) == 1 else "are"
    error = MissingExtra(f"{what} needs {names}, which {verb} not installed: pip install 'holdfast[spark]'")
    # As Python's own error has it, for whoever asks which module is missing.
    error.name = missing[0]
    return error


def _is_here(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ValueError:
        # It has been imported already, by something that does not say from where.
        return True
