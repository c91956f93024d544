"""Where a Delta table is, and how it is reached, without telling anybody the credentials."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from holdfast.checkpoint.files.paths import local_path
from holdfast.engine.stored.words import without_secrets
from holdfast.errors import InvalidStep, SinkError

__all__ = ["Storage"]

_SECRET = re.compile(r"key|secret|token|password|credential|sas|account", re.IGNORECASE)
"""Names of options whose values are not shown."""
_SECRET_MIN = 4
"""Shorter ones are found in every other word."""
_ENVIRONMENT = re.compile(r"(AWS|AZURE|GOOGLE|GCP)_\w*(KEY|SECRET|TOKEN|PASSWORD|SAS)\w*", re.IGNORECASE)
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_BACKTRACE = re.compile(r"\s+0: <unknown>.*", re.DOTALL)
_TEXT_MAX = 1000
# With these in a local path, deltalake writes to one place and reads from another, or ends the process.
_UNUSABLE = re.compile(r"[%\\\[\]|\x00-\x1f\x7f]")


class Storage:
    """The address of a table and the options of its storage. Neither its repr nor `cleaned` texts show secrets."""

    def __init__(self, path: str | Path, options: Mapping[str, str] | None, options_file: str | Path | None) -> None:
        problems = [*_path_problems(path), *_option_problems(options, options_file)]
        if problems:
            raise InvalidStep.of("Delta", problems)
        local = local_path(str(path))
        self.local = None if local is None else Path(os.path.abspath(local))
        self.uri = str(path).rstrip("/") if self.local is None else str(self.local)
        self._options = dict(options or {})
        self._file = options_file

    @property
    def place(self) -> str:
        """The same for the same table, however its path is written."""
        return self.uri.replace("s3a://", "s3://", 1) if self.local is None else os.path.realpath(self.local)

    def __repr__(self) -> str:
        return f"Storage({without_secrets(self.uri)!r})"

    def options(self) -> dict[str, str] | None:
        """For deltalake. A file is read each time: what it says may change while a job runs."""
        if self._file is None:
            return dict(self._options) or None
        try:
            read = json.loads(Path(self._file).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            what = error.strerror if isinstance(error, OSError) else "it is not JSON"
            raise self._bad_file(str(what)) from None
        if not isinstance(read, dict) or not all(isinstance(value, str) for value in read.values()):
            raise self._bad_file("it is not an object of texts")
        return {**self._options, **read} or None

    def _bad_file(self, what: str) -> SinkError:
        return SinkError(
            f"The storage options in {str(self._file)!r} could not be read: {what}.",
            todo='give a JSON file such as {"aws_region": "eu-central-1"}, which this process may read',
        )

    def cleaned(self, text: str) -> str:
        """A message of deltalake's in one line, without colours, backtraces and secrets."""
        told = " ".join(_BACKTRACE.sub("", _COLOURS.sub("", text)).replace("↳", " ").split())
        for secret in sorted(self._secrets(), key=len, reverse=True):
            told = told.replace(secret, "…")
        return without_secrets(told)[:_TEXT_MAX].rstrip(".")

    def _secrets(self) -> Iterator[str]:
        try:
            options = self.options() or {}
        except SinkError:
            options = self._options
        yield from (value for name, value in options.items() if _SECRET.search(name) and len(value) >= _SECRET_MIN)
        yield from (
            value for name, value in os.environ.items() if _ENVIRONMENT.fullmatch(name) and len(value) >= _SECRET_MIN
        )


def _path_problems(path: Any) -> Iterator[str]:
    if not isinstance(path, (str, Path)) or not str(path):
        yield f"path is {path!r}; give the directory or the address of the table."
        return
    if local_path(str(path)) is None:
        if without_secrets(str(path)) != str(path) or "?" in str(path):
            shown = without_secrets(str(path))
            yield f"The path {shown!r} has credentials in it, which messages would show; put them into storage_options."
        return
    unusable = _UNUSABLE.search(os.path.abspath(str(local_path(str(path)))))
    if unusable:
        yield f"The path {str(path)!r} has the character {unusable[0]!r} in it, which deltalake cannot handle; give another."


def _option_problems(options: Any, options_file: Any) -> Iterator[str]:
    if options is not None and not (
        isinstance(options, Mapping) and all(isinstance(part, str) for pair in options.items() for part in pair)
    ):
        # Not shown: it may hold secrets.
        yield "storage_options is no mapping of texts to texts."
    if options_file is not None and not isinstance(options_file, (str, Path)):
        yield "storage_options_file is no path."
