"""Which versions of Spark the few modules that reach behind its public calls have been tried with."""

from __future__ import annotations

import pyspark

from holdfast.errors import HoldfastError

__all__ = ["check_version", "is_known_version"]

_KNOWN = ("4.3",)


def is_known_version() -> bool:
    """Whether what is not public in this Spark is as it was when it was tried."""
    return pyspark.__version__.startswith(_KNOWN)


def check_version(what: str, instead: str) -> None:
    """Raises HoldfastError if `what` has not been tried with this Spark; `instead` says what to do."""
    if not is_known_version():
        raise HoldfastError(
            f"{what} needs Spark {' or '.join(_KNOWN)}; this is PySpark {pyspark.__version__}.",
            todo=instead,
        )
