"""Opens and creates a Delta table, and tells in our words what deltalake has to say."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.errors import HoldfastError, SinkError
from holdfast.model.extras import require_extra
from holdfast.spark.sinks.delta_history import NoWayBack
from holdfast.spark.sinks.delta_notes import Written, noted_commit, written
from holdfast.spark.sinks.delta_storage import Storage

if TYPE_CHECKING:
    from deltalake import DeltaTable

__all__ = ["Conflict", "TableAccess", "columns_of", "require_deltalake"]

_ATTEMPTS = 10


def require_deltalake(what: str) -> None:
    """Raises MissingExtra unless there is a version of deltalake that can be trusted. With 1.0, an append follows whatever
    was committed meanwhile, even the same micro-batch; 1.1 does not find tables again whose path has a # or a ?."""
    require_extra("delta", "deltalake", (1, 2), what)


class Conflict(Exception):
    """Somebody else has committed to the table at the same time."""


@dataclass(frozen=True)
class TableAccess:
    """A table that may not exist yet. Its methods are for use in `attempt`."""

    storage: Storage
    sink: str
    """How messages call it."""

    def attempt(self, do: Callable[[], None]) -> None:
        """Does something to the table, and again if somebody else was faster."""
        last = ""
        for _ in range(_ATTEMPTS):
            try:
                with self._in_our_words():
                    return do()
            except Conflict as conflict:
                last = str(conflict)
        raise SinkError(
            f"{self.sink} could not be written: others keep committing to it: {last}.",
            detail="Nothing of the micro-batch is in the table.",
            todo="start the job again; let others write less often, or to another table",
        )

    @contextmanager
    def _in_our_words(self) -> Iterator[None]:
        """deltalake's errors as ours. They are not kept as the cause: they may show secrets."""
        from deltalake.exceptions import CommitFailedError

        try:
            yield
        except (HoldfastError, Conflict):
            raise
        except CommitFailedError as error:
            raise Conflict(self.storage.cleaned(str(error))) from None
        except BaseException as error:
            # What Rust calls a panic is, in Python, no Exception.
            if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
                raise
            raise SinkError(
                f"{self.sink} could not be written: {self.storage.cleaned(str(error))}.",
                todo="check that the table can be reached and written, with the storage options and credentials given",
            ) from None

    def existing(self) -> DeltaTable | None:
        from deltalake.exceptions import TableNotFoundError

        self._check_directory()
        try:
            return self.at(None)
        except TableNotFoundError:
            return None

    def at(self, version: int | None) -> DeltaTable:
        """A version of the table; None: the newest."""
        from deltalake import DeltaTable

        return DeltaTable(self.storage.uri, version=version, storage_options=self.storage.options())

    def go_back(
        self, table: DeltaTable, version: int, after: int, query_id: str, check: Callable[[Written], None]
    ) -> Written:
        """Makes an older version the newest, or raises NoWayBack. Returns what it has of the query, after `check` had a look
        at it. `after` is a version before which all stays, or comes again as it was."""
        from deltalake.exceptions import CommitFailedError, DeltaError

        try:
            state = written(self.at(version), query_id)
            check(state)
            removed = written(self.at(after + 1), query_id) if after < table.version() else None
            table.restore(version, commit_properties=noted_commit(query_id, state, removed=removed))
            return state
        except CommitFailedError:
            raise
        except DeltaError as error:
            raise NoWayBack(f"version {version} is no longer there: {self.storage.cleaned(str(error))}") from None

    def created(
        self, fields: Sequence[Mapping[str, Any]], partition_by: Sequence[str], properties: Mapping[str, str]
    ) -> DeltaTable:
        from deltalake import CommitProperties, DeltaTable, Schema

        try:
            return DeltaTable.create(
                self.storage.uri,
                Schema.from_json(json.dumps({"type": "struct", "fields": fields})),
                partition_by=list(partition_by),
                configuration=dict(properties),
                storage_options=self.storage.options(),
                # Otherwise, of two that create it at the same time, the second would replace what the first has made.
                commit_properties=CommitProperties(max_commit_retries=0),
                raise_if_key_not_exists=False,
            )
        except Exception:
            if self.existing() is None:
                raise
            raise Conflict("another has just created it") from None

    def _check_directory(self) -> None:
        local = self.storage.local
        if local is None or not local.exists():
            return
        if not local.is_dir():
            raise SinkError(f"{self.sink} is a file; the sink needs a directory.", todo="give another path")
        if any(local.iterdir()) and not (local / "_delta_log").is_dir():
            raise SinkError(
                f"{self.sink} is a directory with files of something else, and no Delta table.",
                detail="A table made there would take them for files of its own that are no longer needed.",
                todo="give another path, or an empty directory",
            )


def columns_of(table: DeltaTable) -> list[dict[str, Any]]:
    """The columns of a table, as in its log."""
    fields: list[dict[str, Any]] = json.loads(table.schema().to_json())["fields"]
    return fields
