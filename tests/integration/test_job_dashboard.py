"""The dashboard of a running job: what it shows is what the job has committed, and it ends with the job."""

from __future__ import annotations

import json
import re
import time
import urllib.error
import urllib.request
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

import holdfast as hf
from integration.functions import Count

NASTY = "<script>document.title='owned'</script>"
WAIT_MS = 120_000


def answer(url):
    with urllib.request.urlopen(url, timeout=60) as response:
        return json.load(response)


def waited_for(what, seconds=120):
    deadline = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


def test_it_shows_what_the_job_has_committed(feed, tmp_path, capsys):
    source = feed("k string, v string")
    source.add({"k": "<b>a/b</b>", "v": "x"}, {"k": "c", "v": "x"})
    counts = hf.keyed(source.df, key="k", value="v").par_do(Count(), output="k string, n int", name="Count")
    job = hf.Job("seen", checkpoint=str(tmp_path / "checkpoint"), ui=True)
    job.write(counts, hf.sinks.Collect()).start()
    try:
        url = waited_for(lambda: job.dashboard)
        assert url.startswith("http://127.0.0.1:")
        [listed] = waited_for(lambda: [one for one in answer(f"{url}api/jobs")["jobs"] if one["batch"] is not None])
        assert (listed["name"], listed["batch"], listed["is_running"]) == ("seen", 0, True)
        state = answer(f"{url}api/state/Count/{quote('<b>a/b</b>', safe='')}")
        [window] = state["windows"]
        assert (state["batch"], window["cells"]["count"]) == (0, 1)
        graph = answer(f"{url}api/jobs/{listed['id']}/graph")
        assert "Count" in json.dumps(graph)
    finally:
        job.stop()
    assert job.dashboard is None
    with pytest.raises(urllib.error.URLError):
        answer(f"{url}api/jobs")
    assert f"seen: dashboard at {url}" in capsys.readouterr().err


@pytest.mark.night
def test_in_a_browser_while_it_runs(browser, feed, tmp_path):
    """Charts move, the slider goes back to what was, what comes meanwhile does not change that, and a key is text."""
    source = feed("k string, v string")
    source.add({"k": NASTY, "v": "x"})
    counts = hf.keyed(source.df, key="k", value="v").par_do(Count(), output="k string, n int", name="Count")
    job = hf.Job("seen", checkpoint=str(tmp_path / "checkpoint"), ui=True, progress=False)
    job.write(counts, hf.sinks.Collect()).start()
    context = browser.new_context()
    page = context.new_page()
    page.set_default_timeout(WAIT_MS)
    wrong = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    try:
        page.goto(waited_for(lambda: job.dashboard))
        page.get_by_role("link", name="seen").click()
        plot = page.get_by_role("region", name="Keys", exact=True).get_by_role("img")
        for points in (1, 2, 3):
            expect(plot).to_have_attribute("aria-label", re.compile(f"over {points} point"), timeout=WAIT_MS)
            source.add({"k": NASTY, "v": "x"}, {"k": f"k{points}", "v": "x"})
        page.get_by_role("link", name="State", exact=True).click()
        row = page.get_by_role("row", name=NASTY)
        expect(row.get_by_role("cell").first).to_contain_text("4", timeout=WAIT_MS)
        expect(page.get_by_role("row")).to_have_count(5)
        page.get_by_role("slider", name="After").focus()
        page.keyboard.press("Home")
        expect(page).to_have_url(re.compile("batch=0"))
        expect(page.get_by_role("row")).to_have_count(2)
        expect(row.get_by_role("cell").first).to_contain_text("1")
        source.add({"k": NASTY, "v": "x"})
        waited_for(lambda: (job.query.lastProgress.batchId or 0) >= 4)
        expect(row.get_by_role("cell").first).to_contain_text("1")
        page.get_by_role("link", name="Live", exact=True).click()
        expect(plot).to_have_attribute("aria-label", re.compile("over 5 points"), timeout=WAIT_MS)
        assert page.title() != "owned"
    finally:
        context.close()
        job.stop()
    assert wrong == []
