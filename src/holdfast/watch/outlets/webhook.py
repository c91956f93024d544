"""Health to a webhook: a POST with JSON whenever the health of a job changes for the worse, or is well again.

Sending happens on a thread of its own. Nothing that goes wrong there reaches the job: what cannot be sent is tried again a
few times, then let go and counted. The URL may hold a secret, and headers do; neither is in any message, only the host is.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import logging
import os
import queue
import threading
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any
from urllib.parse import SplitResult, urlsplit

from holdfast.errors import InputError
from holdfast.watch.health.report import Health, Level
from holdfast.watch.health.texts import cut
from holdfast.watch.records import BatchRecord, EventRecord

__all__ = ["Webhook"]

_log = logging.getLogger("holdfast.watch.webhook")

_BACKOFF_SECONDS = 0.5
_AGAIN = (408, 425, 429, 500, 502, 503, 504)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect is an answer like any other: headers with secrets go to the host that was named, and to no other."""

    def redirect_request(self, *_: Any) -> None:
        return None


class Webhook:
    """Posts a job's health to a URL when it changes: a document with `job`, `kind` (`health` or `event`), and `health`, as
    `holdfast health --json` gives it, or `event`.

    `headers`: from the name of a header to that of an environment variable that holds its value, so that no secret stands in
    code. `min_level`: the level from which on changes are posted; that it is below again is posted too. Failures of the job
    always are. A message is tried `tries` times, each within `timeout_seconds`. At most `queue_max` wait; if more come, the
    oldest are lost.
    """

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        min_level: Level = Level.WARNING,
        timeout_seconds: float = 5.0,
        tries: int = 4,
        queue_max: int = 100,
    ) -> None:
        parts = _checked(url)
        self._place = f"{parts.scheme}://{parts.hostname}"
        self._url = url
        self._headers = {"Content-Type": "application/json", **_from_environment(headers or {})}
        self._min_level = Level(min_level)
        self._timeout = timeout_seconds
        self._tries = max(tries, 1)
        self._waiting: queue.Queue[dict[str, object] | None] = queue.Queue(max(queue_max, 1))
        self._opener = urllib.request.build_opener(_NoRedirects)
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()
        self._told: object = None
        self._is_bad = False
        self.lost = 0
        """Messages that could not be sent."""

    def batch(self, record: BatchRecord, health: Health) -> None:
        is_bad = health.level >= max(self._min_level, Level.WARNING)
        told = (health.level, frozenset((symptom.name, symptom.step) for symptom in health.symptoms)) if is_bad else None
        if told == self._told or not (is_bad or self._is_bad):
            return
        self._told, self._is_bad = told, is_bad
        self._post({"job": health.job, "kind": "health", "health": health.as_dict()})

    def event(self, record: EventRecord) -> None:
        if record.event == "failed":
            event = {"event": record.event, "at_ms": record.at_ms, "batch": record.batch, "text": cut(record.text, 2_000)}
            self._post({"job": cut(record.job), "kind": "event", "event": event})

    def close(self) -> None:
        """Waits until all is sent, but not longer than `timeout_seconds`; does nothing the second time."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        self._put(None)
        thread.join(self._timeout)
        self._closing.set()
        self._told, self._is_bad = None, False

    def __repr__(self) -> str:
        return f"Webhook({self._place!r})"

    def _post(self, message: dict[str, object]) -> None:
        if self._thread is None:
            # One that was closed may still be sending; it keeps its own.
            self._closing, self._waiting = threading.Event(), queue.Queue(self._waiting.maxsize)
            arguments = (self._waiting, self._closing)
            self._thread = threading.Thread(target=self._run, args=arguments, name="holdfast-webhook", daemon=True)
            self._thread.start()
        self._put(message)

    def _put(self, message: dict[str, object] | None) -> None:
        while True:
            try:
                self._waiting.put_nowait(message)
                return
            except queue.Full:
                # What is new says more than what is old.
                with contextlib.suppress(queue.Empty):
                    self._waiting.get_nowait()
                    self.lost += 1

    def _run(self, waiting: queue.Queue[dict[str, object] | None], closing: threading.Event) -> None:
        while not closing.is_set():
            message = waiting.get()
            if message is None:
                return
            self._send(json.dumps(message).encode(), closing)

    def _send(self, body: bytes, closing: threading.Event) -> None:
        problem = ""
        for attempt in range(self._tries):
            if attempt and closing.wait(_BACKOFF_SECONDS * 2 ** (attempt - 1)):
                break
            problem, again = self._attempt(body)
            if not problem:
                return
            if not again:
                break
        self.lost += 1
        _log.warning("A message to the webhook at %s was lost: %s.", self._place, problem or "the job ended")

    def _attempt(self, body: bytes) -> tuple[str, bool]:
        """What went wrong, without the URL or a header in it, and whether it may go well later."""
        try:
            request = urllib.request.Request(self._url, body, self._headers, method="POST")
            # What it says besides is not waited for: it may be endless.
            self._opener.open(request, timeout=self._timeout).close()
            return "", False
        except urllib.error.HTTPError as error:
            error.close()
            return f"it answered {error.code}", error.code in _AGAIN
        except urllib.error.URLError as error:
            return f"{type(error.reason).__name__}", True
        except (OSError, http.client.HTTPException, ValueError) as error:
            return type(error).__name__, not isinstance(error, ValueError)


def _checked(url: str) -> SplitResult:
    """The parts of a URL. Raises InputError, without the URL in it, for one that cannot be used."""
    try:
        parts = urlsplit(url)
        is_fine = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except (ValueError, AttributeError, TypeError):
        is_fine = False
    if not is_fine or not url.isascii() or not url.isprintable() or " " in url:
        raise InputError("Webhook(url): this is not a URL that begins with http:// or https://, with a host.")
    if parts.username is not None or parts.password is not None:
        raise InputError(
            "Webhook(url): there is a password in it.", todo="give it as a header: headers={'Authorization': ...}"
        )
    return parts


def _from_environment(headers: Mapping[str, str]) -> dict[str, str]:
    missing = [
        f"- {name}: the environment variable {variable} is not set"
        for name, variable in headers.items()
        if variable not in os.environ
    ]
    if missing:
        raise InputError("Webhook(headers): values are taken from environment variables.", detail="\n".join(missing))
    found = {name: os.environ[variable] for name, variable in headers.items()}
    wrong = [
        f"- {name}" for name, value in found.items() if not (name + value).isascii() or not (name + value).isprintable()
    ]
    if wrong:
        raise InputError("Webhook(headers): these have characters that a header cannot have.", detail="\n".join(wrong))
    return found
