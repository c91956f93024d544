"""The requests that the API takes. Every parameter has a bound, and jobs are named by their ids alone.

A request that needs files runs in a thread, so that others do not wait for it. Those that read state, which may take long,
have few threads of their own, so that however many there are, the others still find one.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, ParamSpec, TypeVar
from urllib.parse import unquote

import anyio
from fastapi import APIRouter, HTTPException, Path, Query, Request
from starlette.responses import StreamingResponse

from holdfast.ui.api.checkpoint_views import checkpoints_view
from holdfast.ui.api.job_views import Doctor, keys_view
from holdfast.ui.api.live import News
from holdfast.ui.api.responses import (
    Checkpoints,
    JobView,
    KeyLife,
    Keys,
    KeyState,
    KeyTotal,
    Problem,
    RowPage,
    StepStates,
)
from holdfast.ui.api.responses import Jobs as JobList
from holdfast.ui.api.series import POINTS_MAX, Series, series_of
from holdfast.ui.api.state_views import KEYS_MAX, key_life, key_state, row_page, step_states
from holdfast.ui.reading.graph import Graph, read_graph
from holdfast.ui.reading.jobs import Jobs, WatchedJob

__all__ = ["api_routes"]

P = ParamSpec("P")
R = TypeVar("R")

_BATCH_MAX = 2**62
_AT_ONCE_MAX = 4
"""Of requests that read state."""

JobId = Annotated[str, Path(max_length=40, description="The job's id, as /api/jobs tells it.")]
StepName = Annotated[str, Query(max_length=1_000, description="The step's name.")]
Key = Annotated[str, Query(max_length=6_000, description="The key as text; several columns as a JSON list.")]
Batch = Annotated[int | None, Query(ge=0, lt=_BATCH_MAX, description="A retained micro-batch; the last if it is left out.")]
Prefix = Annotated[str, Query(max_length=1_000, description="Only keys whose text begins with this.")]

_PROBLEMS: dict[int | str, dict[str, object]] = {
    404: {"model": Problem, "description": "There is no such job, micro-batch, step or key."},
    409: {"model": Problem, "description": "It cannot be read: it is damaged, or is being changed."},
}


def api_routes(jobs: Jobs, doctor: Doctor, news: News, savepoint_folders: Sequence[str]) -> APIRouter:
    """All of the API, over these jobs."""
    router = APIRouter(prefix="/api", responses=_PROBLEMS)
    find, apart = _finder(jobs), _Apart()
    _add_jobs(router, jobs, doctor, news)
    _add_history(router, find, doctor)
    _add_checkpoints(router, find, savepoint_folders, apart)
    _add_state(router, find, apart)
    _add_queryable(router, jobs, find, apart)
    return router


class _Apart:
    """Runs functions in threads of their own, a few at a time."""

    def __init__(self) -> None:
        self._limiter = anyio.CapacityLimiter(_AT_ONCE_MAX)

    def __call__(self, function: Callable[P, R]) -> Callable[P, Awaitable[R]]:
        @functools.wraps(function)
        async def run(*given: P.args, **named: P.kwargs) -> R:
            return await anyio.to_thread.run_sync(functools.partial(function, *given, **named), limiter=self._limiter)

        return run


def _finder(jobs: Jobs) -> Callable[[str], WatchedJob]:
    def find(job: str) -> WatchedJob:
        found = jobs.get(job)
        if found is None:
            raise HTTPException(404, "There is no such job.")
        found.tail.refresh()
        return found

    return find


def _add_jobs(router: APIRouter, jobs: Jobs, doctor: Doctor, news: News) -> None:
    @router.get("/jobs", tags=["jobs"])
    def list_jobs() -> JobList:
        """All jobs of this dashboard, each in a few numbers."""
        found = jobs.all()
        for job in found:
            job.tail.refresh()
        return JobList(now_ms=int(time.time() * 1000), jobs=[doctor.summary(job) for job in found])

    @router.get(
        "/events",
        tags=["jobs"],
        response_class=StreamingResponse,
        responses={
            200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}, "description": "Events without end."},
            503: {"model": Problem, "description": "Too many are listening."},
        },
    )
    async def listen() -> StreamingResponse:
        """Server-sent events named "jobs": the version of each job by its id, whenever one changes."""
        if news.is_full:
            raise HTTPException(503, "Too many are listening.")
        return StreamingResponse(news.listen(), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


def _add_history(router: APIRouter, find: Callable[[str], WatchedJob], doctor: Doctor) -> None:
    @router.get("/jobs/{job}", tags=["jobs"])
    def show_job(job: JobId) -> JobView:
        """A job with its health and what happened to it lately."""
        return doctor.view(find(job))

    @router.get("/jobs/{job}/series", tags=["history"])
    def show_series(
        job: JobId,
        since: Annotated[int, Query(ge=-1, lt=_BATCH_MAX, description="Only what came after this micro-batch.")] = -1,
        points: Annotated[int, Query(ge=1, le=POINTS_MAX, description="At most so many points.")] = 600,
        whole: Annotated[bool, Query(description="The whole history, neighbours merged if there are too many.")] = False,
    ) -> Series:
        """The history as columns: rates, durations, state, timers, watermarks."""
        tail = find(job).tail
        # First: if another reads on meanwhile, whoever asks is told so the next time.
        rewrites = tail.rewrites
        return series_of(tail.history.batches, tail.version, rewrites, since=since, points=points, whole=whole)

    @router.get("/jobs/{job}/keys", tags=["history"])
    def show_keys(
        job: JobId,
        step: Annotated[str | None, Query(max_length=1_000, description="The first step if it is left out.")] = None,
        batch: Batch = None,
    ) -> Keys:
        """Key groups, and the busiest and largest keys, of a step in a micro-batch."""
        return keys_view(find(job).tail.history, step, batch)

    @router.get("/jobs/{job}/graph", tags=["jobs"])
    def show_graph(job: JobId) -> Graph:
        """Sources, steps and sinks, and the edges between them."""
        return read_graph(find(job).folder)


def _add_checkpoints(router: APIRouter, find: Callable[[str], WatchedJob], folders: Sequence[str], apart: _Apart) -> None:
    @router.get("/jobs/{job}/checkpoints", tags=["jobs"])
    @apart
    def show_checkpoints(job: JobId) -> Checkpoints:
        """What the checkpoint holds, and savepoints."""
        return checkpoints_view(find(job), folders)


def _add_state(router: APIRouter, find: Callable[[str], WatchedJob], apart: _Apart) -> None:
    @router.get("/jobs/{job}/state", tags=["state"])
    @apart
    def show_steps(job: JobId, batch: Batch = None) -> StepStates:
        """The steps that have state, and the retained micro-batches."""
        return step_states(find(job), batch)

    @router.get("/jobs/{job}/state/page", tags=["state"])
    @apart
    def show_page(
        job: JobId,
        step: StepName,
        batch: Batch = None,
        compare: Annotated[int | None, Query(ge=0, lt=_BATCH_MAX, description="Tell what differs from this one.")] = None,
        prefix: Prefix = "",
        offset: Annotated[int, Query(ge=0, le=100_000_000, description="So many keys are passed over.")] = 0,
        limit: Annotated[int, Query(ge=1, le=KEYS_MAX, description="At most so many keys.")] = 50,
    ) -> RowPage:
        """A page of keys, with their windows and cells."""
        return row_page(find(job), step, batch, compare, prefix, offset, limit)

    @router.get("/jobs/{job}/state/count", tags=["state"])
    @apart
    def count_keys(job: JobId, step: StepName, batch: Batch = None, prefix: Prefix = "") -> KeyTotal:
        """How many keys there are. This reads all state of the step, once."""
        state = find(job).state
        at, _ = state.steps(batch)
        return KeyTotal(step=step, batch=at, keys=state.count(step, at, prefix=prefix))

    @router.get("/jobs/{job}/state/key", tags=["state"])
    @apart
    def show_key(job: JobId, step: StepName, key: Key, batch: Batch = None) -> KeyState:
        """One key with all its windows and cells."""
        return key_state(find(job), step, key, batch)

    @router.get("/jobs/{job}/state/life", tags=["state"])
    @apart
    def show_life(job: JobId, step: StepName, key: Key) -> KeyLife:
        """What each retained micro-batch did to a key."""
        return key_life(find(job), step, key)


def _add_queryable(router: APIRouter, jobs: Jobs, find: Callable[[str], WatchedJob], apart: _Apart) -> None:
    @router.get("/state/{step}/{key:path}", tags=["state"], responses={400: {"model": Problem, "description": "Which job?"}})
    @apart
    def query_state(
        request: Request,
        step: Annotated[str, Path(max_length=1_000, description="The step's name.")],
        key: Annotated[str, Path(max_length=6_000, description="The key as text; several columns as a JSON list.")],
        job: Annotated[
            str | None, Query(max_length=200, description="The job's id or name; needed if there are several.")
        ] = None,
        batch: Batch = None,
    ) -> KeyState:
        """Queryable state: one key as of the last committed micro-batch, or a retained one. A slash in the name of a step is
        written %2F."""
        return key_state(_the_job(jobs, find, job), *_as_written(request, step, key), batch)


def _as_written(request: Request, step: str, key: str) -> tuple[str, str]:
    """The step and the key of the address. What the server has decoded does not say which slashes are part of a name."""
    path = bytes(request.scope.get("raw_path") or b"").partition(b"?")[0]
    written_step, slash, written_key = path.removeprefix(b"/api/state/").partition(b"/")
    if not slash or b"%2F" not in written_step.upper():
        return step, key
    return unquote(written_step), unquote(written_key)


def _the_job(jobs: Jobs, find: Callable[[str], WatchedJob], wanted: str | None) -> WatchedJob:
    everything = jobs.all()
    if wanted is None and len(everything) != 1:
        raise HTTPException(400, "There is not exactly one job: say which, with ?job= and its id or name.")
    matching = [each for each in everything if wanted is None or wanted in (each.id, each.name)]
    if len(matching) > 1:
        raise HTTPException(400, "Several jobs have this name: say which, with ?job= and its id.")
    return find(matching[0].id if matching else wanted or "")
