"""Takes the pictures of the dashboard that the documentation shows.

python -m tests.browser.pictures docs/images
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

sys.path.insert(0, str(Path(__file__).parents[1]))

import dashboards
from holdfast.checkpoint.lock import Lock
from services.browser import find_chromium

BATCHES = 500
DESK = {"width": 1280, "height": 800}
PHONE = {"width": 390, "height": 844}
PICTURES = {
    "dashboard-live": ("", "light", {**DESK, "height": 1240}),
    "dashboard-live-dark": ("", "dark", {**DESK, "height": 1240}),
    "dashboard-graph-dark": ("/graph", "dark", {**DESK, "height": 560}),
    "dashboard-keys": ("/keys", "light", {**DESK, "height": 960}),
    "dashboard-state": ("/state", "light", {**DESK, "height": 880}),
    "dashboard-key-dark": ("/key?step=card+totals&key=4929-0000003", "dark", {**DESK, "height": 900}),
    "dashboard-phone": ("", "light", PHONE),
}


def take(folder: Path) -> None:
    dashboards.T0 = int(time.time() * 1000) - BATCHES * dashboards.INTERVAL_MS
    state = dashboards.FakeState(batches=list(range(BATCHES - 14, BATCHES)), windows_every=1)
    with tempfile.TemporaryDirectory() as home, sync_playwright() as playwright:
        checkpoint = dashboards.make_job(Path(home) / "data", BATCHES)
        lock = Lock(None, str(checkpoint), "job payments").acquire()
        flags = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=["--disable-gpu", *flags])
        with dashboards.served([checkpoint], state) as address:
            for name, (view, scheme, size) in PICTURES.items():
                page = browser.new_page(viewport=size, color_scheme=scheme)
                page.goto(address.url)
                job = page.locator(".job-card a").get_attribute("href")
                page.goto(f"{address.url}{job}{view}")
                page.locator("main .panel, main .tiles").first.wait_for()
                page.wait_for_load_state("domcontentloaded")
                page.wait_for_timeout(700)
                page.evaluate("document.querySelector('.job-head code').textContent = '/data/payments/checkpoint'")
                page.screenshot(path=folder / f"{name}.png")
                page.close()
        browser.close()
        lock.release()


if __name__ == "__main__":
    take(Path(sys.argv[1]))
