"""What a Delta table itself says of the micro-batches in it. All of it is in the table's log:

    txn holdfast/<query>/micro-batch    the number of the query's newest micro-batch with rows; -1: none
    txn holdfast/<query>/plan           a digest of its plan, in 63 bits; 0: unknown
    txn holdfast/<query>/taken back     the number of the first micro-batch after its own that a take-over has removed
    txn holdfast/<query>/its plan       and a digest of its plan
    commitInfo.holdfast                 {"query": "…", "micro_batch": n}: which commit is whose, to find the way back
    the property holdfast.upsert        {"format": 1, "key": ["…"], "query": "…"}: the table is upserted, and whose it is

Invariants
- The rows of a micro-batch and both of its transaction ids are one commit.
- Of two commits with the same transaction id that began with the same version of the table, one fails.
- deltalake keeps the newest of each transaction id for ever, also where older commits are removed from the log: ids
  without a time, as these, do not expire.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.errors import SinkError
from holdfast.spark.sinks.base import BatchInfo

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable

__all__ = ["UPSERT", "Upserted", "Written", "noted_commit", "noted_query", "taken_back", "written"]

UPSERT = "holdfast.upsert"
_NOTE = "holdfast"


@dataclass(frozen=True)
class Written:
    """The newest micro-batch of a query in a table."""

    number: int = -1
    plan: int = 0

    @classmethod
    def of(cls, info: BatchInfo) -> Written:
        return cls(info.batch_id, _digest(info.plan))

    def is_same(self, other: Written) -> bool:
        """Whether it is the same micro-batch, and not only the same number. What is unknown counts as the same."""
        return self.number == other.number and (self.plan == other.plan or 0 in (self.plan, other.plan))

    def is_of(self, plan: str) -> bool:
        """Whether it was planned so. What is unknown counts as the same."""
        return not plan or self.plan in (0, _digest(plan))

    def is_surely_of(self, plan: str) -> bool:
        """Whether it was planned so, which is known."""
        return bool(plan) and self.plan == _digest(plan)


def _digest(plan: str) -> int:
    if not plan:
        return 0
    digest = hashlib.blake2b(plan.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1 or 1


def _ids(query_id: str) -> tuple[str, str]:
    return f"holdfast/{query_id}/micro-batch", f"holdfast/{query_id}/plan"


def _ids_taken_back(query_id: str) -> tuple[str, str]:
    return f"holdfast/{query_id}/taken back", f"holdfast/{query_id}/its plan"


def written(table: DeltaTable, query_id: str) -> Written:
    """What a version of a table has of a query."""
    return _noted(table, _ids(query_id))


def taken_back(table: DeltaTable, query_id: str) -> Written:
    """The first of a query's micro-batches that the last take-over has removed, but for the one that it wrote itself."""
    return _noted(table, _ids_taken_back(query_id))


def _noted(table: DeltaTable, ids: tuple[str, str]) -> Written:
    number, plan = (table.transaction_version(name) for name in ids)
    return Written() if number is None else Written(number, plan or 0)


def noted_commit(
    query_id: str,
    state: Written | None,
    *,
    micro_batch: int | None = None,
    removed: Written | None = None,
    retries: int | None = 0,
) -> CommitProperties:
    """The properties of a commit of a query, after which `state` is what the table has of it; None: as before. `removed` is
    the first that is removed by it.

    Without `retries` it fails if anybody has committed since the table was read. With None it is up to deltalake whether
    the two go together.
    """
    from deltalake import CommitProperties, Transaction

    note = {"query": query_id} if micro_batch is None else {"query": query_id, "micro_batch": micro_batch}
    noted: dict[str, int] = {}
    if state is not None:
        noted |= zip(_ids(query_id), (state.number, state.plan), strict=True)
    if removed is not None:
        noted |= zip(_ids_taken_back(query_id), (removed.number, removed.plan), strict=True)
    ids = [Transaction(name, value) for name, value in noted.items()] or None
    return CommitProperties(custom_metadata={_NOTE: json.dumps(note)}, max_commit_retries=retries, app_transactions=ids)


def noted_query(commit: dict[str, Any]) -> tuple[str | None, int | None]:
    """Which query made a commit of a table's history, and for which micro-batch, if it was one of ours."""
    try:
        note = json.loads(commit[_NOTE])
        number = note.get("micro_batch")
        return str(note["query"]), None if number is None else int(number)
    except (KeyError, TypeError, ValueError, AttributeError):
        return None, None


@dataclass(frozen=True)
class Upserted:
    """That a table is upserted: by which key, and for which query. None until its first micro-batch."""

    key: tuple[str, ...]
    query_id: str | None = None

    @classmethod
    def of(cls, table: DeltaTable, sink: str) -> Upserted | None:
        content = table.metadata().configuration.get(UPSERT)
        if content is None:
            return None
        try:
            read = json.loads(content)
            return cls(tuple(map(str, read["key"])), None if read["query"] is None else str(read["query"]))
        except (KeyError, TypeError, ValueError):
            raise SinkError(
                f"{sink} has the property {UPSERT}, but it is damaged: it does not say how the table is upserted.",
                todo="give another table",
            ) from None

    @property
    def property(self) -> dict[str, str]:
        return {UPSERT: json.dumps({"format": 1, "key": sorted(self.key), "query": self.query_id})}
