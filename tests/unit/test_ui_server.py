"""The dashboard's server: who may see it, what it answers, how it begins and ends. Without Spark."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlencode

import httpx2 as httpx
import pytest
from starlette.testclient import TestClient

from dashboards import FakeState, a_graph, append, batch_record, make_job, served
from holdfast.checkpoint.lock import Lock
from holdfast.checkpoint.registry import RegisteredJob, register
from holdfast.cli.main import main
from holdfast.errors import CheckpointError, CorruptState, HoldfastError, InputError
from holdfast.ui.api.live import News
from holdfast.ui.app import Dashboard
from holdfast.ui.guard import POLICY, Access
from holdfast.ui.judging import judge
from holdfast.ui.reading import graph as graph_module
from holdfast.ui.reading import jobs as jobs_module
from holdfast.ui.reading.graph import read_graph
from holdfast.ui.reading.jobs import Jobs, checkpoints_of
from holdfast.ui.reading.state import WindowRow
from holdfast.ui.serve import Address, serve
from holdfast.watch.records import EventRecord

TOKEN = "a-token-that-is-long-enough"


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """One that no test changes."""
    return make_job(tmp_path_factory.mktemp("jobs"))


def dashboard_of(*checkpoints, state=None, access=None):
    jobs = Jobs([str(each) for each in checkpoints], lambda checkpoint: state or FakeState())
    return Dashboard(jobs, judge, access or Access())


def visitor_of(dashboard):
    return TestClient(dashboard, base_url="http://127.0.0.1:4141", follow_redirects=False)


def client_of(*checkpoints, **options):
    return visitor_of(dashboard_of(*checkpoints, **options))


def job_of(client):
    return client.get("/api/jobs").json()["jobs"][0]["id"]


@pytest.fixture(scope="module")
def dashboard(checkpoint):
    """Made once: putting the API together takes longer than any request."""
    return dashboard_of(checkpoint)


@pytest.fixture(scope="module")
def asking(checkpoint):
    """One that asks for the token."""
    return dashboard_of(checkpoint, access=Access(token=TOKEN))


@pytest.fixture
def client(dashboard):
    return visitor_of(dashboard)


@pytest.fixture
def job(dashboard):
    return dashboard.jobs.all()[0].id


class TestGuard:
    @pytest.mark.parametrize(
        "host", ["127.0.0.1", "127.0.0.1:4141", "localhost:9", "LOCALHOST", "[::1]:4141", "192.168.7.7"]
    )
    def test_addresses_and_own_names(self, client, host):
        assert client.get("/api/jobs", headers={"Host": host}).status_code == 200

    @pytest.mark.parametrize(
        "host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:4141", "[", "", "a@b"]
    )
    def test_other_names_are_refused(self, client, host):
        answer = client.get("/api/jobs", headers={"Host": host})
        assert answer.status_code == 421
        assert "payments" not in answer.text

    def test_a_name_that_it_was_started_with(self, checkpoint):
        client = client_of(checkpoint, access=Access(("localhost", "box.internal")))
        assert client.get("/api/jobs", headers={"Host": "box.internal:4141"}).status_code == 200

    @pytest.mark.parametrize(
        "origin", ["http://evil.example", "http://127.0.0.1:9999", "null", "http://[", "127.0.0.1:4141"]
    )
    def test_pages_of_other_origins_are_refused(self, client, origin):
        assert client.get("/api/jobs", headers={"Origin": origin}).status_code == 403

    def test_its_own_page(self, client):
        assert client.get("/api/jobs", headers={"Origin": "http://127.0.0.1:4141"}).status_code == 200

    def test_what_the_browser_says_of_the_site(self, client):
        assert (
            client.get("/api/jobs", headers={"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}).status_code == 403
        )
        assert client.get("/", headers={"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}).status_code == 200
        assert client.get("/api/jobs", headers={"Sec-Fetch-Site": "same-origin"}).status_code == 200

    @pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
    def test_it_only_reads(self, client, method):
        assert client.request(method, "/api/jobs").status_code == 405

    @pytest.mark.parametrize("path", ["/", "/api/jobs", "/api/nothing", "/static/js/main.js"])
    def test_the_head_alone(self, client, path):
        head, whole = client.head(path), client.get(path)
        assert (head.status_code, head.content) == (whole.status_code, b"")
        assert head.headers["content-length"] == whole.headers["content-length"]

    def test_headers(self, client):
        for path in ("/", "/api/jobs", "/api/nothing", "/static/js/main.js", "/static/nothing"):
            headers = client.get(path).headers
            assert headers["content-security-policy"] == POLICY
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["referrer-policy"] == "no-referrer"
            assert headers["cache-control"] == "no-store"
        assert "unsafe" not in POLICY

    def test_a_very_long_address(self, client):
        assert client.get("/api/jobs?x=" + "y" * 10_000).status_code == 414

    @pytest.mark.parametrize(
        "path", ["/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2fapp.py", "/static//etc/passwd", "/static/%00"]
    )
    def test_no_way_out_of_the_static_files(self, client, path):
        answer = client.get(path)
        assert answer.status_code == 404
        assert "Dashboard" not in answer.text


class TestToken:
    @pytest.fixture
    def guarded(self, asking):
        return visitor_of(asking)

    def test_without_it(self, guarded):
        for path in ("/", "/api/jobs", "/api/openapi.json", "/static/js/main.js", "/api/events"):
            answer = guarded.get(path)
            assert answer.status_code == 401
            assert TOKEN not in answer.text

    @pytest.mark.parametrize("wrong", ["", "x", TOKEN[:-1], TOKEN + "x", "ü", TOKEN.upper()])
    def test_with_a_wrong_one(self, guarded, wrong):
        assert guarded.get("/api/jobs", params={"token": wrong}).status_code == 401
        assert guarded.get("/api/jobs", headers={"Authorization": f"Bearer {wrong}".encode()}).status_code == 401
        name = Access(token=TOKEN).cookie_name
        assert guarded.get("/api/jobs", headers={"Cookie": f"{name}={wrong}".encode()}).status_code == 401

    def test_as_a_bearer(self, guarded):
        assert guarded.get("/api/jobs", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200

    def test_once_in_the_address_then_as_a_cookie(self, guarded):
        first = guarded.get(f"/?token={TOKEN}&x=1")
        assert first.status_code == 303
        assert first.headers["location"] == "/?x=1"
        cookie = first.headers["set-cookie"]
        assert {"HttpOnly", "SameSite=strict", "Path=/"} <= {part.strip() for part in cookie.split(";")}
        assert TOKEN not in cookie
        assert guarded.get("/api/jobs").status_code == 200

    def test_the_way_on_stays_here(self, guarded):
        answer = guarded.get(f"http://127.0.0.1:4141//evil.example/x?token={TOKEN}")
        assert answer.headers["location"] == "/evil.example/x"

    @pytest.mark.parametrize(
        "path", ["/api/state/s/a%3Fb", "/api/state/s/a%23b", "/api/state/a%2Fb/c%2520d", "/%5Cevil.example"]
    )
    def test_the_way_on_is_as_it_was_written(self, checkpoint, path):
        """A question mark may be part of a key."""
        visitor = visitor_of(dashboard_of(checkpoint, access=Access(token=TOKEN)))
        assert visitor.get(f"{path}?token={TOKEN}&batch=3").headers["location"] == f"{path}?batch=3"

    def test_cookies_that_are_none(self, guarded):
        name = Access(token=TOKEN).cookie_name
        assert guarded.get("/api/jobs", headers={"Cookie": f"{name}=\x01; ;;=,\"'"}).status_code == 401

    def test_two_dashboards_of_one_machine(self, checkpoint, guarded):
        """Browsers give the cookies of a host to all its ports."""
        other = visitor_of(dashboard_of(checkpoint, access=Access(token="another-token-of-some-length")))
        guarded.get(f"/?token={TOKEN}")
        other.cookies = guarded.cookies
        other.get("/?token=another-token-of-some-length")
        assert [client.get("/api/jobs").status_code for client in (guarded, other)] == [200, 200]

    def test_the_address_has_the_token_as_it_is(self, guarded):
        token = "a&b=c#d+e%20f/?"
        url = Address("127.0.0.1", 4141, token).url
        guarded = visitor_of(Dashboard(Jobs([], lambda checkpoint: FakeState()), judge, Access(token=token)))
        assert guarded.get(url).status_code == 303


class TestAnswers:
    def test_jobs(self, client):
        (summary,) = client.get("/api/jobs").json()["jobs"]
        assert (summary["name"], summary["batch"], summary["is_running"]) == ("payments", 59, False)
        assert len(summary["recent_rows"]) == 60
        assert summary["keys"] > 0

    def test_a_job_that_runs(self, checkpoint, client, job):
        with_lock = Lock(None, str(checkpoint), "job payments").acquire()
        try:
            view = client_of(checkpoint).get(f"/api/jobs/{job}").json()
        finally:
            with_lock.release()
        assert view["summary"]["is_running"] is True
        assert view["used_by"].startswith("job payments on ")
        assert view["health"]["level"] in ("ok", "warning", "unknown", "critical")
        assert view["health"]["measures"]

    def test_health_has_evidence_and_what_to_do(self, client, job):
        """The job has not ended, and nobody has the lock."""
        view = client.get(f"/api/jobs/{job}").json()
        assert view["summary"]["level"] == "critical"
        (gone,) = [symptom for symptom in view["health"]["symptoms"] if symptom["name"] == "gone"]
        assert gone["evidence"]
        assert gone["todo"]

    def test_a_job_without_anything(self, tmp_path):
        (tmp_path / "new").mkdir()
        client = client_of(tmp_path / "new")
        (summary,) = client.get("/api/jobs").json()["jobs"]
        assert (summary["name"], summary["batch"], summary["level"]) == ("new", None, "unknown")
        for path in ("", "/series", "/keys", "/graph"):
            assert client.get(f"/api/jobs/{summary['id']}{path}").status_code == 200

    def test_new_records_are_seen(self, tmp_path):
        checkpoint = make_job(tmp_path)
        client = client_of(checkpoint)
        job = job_of(client)
        before = client.get(f"/api/jobs/{job}/series").json()
        append(checkpoint, batch_record(60))
        after = client.get(f"/api/jobs/{job}/series", params={"since": before["batch"][-1]}).json()
        assert after["batch"] == [60]
        assert after["version"] > before["version"]

    def test_texts_are_made_visible_and_cut(self, tmp_path):
        checkpoint = make_job(tmp_path)
        client = client_of(checkpoint)
        job = job_of(client)
        append(checkpoint, EventRecord("failed", 1, text="\x1b[31m<script>‮" + "x" * 10_000))
        text = client.get(f"/api/jobs/{job}").json()["events"][0]["text"]
        assert text.startswith("\\x1b[31m<script>\\u202e")
        assert len(text) == 2_000

    @pytest.mark.parametrize(
        "path", ["/api/jobs/nothing", "/api/jobs/../x", "/api/jobs/%2e%2e/graph", "/api/jobs/a/state", "/x"]
    )
    def test_what_is_not_there(self, client, path):
        answer = client.get(path)
        assert answer.status_code == 404
        assert set(answer.json()) == {"what", "detail", "todo"}

    @pytest.mark.parametrize(
        "query",
        ["points=0", "points=2001", "since=-2", "since=x", f"since={2**62}", "points=1e9"],
    )
    def test_parameters_have_bounds(self, client, job, query):
        assert client.get(f"/api/jobs/{job}/series?{query}").status_code == 422

    def test_checkpoints_of_what_is_none(self, client, job):
        answer = client.get(f"/api/jobs/{job}/checkpoints")
        assert answer.status_code == 404
        assert "not a checkpoint" in answer.json()["what"]

    def test_pages_need_nothing_from_elsewhere(self, client):
        for path in ("/", "/api/docs"):
            page = client.get(path)
            assert page.status_code == 200
            assert re.findall(r"https?://", page.text) == []
            assert "<script>" not in page.text
            for source in re.findall(r'(?:src|href)="(/static/[^"]+)"', page.text):
                assert client.get(source).status_code == 200, source

    def test_every_part_of_the_api_is_described(self, client):
        described = client.get("/api/openapi.json").json()
        for path, methods in described["paths"].items():
            assert list(methods) == ["get"]
            assert methods["get"]["description"], path
            for parameter in methods["get"].get("parameters", ()):
                assert parameter["description"], (path, parameter["name"])


class TestState:
    def test_steps(self, client, job):
        found = client.get(f"/api/jobs/{job}/state").json()
        assert (found["batch"], [each["batch"] for each in found["retained"]]) == (59, list(range(52, 60)))
        assert [step["name"] for step in found["steps"]] == ["card totals", "alerts"]
        assert found["retained"][-1]["at_ms"] is not None

    def page(self, client, job, **query):
        return client.get(f"/api/jobs/{job}/state/page", params={"step": "card totals", **query}).json()

    def test_a_page(self, client, job):
        page = self.page(client, job, offset=20, limit=10)
        assert (page["batch"], page["offset"], page["keys"], page["more"]) == (59, 20, 10, True)
        assert page["rows"][0]["key"] == "4929-0000020"
        assert {cell["what"] for row in page["rows"] for cell in row["cells"].values()} == {"same"}
        assert self.page(client, job, offset=195, limit=10)["more"] is False

    def test_a_prefix(self, client, job):
        page = self.page(client, job, prefix="4929-000019")
        assert [row["key"] for row in page["rows"]] == [f"4929-{number:07d}" for number in range(190, 200)]
        total = client.get(f"/api/jobs/{job}/state/count", params={"step": "card totals", "prefix": "4929-000019"}).json()
        assert total == {"step": "card totals", "batch": 59, "keys": 10}

    def test_what_differs(self, client, job):
        rows = {row["key"]: row for row in self.page(client, job, compare=58, limit=100)["rows"]}
        changed = rows["4929-0000004"]["cells"]["total"]
        assert (rows["4929-0000004"]["what"], changed["what"], changed["text"], changed["old"]) == (
            "changed",
            "changed",
            "328",
            "303",
        )
        assert rows["4929-0000001"]["what"] == "same"
        assert rows["4929-0000013"]["what"] == "added"

    def test_windows_that_are_gone(self, client, job):
        rows = self.page(client, job, batch=56, compare=55, limit=1)["rows"]
        assert [(row["window"][11:16], row["what"]) for row in rows] == [("11:00", "added"), ("10:00", "removed")]
        assert rows[1]["cells"]["total"] == {"text": "", "what": "removed", "old": "300", "expires_at": None}

    def test_one_key(self, client, job):
        found = client.get(f"/api/jobs/{job}/state/key", params={"step": "card totals", "key": "4929-0000001"}).json()
        assert found["windows"][0]["cells"]["total"] == 307
        assert found["windows"][0]["cells"]["seen"] == ["shop 1", "shop 2", "shop 3"]

    def test_queryable_state(self, client):
        for path in ("/api/state/card totals/4929-0000001", "/api/state/card%20totals/4929-0000001?job=payments"):
            assert client.get(path).json()["windows"][0]["cells"]["total"] == 307
        assert client.get("/api/state/card totals/4929-0000001?batch=55").json()["batch"] == 55
        assert client.get("/api/state/card totals/nobody?job=other").status_code == 404

    def test_queryable_state_with_several_jobs(self, tmp_path, checkpoint):
        other = make_job(tmp_path / "more")
        client = client_of(checkpoint, other)
        assert client.get("/api/state/card totals/4929-0000001").status_code == 400
        assert client.get("/api/state/card totals/4929-0000001?job=payments").status_code == 400
        ids = [job["id"] for job in client.get("/api/jobs").json()["jobs"]]
        assert client.get(f"/api/state/card totals/4929-0000001?job={ids[1]}").json()["job"] == ids[1]

    def test_a_key_with_slashes(self, checkpoint):
        client = client_of(checkpoint, state=FakeState(first_keys=["a/b//c?d"]))
        assert client.get("/api/state/card totals/a%2Fb%2F%2Fc%3Fd").json()["key"] == "a/b//c?d"

    def test_a_step_with_slashes(self, checkpoint):
        class Slashed(FakeState):
            def key(self, step, key, batch):
                return 59, [WindowRow(key, step, {})]

        client = client_of(checkpoint, state=Slashed())
        for address, step, key in [("a%2Fb/c%2fd/e", "a/b", "c/d/e"), ("a/b/c%2Fd", "a", "b/c/d")]:
            found = client.get(f"/api/state/{address}").json()
            assert (found["step"], found["key"], found["windows"][0]["window"]) == (step, key, step)

    @pytest.mark.parametrize("key", ["", " ", "é" * 900, "a" * 6_000])
    def test_keys_that_can_be_asked_for(self, checkpoint, key):
        client = client_of(checkpoint, state=FakeState(first_keys=[key]))
        row = self.page(client, job_of(client), limit=1)["rows"][0]
        assert (row["key"], row["is_key_cut"]) == (key, False)
        query = {"step": "card totals", "key": row["key"]}
        assert client.get(f"/api/jobs/{job_of(client)}/state/key", params=query).json()["key"] == key
        assert client.get(f"/api/jobs/{job_of(client)}/state/life", params=query).json()["key"] == key

    @pytest.mark.parametrize("key", ["é" * 1_100, "a" * 6_001, "long" * 1_000_000])
    def test_keys_that_are_too_long_are_cut(self, checkpoint, key):
        client = client_of(checkpoint, state=FakeState(first_keys=[key]))
        row = self.page(client, job_of(client), limit=1, compare=58)["rows"][0]
        assert row["is_key_cut"]
        assert key.startswith(row["key"])
        assert len(row["key"]) == len(row["key_text"]) == 400

    def test_every_character_of_a_key_can_be_seen(self, checkpoint):
        key = "safe\u202egpj.exe\x00"
        client = client_of(checkpoint, state=FakeState(first_keys=[key]))
        row = self.page(client, job_of(client), limit=1)["rows"][0]
        assert (row["key"], row["key_text"]) == (key, r"safe\u202egpj.exe\x00")
        query = {"step": "card totals", "key": row["key"]}
        life = client.get(f"/api/jobs/{job_of(client)}/state/life", params=query).json()
        assert life["key_text"] == row["key_text"]

    def test_a_life(self, client, job):
        life = client.get(f"/api/jobs/{job}/state/life", params={"step": "card totals", "key": "4929-0000001"}).json()
        assert [(each["batch"], each["what"]) for each in life["entries"] if each["cell"] == "total"] == [
            (52, "added"),
            (56, "changed"),
        ]

    @pytest.mark.parametrize(
        ("error", "status"),
        [
            (CheckpointError("No such."), 404),
            (InputError("Not a key."), 400),
            (CorruptState("Damaged.", todo="restore it"), 409),
            (HoldfastError("It broke."), 409),
            (PermissionError(13, "Permission denied", "/secret/place"), 409),
        ],
    )
    def test_errors_have_three_parts(self, checkpoint, error, status):
        class Failing(FakeState):
            def steps(self, batch):
                raise error

        client = client_of(checkpoint, state=Failing())
        answer = client.get(f"/api/jobs/{job_of(client)}/state")
        assert answer.status_code == status
        assert set(answer.json()) == {"what", "detail", "todo"}
        assert "/secret" not in answer.text

    def test_a_value_that_is_very_long(self, checkpoint, monkeypatch):
        monkeypatch.setattr("holdfast.ui.api.state_views._JSON_MAX", 10)
        client = client_of(checkpoint)
        cells = client.get("/api/state/card totals/4929-0000001").json()["windows"][0]["cells"]
        assert cells["total"] == 307
        assert list(cells["seen"]) == ["$too_long"]


class TestGraph:
    def test_nodes_and_edges(self, client, job):
        graph = client.get(f"/api/jobs/{job}/graph").json()
        assert graph["is_whole"] is True
        assert [node["kind"] for node in graph["nodes"]] == ["source", "step", "step", "sink", "sink", "sink"]
        assert {(edge["origin"], edge["target"]) for edge in graph["edges"]} == {
            ("source 1", "step card totals"),
            ("step card totals", "step alerts"),
            ("step card totals", "sink 1"),
            ("step alerts", "sink 2"),
            ("step alerts", "sink 3"),
        }

    @pytest.mark.parametrize(
        "content", ["", "{", "[]", '{"job": 7}', '{"job":"a","sources":[{"number":"x"}]}', "[" * 100_000]
    )
    def test_what_is_no_graph(self, tmp_path, content):
        (tmp_path / "holdfast").mkdir()
        (tmp_path / "holdfast" / "graph.json").write_text(content)
        graph = read_graph(tmp_path)
        assert (graph.nodes, graph.is_whole) == ([], False)

    def test_a_very_large_one_is_cut(self, tmp_path, monkeypatch):
        monkeypatch.setattr(graph_module, "_NODES_MAX", 3)
        (tmp_path / "holdfast").mkdir()
        (tmp_path / "holdfast" / "graph.json").write_text(json.dumps(a_graph()))
        graph = read_graph(tmp_path)
        assert (len(graph.nodes), graph.is_cut) == (3, True)
        known = {node.id for node in graph.nodes}
        assert all({edge.origin, edge.target} <= known for edge in graph.edges)


class TestJobs:
    @pytest.fixture
    def home(self, tmp_path, monkeypatch):
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home"))

    def test_running_ones_appear_by_themselves(self, home, checkpoint, monkeypatch):
        monkeypatch.setattr("holdfast.ui.reading.jobs._LOOK_SECONDS", -1.0)
        jobs = Jobs([], lambda checkpoint: FakeState())
        assert jobs.all() == []
        lock = Lock(None, str(checkpoint), "job payments", token="t" * 20).acquire()
        try:
            register(RegisteredJob("payments", str(checkpoint), "t" * 20))
            assert [job.checkpoint for job in jobs.all()] == [str(checkpoint)]
            assert checkpoints_of(["payments"]) == [str(checkpoint)]
        finally:
            lock.release()
        assert [job.is_running for job in jobs.all()] == [False]

    def test_whoever_asks_while_another_looks_is_told_the_same(self, checkpoint, monkeypatch):
        """Else a job that runs would be called gone by one of two that ask at once."""
        (job,) = Jobs([str(checkpoint)], lambda checkpoint: FakeState()).all()
        lock = Lock(None, str(checkpoint), "job payments").acquire()
        looking, go_on = threading.Event(), threading.Event()
        look = jobs_module.current_lock

        def slowly(spark, checkpoint):
            looking.set()
            assert go_on.wait(30)
            return look(spark, checkpoint)

        monkeypatch.setattr(jobs_module, "current_lock", slowly)
        with ThreadPoolExecutor(2) as threads:
            first = threads.submit(lambda: job.is_running)
            assert looking.wait(30)
            second = threads.submit(lambda: job.is_running)
            go_on.set()
            assert (first.result(30), second.result(30)) == (True, True)
        lock.release()

    def test_entries_of_jobs_that_are_gone(self, home, checkpoint):
        register(RegisteredJob("payments", str(checkpoint), "another"))
        assert Jobs([], lambda checkpoint: FakeState()).all() == []

    def test_neither_a_job_nor_a_checkpoint(self, home, tmp_path):
        with pytest.raises(CheckpointError, match="There is no job and no checkpoint"):
            checkpoints_of([str(tmp_path / "nothing")])

    def test_one_checkpoint_twice(self, checkpoint):
        jobs = Jobs([str(checkpoint), f"{checkpoint}/"], lambda checkpoint: FakeState())
        assert len(jobs.all()) == 1


class TestServing:
    def test_events(self, tmp_path):
        """A listener is told of every job at first, and again when a history has grown."""
        checkpoint = make_job(tmp_path)
        with (
            served([checkpoint], FakeState()) as address,
            httpx.Client(trust_env=False, timeout=30) as client,
            client.stream("GET", f"{address.url}api/events") as answer,
        ):
            assert answer.headers["content-type"].startswith("text/event-stream")
            lines = (line for line in answer.iter_lines() if line.startswith("data: "))
            (before,) = json.loads(next(lines)[6:]).values()
            append(checkpoint, batch_record(60))
            news = next(after for line in lines for after in json.loads(line[6:]).values() if after != before)
            assert news > before

    def test_who_listens_goes_on_after_a_disk_that_did_not_answer(self, tmp_path, monkeypatch):
        checkpoint = make_job(tmp_path)
        failing = [OSError("no answer")]
        known = News._versions

        def versions(news):
            if news._looking is not None and failing:
                raise failing.pop()
            return known(news)

        monkeypatch.setattr(News, "_versions", versions)
        monkeypatch.setattr("holdfast.ui.api.live._LOOK_SECONDS", 0.01)
        with (
            served([checkpoint], FakeState()) as address,
            httpx.Client(trust_env=False, timeout=30) as client,
            client.stream("GET", f"{address.url}api/events") as answer,
        ):
            lines = (line for line in answer.iter_lines() if line.startswith("data: "))
            (before,) = json.loads(next(lines)[6:]).values()
            append(checkpoint, batch_record(60))
            assert next(after for line in lines for after in json.loads(line[6:]).values() if after != before) > before
        assert not failing

    def test_no_more_listeners_than_there_is_room_for(self, checkpoint, monkeypatch):
        monkeypatch.setattr("holdfast.ui.api.live.LISTENERS_MAX", 0)
        assert client_of(checkpoint).get("/api/events").status_code == 503

    def test_many_who_read_state_leave_threads_for_the_others(self, checkpoint):
        asked, released = threading.Semaphore(0), threading.Event()

        class Slow(FakeState):
            def count(self, *given, **named):
                asked.release()
                released.wait(60)
                return super().count(*given, **named)

        with served([checkpoint], Slow()) as address, ThreadPoolExecutor(60) as many:
            client = httpx.Client(base_url=address.url, trust_env=False, timeout=60, limits=httpx.Limits(max_connections=70))
            with client:
                job = job_of(client)
                step = client.get(f"/api/jobs/{job}/state").json()["steps"][0]["name"]
                path = f"/api/jobs/{job}/state/count?{urlencode({'step': step})}"
                try:
                    counts = [many.submit(client.get, path) for _ in range(60)]
                    assert asked.acquire(timeout=60)
                    # More than there are threads in all.
                    assert [client.get("/api/jobs").status_code for _ in range(3)] == [200] * 3
                finally:
                    released.set()
                assert {count.result(60).status_code for count in counts} == {200}

    def test_elsewhere_there_is_always_a_token(self, checkpoint):
        with served([checkpoint], FakeState(), host="0.0.0.0") as address:
            assert address.token is not None
            assert len(address.token) >= 32
            with httpx.Client(trust_env=False) as client:
                assert client.get(f"http://127.0.0.1:{address.port}/api/jobs").status_code == 401
                assert client.get(address.url, follow_redirects=True).status_code == 200

    def test_a_port_that_is_taken(self, checkpoint):
        with (
            served([checkpoint], FakeState()) as address,
            pytest.raises(HoldfastError, match=f"cannot be served on '127.0.0.1', port {address.port}"),
        ):
            serve(Jobs([], lambda checkpoint: FakeState()), judge, port=address.port)


@contextlib.contextmanager
def started(*arguments: str, **environment: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command, with the first line that it says; it is gone at the end."""
    command = [sys.executable, "-c", "from holdfast.cli.main import run; run()", "ui", "--port", "0", *arguments]
    given = {**os.environ, **environment}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=given) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline()
        finally:
            process.kill()


@pytest.mark.slow
class TestCommand:
    @pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
    def test_until_it_is_told_to_end(self, checkpoint, how):
        with started(str(checkpoint), "--json") as (process, line), httpx.Client(trust_env=False, timeout=30) as client:
            url = json.loads(line)["url"]
            assert client.get(f"{url}api/jobs").json()["jobs"][0]["name"] == "payments"
            with client.stream("GET", f"{url}api/events") as answer:
                next(answer.iter_lines())
                process.send_signal(how)
                _, said = process.communicate(timeout=60)
        assert (process.returncode in (0, -how), said) == (True, "")

    def test_with_the_process_that_it_belongs_to(self, checkpoint):
        parent = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        with started(str(checkpoint), "--parent-pid", str(parent.pid)) as (process, _):
            assert process.poll() is None
            parent.communicate(b"\n", timeout=60)
            _, said = process.communicate(timeout=60)
        assert (process.returncode, said) == (0, "")

    @pytest.mark.parametrize("token", ["short", "a token with blanks in it", "ein-schlüssel-der-lang-ist"])
    def test_tokens_that_cannot_be_used(self, checkpoint, token, capsys):
        assert main(["ui", str(checkpoint), "--token", token, "--no-open"]) == 1
        assert "--token" in capsys.readouterr().err

    def test_the_token_is_in_nothing_but_the_address(self, checkpoint):
        running = started(str(checkpoint), "--no-open", HOLDFAST_UI_TOKEN=TOKEN)
        with running as (process, line), httpx.Client(trust_env=False, timeout=30) as client:
            url = line.strip()
            assert url.endswith(f"?token={TOKEN}")
            assert client.get(f"{url}wrong").status_code == 401
            assert client.get(url, follow_redirects=True).status_code == 200
            process.send_signal(signal.SIGTERM)
            rest, said = process.communicate(timeout=60)
        assert TOKEN not in rest + said


@pytest.mark.parametrize("host", ["a" * 64 + ".example", "\udcff", "a..b"])
def test_what_cannot_be_a_host(checkpoint, capsys, host):
    assert main(["ui", str(checkpoint), "--host", host, "--no-open"]) == 1
    assert "The dashboard cannot be served on" in capsys.readouterr().err


@pytest.mark.parametrize("token", [None, TOKEN])
def test_a_browser_is_opened_without_a_token_alone(checkpoint, monkeypatch, token):
    """All users of a machine see the command lines of its processes, and so the address that a browser is given."""
    opened: list[str] = []
    address = Address("127.0.0.1", 4141, token)
    monkeypatch.setattr("holdfast.ui.serve.serve", lambda *given, on_ready, **named: on_ready(address))
    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert main(["ui", str(checkpoint), *(() if token is None else ("--token", token))]) == 0
    assert opened == ([address.url] if token is None else [])


def test_static_files_are_packed() -> None:
    """What the page loads is declared as data of the package."""
    static = Path(__file__).parents[2] / "src" / "holdfast" / "ui" / "static"
    names = {path.relative_to(static).as_posix() for path in static.rglob("*") if path.is_file()}
    assert {"index.html", "api.html", "js/main.js", "css/theme.css", "vendor/preact/LICENSE"} <= names
    project = (static.parents[3] / "pyproject.toml").read_text()
    assert '"ui/static/**"' in project
