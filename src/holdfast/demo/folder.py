"""The demo's folder: its input, its job's checkpoint, what the job found, and its log."""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from holdfast.errors import InputError

__all__ = ["FILES", "TABLES", "Folder", "Row"]

FILES = 16
"""In how many files the payments come; each is a micro-batch."""
TABLES = ("alerts", "dead_letters")
Row = tuple[str, str | int, str, str]
"""Of a table, as the demo asks for it: time, card or payment, rule, text."""
_DONE = "SELECT count(*) FROM (SELECT batch_id FROM holdfast_batches GROUP BY batch_id HAVING count(*) = ?)"


@dataclass(frozen=True)
class Folder:
    """A folder that the demo has for itself."""

    path: Path

    @staticmethod
    def new(given: Path | None) -> Folder:
        """One that is new and nobody else's, or the given one, if it is empty. Nothing is ever removed."""
        if given is None:
            return Folder(Path(tempfile.mkdtemp(prefix="holdfast-demo-")).resolve())
        path = given.resolve()
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if any(path.iterdir()):
            raise InputError(f"--folder: there is something in {path} already.", todo="give a folder that is new or empty")
        return Folder(path)

    @property
    def input(self) -> Path:
        return self.path / "input"

    @property
    def checkpoint(self) -> Path:
        return self.path / "checkpoint"

    @property
    def database(self) -> Path:
        return self.path / "found.db"

    @property
    def log(self) -> Path:
        return self.path / "job.log"

    def files_done(self) -> int:
        """How many files are in both tables. A last micro-batch may follow that has no file."""
        return min(FILES, self._batches_done())

    def rows(self, query: str) -> list[Row]:
        """What the job found, by a query for the columns of a row."""
        with closing(sqlite3.connect(self.database, timeout=60)) as connection:
            return connection.execute(query).fetchall()

    def log_end(self) -> str:
        """The last lines of the log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-30:])

    def _batches_done(self) -> int:
        if not self.database.exists():
            return 0
        with closing(sqlite3.connect(self.database, timeout=60)) as connection:
            try:
                return int(connection.execute(_DONE, (len(TABLES),)).fetchone()[0])
            except sqlite3.OperationalError:
                # The tables are not made yet.
                return 0
