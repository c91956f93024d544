"""A checkpoint as a whole, with the savepoints beside it."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.ops.inspect.overview import OperatorOverview, checkpoint_show
from holdfast.ops.move.savepoint_file import Savepoint
from holdfast.ui.api.responses import Checkpoints, Retained, SavepointView, StoredOperator
from holdfast.ui.reading.jobs import WatchedJob
from holdfast.ui.reading.savepoints import find_savepoints, folders_beside
from holdfast.ui.reading.texts import cut

__all__ = ["checkpoints_view"]

_LISTED_MAX = 500
_RETAINED_MAX = 2_000
_TEXT_MAX = 1_000


def checkpoints_view(job: WatchedJob, folders: Sequence[str]) -> Checkpoints:
    """What `holdfast checkpoint show` and `holdfast savepoint ls` tell."""
    found = checkpoint_show(None, job.checkpoint)
    places = list(dict.fromkeys([*folders, *folders_beside(job.folder)]))
    savepoints, unusable = find_savepoints(places)
    times = {record.batch: record.at_ms for record in job.tail.history.batches}
    holder = job.holder()
    return Checkpoints(
        checkpoint=_cut(found.checkpoint),
        used_by=None if holder is None else _cut(str(holder)),
        committed=len(found.committed),
        first_committed=found.committed[0] if found.committed else None,
        last_committed=found.committed[-1] if found.committed else None,
        planned=found.planned[:_LISTED_MAX],
        watermark=found.next_watermark or found.watermark,
        retained=[Retained(batch=batch, at_ms=times.get(batch)) for batch in found.retained[-_RETAINED_MAX:]],
        operators=[_operator(operator) for operator in found.operators[:_LISTED_MAX]],
        sizes=dict(found.sizes),
        savepoints=[_savepoint(each, found.query_id) for each in savepoints],
        unusable=[_cut(each) for each in unusable],
        looked_in=[_cut(place) for place in places],
    )


def _operator(operator: OperatorOverview) -> StoredOperator:
    return StoredOperator(
        number=operator.number,
        name=_cut(operator.name),
        steps=[_cut(step) for step in operator.steps[:_LISTED_MAX]],
        partitions=operator.partitions,
        snapshots=len(operator.snapshots),
        changelogs=len(operator.changelogs),
        snapshot_bytes=operator.snapshot_bytes,
        changelog_bytes=operator.changelog_bytes,
    )


def _savepoint(savepoint: Savepoint, query_id: str) -> SavepointView:
    return SavepointView(
        path=_cut(savepoint.path),
        job=None if savepoint.job is None else _cut(savepoint.job),
        batch=savepoint.batch,
        created_at=_cut(savepoint.created_at),
        bytes=savepoint.size,
        is_of_this_job=savepoint.query_id == query_id,
    )


def _cut(text: str) -> str:
    return cut(text, _TEXT_MAX)
