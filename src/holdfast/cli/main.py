"""`holdfast`: the commands, and what becomes of errors.

Exit codes: 0 done, 1 it could not be done (a sentence says why), 2 the command line is wrong. A command that fails alters
nothing, except that a `stop` which ran out of time leaves its request.
"""

from __future__ import annotations

import sys

from holdfast.cli import checkpoint, doctor, jobs, savepoint, sizing, state  # noqa: F401 - each adds its commands
from holdfast.cli.app import app
from holdfast.cli.output import report_error
from holdfast.errors import HoldfastError
from holdfast.model.extras import as_missing_extra

__all__ = ["main", "run"]


def main(arguments: list[str] | None = None) -> int:
    """Runs a command; gives its exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        app(args=arguments, prog_name="holdfast")
    except SystemExit as end:
        # What the command line's own library ends with: wrong usage is 2, a command that found something amiss is 1.
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
        # Of a file system that is not local: what Hadoop says, without where it says it.
        if type(error).__name__ != "Py4JJavaError":
            raise
        from holdfast.spark.errors.failures import first_cause

        report_error(HoldfastError(first_cause(str(error))), "--json" in arguments)
    return 1


def run() -> None:
    sys.exit(main())
