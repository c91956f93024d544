"""A real browser: Chromium, as the machine has it, without its sandbox when the tests run as root."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Error, sync_playwright

from services import leave_out

__all__ = ["browser", "find_chromium"]

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_FLAGS = [
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def find_chromium() -> str | None:
    return next(filter(None, map(shutil.which, _NAMES)), None)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium, with a profile that is new and goes at the end."""
    found = find_chromium()
    if found is None:
        leave_out("Chromium", "it is not installed; scripts/services browser installs it")
    flags = [*_FLAGS, "--no-sandbox"] if os.geteuid() == 0 else _FLAGS
    with sync_playwright() as playwright:
        try:
            started = playwright.chromium.launch(executable_path=found, args=flags)
        except Error as error:
            leave_out("Chromium", f"it does not start: {error.message.splitlines()[0]}")
        yield started
        started.close()
