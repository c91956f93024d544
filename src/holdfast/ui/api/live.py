"""News of jobs, as server-sent events: a version of each, and nothing else, so that whoever is interested asks.

One task looks at all histories while anybody listens, however many do. A listener that hears nothing for a while gets a
comment, so that a connection that is gone is found out.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator

from starlette.concurrency import run_in_threadpool

from holdfast.ui.reading.jobs import Jobs

__all__ = ["LISTENERS_MAX", "News"]

LISTENERS_MAX = 200
_LOOK_SECONDS = 1.0
_HEARTBEAT_SECONDS = 15.0
_LOG = logging.getLogger("holdfast.ui")

Versions = dict[str, int]


class News:
    """Tells listeners when jobs have news."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._listeners: set[asyncio.Queue[str | None]] = set()
        self._looking: asyncio.Task[None] | None = None
        self._known: Versions = {}
        self._closed = False

    @property
    def is_full(self) -> bool:
        return len(self._listeners) >= LISTENERS_MAX

    async def listen(self) -> AsyncIterator[str]:
        """Events for one listener: the versions of all jobs, at first and whenever one of them changes."""
        heard: asyncio.Queue[str | None] = asyncio.Queue(maxsize=16)
        self._listeners.add(heard)
        try:
            yield f"retry: 2000\n\n{_event(await run_in_threadpool(self._versions))}"
            if self._looking is None or self._looking.done():
                self._looking = asyncio.create_task(self._look())
            while not self._closed:
                try:
                    news = await asyncio.wait_for(heard.get(), _HEARTBEAT_SECONDS)
                except asyncio.TimeoutError:
                    news = ": still here\n\n"
                if news is None:
                    return
                yield news
        finally:
            self._listeners.discard(heard)

    def close(self) -> None:
        """Ends all streams, so that the server can end."""
        self._closed = True
        for heard in self._listeners:
            _put(heard, None)
        if self._looking is not None:
            self._looking.cancel()

    async def _look(self) -> None:
        while self._listeners:
            try:
                versions = await run_in_threadpool(self._versions)
            except Exception:
                # A disk that does not answer now may answer in a moment; those who listen go on listening.
                _LOG.warning("What is new of the jobs cannot be read now.", exc_info=True)
                versions = self._known
            if versions != self._known:
                self._known = versions
                for heard in self._listeners:
                    _put(heard, _event(versions))
            await asyncio.sleep(_LOOK_SECONDS)

    def _versions(self) -> Versions:
        """By job, a number that changes with what can be seen of it."""
        return {job.id: 2 * job.tail.refresh() + job.is_running for job in self._jobs.all()}


def _put(heard: asyncio.Queue[str | None], news: str | None) -> None:
    """A listener that does not listen misses the oldest news: the newest tells enough."""
    if heard.full():
        heard.get_nowait()
    heard.put_nowait(news)


def _event(versions: Versions) -> str:
    return f"event: jobs\ndata: {json.dumps(versions)}\n\n"
