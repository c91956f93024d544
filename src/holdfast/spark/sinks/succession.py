"""Whether the newest micro-batch that a table has of a query is the one before this checkpoint's next.

A savepoint can be restored several times, each time with the id of its query. Then several jobs have the same query id, and
to a table the micro-batches of one look like those of the other. They have the same numbers, but were planned differently.
So a job that should have been stopped is told apart from the one that has taken over its table.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from holdfast.errors import SinkError
from holdfast.spark.sinks.base import BatchInfo

__all__ = ["TAKEN_OVER", "TAKE_OVER_AGAIN", "Succession", "other_job", "was_taken_back"]

TAKEN_OVER = " This sink has begun before, and takes over only then: what has come since may be another job's."
TAKE_OVER_AGAIN = "see that no other job with this query id runs; then make a new sink with take_over=True, and start again"


class Succession:
    """What a sink remembers of the micro-batch that it wrote last."""

    def __init__(self) -> None:
        self._query_id: str | None = None
        self._last: Hashable = None

    def has_begun(self, query_id: str | None) -> bool:
        """Whether the sink has written a micro-batch of this query, be it before the job was started again."""
        return query_id is not None and query_id == self._query_id

    def start_again(self) -> None:
        """The job starts. Since it last ended, others may have gone on with the checkpoint."""
        self._last = None

    def wrote(self, query_id: str, last: Hashable) -> None:
        """Notes what the table has from now on as the newest of this query."""
        self._query_id, self._last = query_id, last

    def check(self, sink: object, info: BatchInfo, number: int, last: Hashable, is_planned: Callable[[], bool]) -> None:
        """Raises SinkError if `last`, the newest micro-batch that the table has of this query, is another job's. `number` is
        its number, and `is_planned` tells whether this checkpoint has planned it so, or does not know any more."""
        if is_planned() if self._last is None else self._last == last:
            return
        raise other_job(sink, info, number)


def was_taken_back(info: BatchInfo, last: int, first: int, is_of: Callable[[str], bool]) -> bool:
    """Whether rows of this checkpoint, between `last`, the newest micro-batch that a table has of this query, and the next
    one, were removed by a job that took over. `first` is the number of the first that was removed, and `is_of` tells whether
    it was planned so.

    A job that took over may have written a single micro-batch, which its savepoint had as planned. It is then planned as in
    the old job's checkpoint, and does not tell the two apart. Whoever had rows that were removed had the first of them."""
    return last < first < info.batch_id and is_of(info.planned(first))


def other_job(sink: object, info: BatchInfo, number: int) -> SinkError:
    """For a micro-batch with a number below the next one's, which this checkpoint has planned otherwise."""
    return SinkError(
        f"{sink!r} has micro-batch {number} of another job with the same query id; {info.batch_id} of this one comes next.",
        detail="A savepoint of this job was restored, and that job has taken over. Their rows would be mixed.",
        todo="let only one of the two go on; to run both, restore the savepoint with --new-query-id, and give each a place "
        "of its own. If this checkpoint was restored and then rescaled, restore it with --partitions instead: rescaling "
        "takes the number of a micro-batch",
        context={"query": info.query_id, "micro_batch": info.batch_id},
    )
