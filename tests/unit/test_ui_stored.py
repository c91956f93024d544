"""The dashboard on checkpoints that real jobs made: their state, their files, their savepoints. Without Spark."""

from __future__ import annotations

import tarfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from holdfast.ops.inspect import state_reader
from holdfast.ui.app import Dashboard
from holdfast.ui.guard import Access
from holdfast.ui.judging import judge
from holdfast.ui.reading.jobs import Jobs
from holdfast.ui.reading.stored import StoredState

ARCHIVES = Path(__file__).parents[1] / "stored"


def extracted(name: str, folder: Path) -> Path:
    with tarfile.open(ARCHIVES / f"{name}@0.1.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return folder / name / "checkpoint"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stored")
    for name in ("every-cell", "sessions"):
        extracted(name, folder)
    return folder


def client_of(checkpoint: Path) -> tuple[TestClient, str]:
    dashboard = Dashboard(Jobs([str(checkpoint)], StoredState), judge, Access())
    return TestClient(dashboard, base_url="http://127.0.0.1"), dashboard.jobs.all()[0].id


def test_every_kind_of_cell(home):
    client, job = client_of(home / "every-cell" / "checkpoint")
    steps = client.get(f"/api/jobs/{job}/state").json()
    assert (steps["batch"], [each["batch"] for each in steps["retained"]]) == (1, [0, 1])
    (step,) = steps["steps"]
    assert (step["name"], step["key"]) == ("EveryCell", "card string")
    assert {cell["name"] for cell in step["cells"] if cell["is_timer"]} == {"quiet"}
    page = client.get(f"/api/jobs/{job}/state/page", params={"step": "EveryCell", "compare": 0}).json()
    assert (page["batch"], page["keys"], page["more"]) == (1, 3, False)
    assert {row["key"] for row in page["rows"]} == {"a", "b", "ü"}


def test_queryable_state(home):
    client, _ = client_of(home / "every-cell" / "checkpoint")
    found = client.get("/api/state/EveryCell/ü").json()
    cells = found["windows"][0]["cells"]
    assert (found["batch"], cells["count"], cells["amounts"], cells["by_shop"]) == (1, 1, [7], {"x": 7})
    assert cells["shops"] == {"$set": ["x"]}
    assert found["windows"][0]["expires_at"] == {"forgotten": "1970-01-01T00:01:06Z"}


@pytest.mark.parametrize(("path", "status"), [("EveryCell/nobody", 404), ("nothing/a", 404), ("EveryCell/a?batch=77", 404)])
def test_what_is_not_there(home, path, status):
    client, _ = client_of(home / "every-cell" / "checkpoint")
    answer = client.get(f"/api/state/{path}")
    assert answer.status_code == status
    assert set(answer.json()) == {"what", "detail", "todo"}


def test_the_life_of_a_key(home):
    client, job = client_of(home / "every-cell" / "checkpoint")
    life = client.get(f"/api/jobs/{job}/state/life", params={"step": "EveryCell", "key": "a"}).json()
    assert {entry["batch"] for entry in life["entries"]} <= {0, 1}
    assert [entry["new"] for entry in life["entries"] if entry["cell"] == "amounts"][-1] == "[10, 20, 30]"


def test_timers_with_tags_are_one_column(home):
    """A session keeps a timer for each window, by a tag."""
    client, job = client_of(home / "sessions" / "checkpoint")
    (step,) = client.get(f"/api/jobs/{job}/state").json()["steps"]
    page = client.get(f"/api/jobs/{job}/state/page", params={"step": step["name"], "compare": 0}).json()
    assert set(page["columns"]) == {cell["name"] for cell in step["cells"]}
    assert page["rows"][0]["cells"]["event"]["text"].endswith(": 1970-01-01T00:02:15Z")


def test_the_checkpoint_and_its_savepoint(home):
    client, job = client_of(home / "every-cell" / "checkpoint")
    found = client.get(f"/api/jobs/{job}/checkpoints").json()
    assert (found["last_committed"], [each["batch"] for each in found["retained"]]) == (1, [0, 1])
    assert [operator["number"] for operator in found["operators"]] == [0]
    (savepoint,) = found["savepoints"]
    assert (savepoint["path"], savepoint["is_of_this_job"]) == (str(home / "every-cell" / "savepoint"), True)


def test_the_steps_of_a_job_without_a_graph(home):
    client, job = client_of(home / "every-cell" / "checkpoint")
    graph = client.get(f"/api/jobs/{job}/graph").json()
    assert (graph["is_whole"], [node["title"] for node in graph["nodes"]]) == (False, ["EveryCell"])


def test_damage_is_told(tmp_path):
    checkpoint = extracted("every-cell", tmp_path)
    damaged = [path for path in checkpoint.rglob("*") if path.suffix in (".changelog", ".zip", ".sst")]
    assert damaged
    for path in damaged:
        path.write_bytes(b"nothing that was ever written")
    client, job = client_of(checkpoint)
    answer = client.get(f"/api/jobs/{job}/state/page", params={"step": "EveryCell"})
    assert answer.status_code in (404, 409)
    assert answer.json()["what"]


def test_who_asks_for_the_same_at_the_same_time_waits_for_it(home, monkeypatch):
    """A key group is decoded once, however many look at it."""
    made, both = [], threading.Barrier(8)
    decoded = state_reader.DecodedGroup

    def decode(label, blobs, **options):
        made.append(label)
        return decoded(label, blobs, **options)

    monkeypatch.setattr(state_reader, "DecodedGroup", decode)
    reader = state_reader.StateReader(str(home / "every-cell" / "checkpoint"))

    def count(_):
        both.wait(60)
        return reader.count("EveryCell")

    with ThreadPoolExecutor(8) as many:
        assert set(many.map(count, range(8))) == {3}
    assert sorted(made) == sorted(set(made))
    assert reader.count("EveryCell", prefix="a") == 1
