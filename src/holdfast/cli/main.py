"""`holdfast`: the commands, and how errors are reported.

Exit codes: 0 success, 1 failure (a sentence says why), 2 wrong usage; `health` also has 3 for a warning and 4 for what is
critical. A command that fails changes nothing, except that a
`stop` that times out leaves its request.
"""

from __future__ import annotations

import gc
import importlib
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import typer

__all__ = ["commands", "main", "run"]

_OBJECTS_BETWEEN = 50_000
"""How many more objects there must be before garbage is looked for. Python's own number makes imports slower by a tenth."""
_FILES = (
    "checkpoint",
    "demo",
    "doctor",
    "health",
    "jars",
    "jobs",
    "learn",
    "new",
    "savepoint",
    "sizing",
    "state",
    "top",
    "ui",
)
"""Each adds its commands, in this order. A file of one command, or one group, has its name."""


def commands(word: str | None = None) -> typer.Typer:
    """The command line with all commands; or with those of the file that has the name of the first word, if there is one: to
    import the others takes as long as to look at a key. The version needs none of them."""
    from holdfast.cli.app import app

    for name in () if word == "--version" else [word] if word in _FILES else _FILES:
        importlib.import_module(f"holdfast.cli.{name}")
    return app


def main(arguments: list[str] | None = None) -> int:
    """Runs a command and returns its exit code."""
    from holdfast.cli.output import report_error
    from holdfast.errors import HoldfastError
    from holdfast.model.extras import as_missing_extra

    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        commands(arguments[0] if arguments else None)(args=arguments, prog_name="holdfast")
    except SystemExit as end:
        # The command-line library's own exit code: 2 for wrong usage, 1 for a command that found a problem.
        return end.code if isinstance(end.code, int) else 0
    except HoldfastError as error:
        report_error(error, "--json" in arguments)
    except KeyboardInterrupt:
        report_error(HoldfastError("Stopped."), "--json" in arguments)
    except ModuleNotFoundError as error:
        missing = as_missing_extra(error, "This command")
        if missing is None:
            raise
        report_error(missing, "--json" in arguments)
    except OSError as error:
        what = f"{error.strerror or error}: {error.filename}" if error.filename else str(error)
        report_error(HoldfastError(what), "--json" in arguments)
    except Exception as error:
        # From a remote file system: Hadoop's message without its stack trace.
        if type(error).__name__ != "Py4JJavaError":
            raise
        from holdfast.spark.errors.failures import first_cause

        report_error(HoldfastError(first_cause(str(error))), "--json" in arguments)
    return 1


def run() -> None:
    """Runs the command of this process, and ends it."""
    gc.set_threshold(_OBJECTS_BETWEEN)
    code = main()
    # The process ends: what is left need not be looked through once more.
    gc.freeze()
    sys.exit(code)
