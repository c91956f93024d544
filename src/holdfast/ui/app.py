"""The dashboard as an ASGI application: the API, the page, and the guard before both."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from fastapi import FastAPI, HTTPException, Request
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.responses import FileResponse, JSONResponse
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

from holdfast.errors import CheckpointError, HoldfastError, InputError
from holdfast.ui.api.job_views import Doctor, Judge
from holdfast.ui.api.live import News
from holdfast.ui.api.routes import api_routes
from holdfast.ui.guard import Access, Guard
from holdfast.ui.reading.jobs import Jobs
from holdfast.ui.reading.texts import cut

__all__ = ["Dashboard"]

_STATIC = Path(__file__).parent / "static"
_TEXT_MAX = 4_000


class Dashboard:
    """The dashboard of these jobs, for any ASGI server."""

    def __init__(self, jobs: Jobs, judge: Judge, access: Access, *, savepoint_folders: Sequence[str] = ()) -> None:
        self.jobs = jobs
        self._news = News(jobs)
        self.api = FastAPI(
            title="Holdfast",
            version=version("holdfast"),
            description="What jobs tell about themselves, and the state in their checkpoints. Read-only.",
            openapi_url="/api/openapi.json",
            docs_url=None,
            redoc_url=None,
        )
        self.api.include_router(api_routes(jobs, Doctor(judge), self._news, savepoint_folders))
        _report_errors(self.api)
        _add_pages(self.api)
        self._guard = Guard(self.api, access)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._guard(scope, receive, send)

    def end_streams(self) -> None:
        """Ends the streams that have no end of their own; for a server that is about to end."""
        self._news.close()


def _add_pages(app: FastAPI) -> None:
    @app.get("/", include_in_schema=False)
    def page() -> FileResponse:
        return FileResponse(_STATIC / "index.html")

    @app.get("/api/docs", include_in_schema=False)
    def documentation() -> FileResponse:
        return FileResponse(_STATIC / "api.html")

    app.mount("/static", StaticFiles(directory=_STATIC), name="static")


def _report_errors(app: FastAPI) -> None:
    """Errors as JSON, in three parts, as everywhere in Holdfast."""

    @app.exception_handler(HoldfastError)
    def holdfast_error(request: Request, error: HoldfastError) -> JSONResponse:
        status = 404 if isinstance(error, CheckpointError) else 400 if isinstance(error, InputError) else 409
        return _problem(status, error.what, error.detail, error.todo)

    @app.exception_handler(OSError)
    def file_error(request: Request, error: OSError) -> JSONResponse:
        return _problem(409, f"A file cannot be read: {error.strerror or 'it is not known why'}.")

    @app.exception_handler(StarletteHTTPException)
    def http_error(request: Request, error: HTTPException) -> JSONResponse:
        return _problem(error.status_code, str(error.detail), headers=dict(error.headers or {}))


def _problem(
    status: int, what: str, detail: str = "", todo: str = "", headers: dict[str, str] | None = None
) -> JSONResponse:
    content = {
        "what": cut(what, _TEXT_MAX, "\n"),
        "detail": cut(detail or "", _TEXT_MAX, "\n"),
        "todo": cut(todo or "", _TEXT_MAX, "\n"),
    }
    return JSONResponse(content, status_code=status, headers=headers)
