"""The API against its own description: whatever is asked, no answer is a failure of the server."""

from __future__ import annotations

from pathlib import Path

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import response_schema_conformance, status_code_conformance

from dashboards import FakeState, make_job
from holdfast.ui.app import Dashboard
from holdfast.ui.guard import Access
from holdfast.ui.judging import judge
from holdfast.ui.reading.jobs import Jobs
from tiers import examples

pytestmark = pytest.mark.slow

_CHECKS = (not_a_server_error, status_code_conformance, response_schema_conformance)


PATHS = [
    "/api/jobs",
    "/api/jobs/{job}",
    "/api/jobs/{job}/series",
    "/api/jobs/{job}/keys",
    "/api/jobs/{job}/graph",
    "/api/jobs/{job}/checkpoints",
    "/api/jobs/{job}/state",
    "/api/jobs/{job}/state/page",
    "/api/jobs/{job}/state/count",
    "/api/jobs/{job}/state/key",
    "/api/jobs/{job}/state/life",
    "/api/state/{step}/{key}",
]
"""All but the stream of events, which has no end."""


@pytest.fixture(scope="module")
def dashboard(tmp_path_factory: pytest.TempPathFactory) -> Dashboard:
    checkpoint: Path = make_job(tmp_path_factory.mktemp("jobs"), batches=12)
    return Dashboard(Jobs([str(checkpoint)], lambda checkpoint: FakeState(batches=list(range(8, 12)))), judge, Access())


@pytest.fixture(scope="module")
def described(dashboard: Dashboard) -> schemathesis.BaseSchema:
    return schemathesis.openapi.from_asgi("/api/openapi.json", dashboard, headers={"Host": "127.0.0.1"})


def test_nothing_was_forgotten(described: schemathesis.BaseSchema) -> None:
    assert sorted(described) == sorted([*PATHS, "/api/events"])


@pytest.mark.parametrize("path", PATHS)
def test_no_answer_is_a_failure(path: str, described: schemathesis.BaseSchema, dashboard: Dashboard) -> None:
    job = dashboard.jobs.all()[0].id

    @settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
    @given(case=described[path]["GET"].as_strategy(), known=st.booleans())
    def ask(case: schemathesis.Case, known: bool) -> None:
        if known and "job" in case.path_parameters:
            # What is asked of a job that there is goes deeper than what is asked of one that there is not.
            case.path_parameters["job"] = job
        answer = case.call(headers={"Host": "127.0.0.1"})
        case.validate_response(answer, checks=_CHECKS)

    ask()
