"""Runs a script as `python` would, but reports Holdfast's errors without a traceback.

The script runs in this process, so signals reach its job directly and its exit code is ours.
"""

from __future__ import annotations

import builtins
import contextlib
import os
import sys
import traceback
import types
from collections.abc import Iterator
from pathlib import Path

from holdfast.cli.output import report_error
from holdfast.errors import HoldfastError
from holdfast.model.extras import as_missing_extra

__all__ = ["run_script"]

_INTERRUPTED = 130


def run_script(script: str, arguments: list[str]) -> int:
    """Runs a script as `__main__` and returns the exit code that `python` would."""
    try:
        source = Path(script).read_bytes()
    except OSError as error:
        raise HoldfastError(f"The script {script!r} cannot be read: {error.strerror}.") from None
    try:
        with _as_main(script, arguments) as module:
            exec(compile(source, script, "exec", dont_inherit=True), module.__dict__)
    except SystemExit as end:
        return _exit_code(end)
    except KeyboardInterrupt:
        return _INTERRUPTED
    except HoldfastError as error:
        report_error(error, as_json=False)
        return 1
    except BaseException as error:
        _show(error, script)
        missing = as_missing_extra(error, "The script")
        if missing is not None:
            report_error(missing, as_json=False)
        return 1
    return 0


@contextlib.contextmanager
def _as_main(script: str, arguments: list[str]) -> Iterator[types.ModuleType]:
    """A module that is `__main__`, with the script's own `sys.argv` and `sys.path`."""
    module = types.ModuleType("__main__")
    module.__dict__.update(__file__=script, __builtins__=builtins, __cached__=None, __loader__=None)
    before = sys.modules["__main__"], sys.argv, list(sys.path)
    path = sys.path[1:] if sys.path[:1] == [os.path.dirname(os.path.abspath(sys.argv[0]))] else sys.path
    sys.modules["__main__"], sys.argv = module, [script, *arguments]
    sys.path[:] = [os.path.dirname(os.path.realpath(script)), *path]
    try:
        yield module
    finally:
        sys.modules["__main__"], sys.argv, sys.path[:] = before


def _exit_code(end: SystemExit) -> int:
    if end.code is None:
        return 0
    if isinstance(end.code, int):
        return end.code
    sys.stderr.write(f"{end.code}\n")
    return 1


def _show(error: BaseException, script: str) -> None:
    """The traceback as `python` shows it, from the script on. A script that does not compile has no frames."""
    frame = error.__traceback__
    while frame is not None and frame.tb_frame.f_code.co_filename != script:
        frame = frame.tb_next
    traceback.print_exception(type(error), error, frame)
