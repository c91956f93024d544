"""Fetching the jars of a connector from a Maven repository, once: `holdfast jars kafka`.

Invariants
- A file has its name only if its digest is right; whatever happens while it is fetched, nothing else gets that name.
- Nothing is asked of the network for a file that is there and right.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import os
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from holdfast.errors import HoldfastError
from holdfast.spark.session.connectors import Jar, connector_folder, connector_jars

__all__ = ["REPOSITORY", "JarFile", "Jars", "jars"]

REPOSITORY = "HOLDFAST_MAVEN_REPOSITORY"
"""The environment variable that names another repository than Maven Central."""
_CENTRAL = "https://repo1.maven.org/maven2"
_SECONDS_MAX = 60
_PIECE_BYTES = 1 << 16

Report = Callable[[int, int], None]
"""Called with how many bytes are done, and the total."""


@dataclass(frozen=True)
class JarFile:
    """A jar, and what is known of its file."""

    name: str
    path: str
    status: str
    """`there`, `fetched` or `missing`; `damaged` if what is there has another digest."""


@dataclass(frozen=True)
class Jars:
    """The jars of a connector."""

    connector: str
    folder: str
    files: list[JarFile]

    @property
    def is_complete(self) -> bool:
        return all(file.status in ("there", "fetched") for file in self.files)

    @property
    def setting(self) -> str:
        """The value of Spark's setting `spark.jars`."""
        return ",".join(Path(file.path).as_uri() for file in self.files)


def jars(
    connector: str = "kafka",
    *,
    repository: str | None = None,
    fetch: bool = True,
    report: Report | None = None,
) -> Jars:
    """The jars of a connector for the installed Spark; those that are missing or damaged are fetched.

    `repository` is the URL of a Maven repository; if None, that of the environment variable HOLDFAST_MAVEN_REPOSITORY, or
    else Maven Central. With `fetch=False` it is only looked at what is there. `report` is called with the bytes that are
    done, and all of them. Raises HoldfastError if a jar cannot be fetched, or is not what it should be.
    """
    wanted, folder = connector_jars(connector), connector_folder(connector)
    base = _checked(repository or os.environ.get(REPOSITORY) or _CENTRAL)
    total, done = sum(jar.size_bytes for jar in wanted), 0
    found = []
    for jar in wanted:
        path = folder / jar.file
        status = _status(path, jar)
        if status != "there" and fetch:
            _fetch(f"{base}/{jar.path}", path, jar, _counting(report, done, total))
            status = "fetched"
        found.append(JarFile(jar.file, str(path), status))
        done += jar.size_bytes
        if report is not None:
            report(done, total)
    return Jars(connector, str(folder), found)


def _counting(report: Report | None, before: int, total: int) -> Callable[[int], None]:
    """Reports what was got of one file as a part of the whole."""
    return lambda got: None if report is None else report(before + got, total)


def _status(path: Path, jar: Jar) -> str:
    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    except FileNotFoundError:
        return "missing"
    return "there" if digest == jar.sha256 else "damaged"


def _checked(repository: str) -> str:
    parts = urllib.parse.urlsplit(repository)
    if parts.scheme not in ("https", "http", "file") or not (parts.hostname or parts.scheme == "file"):
        raise HoldfastError(
            "The repository is no URL that files can be fetched from.",
            todo="give the address of a Maven repository that begins with https://, or leave it out",
        )
    return repository.rstrip("/")


def _fetch(url: str, path: Path, jar: Jar, report: Callable[[int], None]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor, made = tempfile.mkstemp(prefix=f".{jar.file}-", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            digest = _copy(url, file.write, jar, report)
            file.flush()
            os.fsync(file.fileno())
        if digest != jar.sha256:
            raise HoldfastError(
                f"{jar.file} from {_shown(url)} is not the file that it should be: its SHA-256 is {digest}.",
                detail=f"It should be {jar.sha256}. Nothing was kept of it.",
                todo="try again, or name another repository with --repository",
            )
        os.replace(made, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(made)


def _copy(url: str, write: Callable[[bytes], object], jar: Jar, report: Callable[[int], None]) -> str:
    """Copies what is at the URL, and gives its digest. No more than one byte too much is ever taken."""
    digest, got = hashlib.sha256(), 0
    try:
        with urllib.request.urlopen(url, timeout=_SECONDS_MAX) as answer:
            while piece := answer.read(min(_PIECE_BYTES, jar.size_bytes + 1 - got)):
                digest.update(piece)
                write(piece)
                got += len(piece)
                report(min(got, jar.size_bytes))
    except (OSError, http.client.HTTPException) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        raise HoldfastError(
            f"{jar.file} could not be fetched from {_shown(url)}: {reason}.",
            todo=f"check the network, or name a mirror with --repository URL or the environment variable {REPOSITORY}",
        ) from None
    return digest.hexdigest()


def _shown(url: str) -> str:
    """A URL without what may be secret in it."""
    parts = urllib.parse.urlsplit(url)
    port = "" if parts.port is None else f":{parts.port}"
    return f"{parts.scheme}://{parts.hostname or ''}{port}{parts.path}"
