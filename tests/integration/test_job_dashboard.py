"""The dashboard of a running job: what it shows is what the job has committed, and it ends with the job."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from urllib.parse import quote

import pytest

import holdfast as hf
from integration.functions import Count


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
