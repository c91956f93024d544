"""Files of this machine, without Spark.

Hadoop's local file system keeps a `.name.crc` beside each file and refuses to read what does not match it: those are
neither listed nor copied, and are removed together with their files.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
import stat
import tempfile
import uuid
import weakref
from pathlib import Path

from holdfast.checkpoint.files.access import BLOCK_BYTES, FileInfo, Files
from holdfast.checkpoint.files.paths import join, local_path
from holdfast.errors import CheckpointError

__all__ = ["LocalFiles", "temporary_folder"]

_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
"""The errors of file systems without hard links."""
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)


def _sync(path: str) -> None:
    opened = os.open(path, os.O_RDONLY | _NO_FOLLOW)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _checksum(path: Path) -> Path:
    return path.with_name(f".{path.name}.crc")


class LocalFiles(Files):
    appends_in_place = True
    needs_spark = False

    def read(self, path: str) -> bytes | None:
        try:
            return self._path(path).read_bytes()
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None

    def write(self, path: str, content: bytes) -> None:
        local = self._path(path)
        partial = self._written_beside(local, content)
        try:
            partial.replace(local)
        except OSError as error:
            partial.unlink(missing_ok=True)
            if local.is_dir():
                raise CheckpointError(f"{path!r} is a directory, not a file.") from error
            raise
        _checksum(local).unlink(missing_ok=True)

    def append(self, path: str, content: bytes) -> None:
        local = self._path(path)
        local.parent.mkdir(parents=True, exist_ok=True)
        with open(os.open(local, os.O_WRONLY | os.O_APPEND | os.O_CREAT | _NO_FOLLOW, 0o666), "ab", buffering=0) as file:
            file.write(content)

    def create(self, path: str, content: bytes) -> bool:
        local = self._path(path)
        partial = self._written_beside(local, content)
        try:
            os.link(partial, local)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            return self._created_in_place(local, content)
        finally:
            partial.unlink()
        return True

    def entries(self, path: str) -> list[FileInfo] | None:
        local = self._path(path)
        # A running job may remove anything at any time.
        try:
            names = sorted(os.listdir(local))
        except (FileNotFoundError, NotADirectoryError):
            return None
        found = []
        for name in names:
            if not (name.startswith(".") and name.endswith(".crc")):
                with contextlib.suppress(FileNotFoundError):
                    found.append(self._info(os.path.join(local, name), join(path, name)))
        return found

    def info(self, path: str) -> FileInfo | None:
        local = self._path(path)
        if local.exists():
            with contextlib.suppress(FileNotFoundError):
                return self._info(str(local), path)
        return None

    def make_directory(self, path: str) -> None:
        self._path(path).mkdir(parents=True, exist_ok=True)

    def move(self, path: str, to: str) -> None:
        local, target = self._path(path), self._path(to)
        if target.exists():
            raise FileExistsError(to)
        target.parent.mkdir(parents=True, exist_ok=True)
        local.rename(target)
        if _checksum(local).exists():
            _checksum(local).rename(_checksum(target))

    def remove(self, path: str) -> None:
        local = self._path(path)
        if local.is_dir():
            shutil.rmtree(local)
        else:
            local.unlink(missing_ok=True)
            _checksum(local).unlink(missing_ok=True)

    def links(self, path: str) -> list[str]:
        found = []
        for folder, folders, names in os.walk(self._path(path)):
            below = os.path.relpath(folder, self._path(path))
            here = path if below == "." else join(path, below)
            found += [join(here, name) for name in (*folders, *names) if os.path.islink(os.path.join(folder, name))]
        return sorted(found)

    def copy(self, path: str, to: str) -> None:
        target = self._path(to)
        target.parent.mkdir(parents=True, exist_ok=True)
        with open(os.open(self._path(path), os.O_RDONLY | _NO_FOLLOW), "rb") as source, target.open("wb") as copy:
            shutil.copyfileobj(source, copy, BLOCK_BYTES)
        _checksum(target).unlink(missing_ok=True)

    def make_durable(self, path: str) -> None:
        for folder, _, names in os.walk(self._path(path)):
            for name in names:
                _sync(os.path.join(folder, name))
            # Some file systems cannot do this, and need not.
            with contextlib.suppress(OSError):
                _sync(folder)

    def sha256(self, path: str) -> str:
        digest = hashlib.sha256()
        with self._path(path).open("rb") as file:
            while block := file.read(BLOCK_BYTES):
                digest.update(block)
        return digest.hexdigest()

    def side_checksums(self, path: str) -> bytes | None:
        return self.read(str(_checksum(self._path(path))))

    @staticmethod
    def _path(path: str) -> Path:
        local = local_path(path)
        assert local is not None, path
        return local

    @staticmethod
    def _info(local: str, path: str) -> FileInfo:
        status = os.stat(local)
        return FileInfo(os.path.basename(local), path, status.st_size, stat.S_ISDIR(status.st_mode), status.st_mtime)

    @staticmethod
    def _created_in_place(local: Path, content: bytes) -> bool:
        """For file systems without hard links: only one can create the file, but it is visible before it is whole."""
        try:
            with local.open("xb") as file:
                file.write(content)
        except FileExistsError:
            return False
        return True

    @staticmethod
    def _written_beside(local: Path, content: bytes) -> Path:
        local.parent.mkdir(parents=True, exist_ok=True)
        # Nobody can have put a link there: the name is unpredictable, and the file must be new.
        partial = local.with_name(f".{local.name}.{uuid.uuid4().hex}.tmp")
        try:
            with partial.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            partial.unlink(missing_ok=True)
            raise
        return partial


def temporary_folder(owner: object, prefix: str) -> Path:
    """A new folder that is removed together with its owner, or at the latest when the process ends."""
    folder = tempfile.mkdtemp(prefix=prefix)
    weakref.finalize(owner, shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)
