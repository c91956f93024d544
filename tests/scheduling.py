"""The order in which the files of tests are given to processes that run side by side: those that take longest first.

A file stays in one process, which makes what its fixtures prepare only once. Those in `APART` prepare nothing: each of
their tests can go to another process.
"""

from __future__ import annotations

from typing import Any

from xdist.scheduler import LoadScopeScheduling

__all__ = ["APART", "LONGEST", "LongestFirst", "rank"]

APART = (
    "fault/test_driver_killed.py",
    "fault/test_graph_killed.py",
    "fault/test_executor_killed.py",
    "fault/test_worker_killed.py",
)

LONGEST = (
    *APART,
    "fault/test_stops.py",
    "fault/test_edges.py",
    "contract/test_examples.py",
    "integration/test_walks.py",
    "integration/test_taxis.py",
    "integration/test_documents.py",
    "integration/test_recipes.py",
    "ops/test_shared_operators.py",
    "ops/test_removing.py",
    "ops/test_export.py",
    "integration/test_graph_changes.py",
    "integration/test_evolution.py",
    "browser/test_dashboard.py",
    "ops/test_direct.py",
    "integration/test_kafka_source.py",
    "integration/test_sinks.py",
    "integration/test_job_attacks.py",
    "integration/test_steps.py",
    "package/test_wheel.py",
    "integration/test_job_life.py",
    "integration/test_job.py",
    "fault/test_cache_trust.py",
    "ops/test_interrupted.py",
    "ops/test_savepoints.py",
    "integration/test_sql_jobs.py",
    "integration/test_graphs.py",
    "ops/test_stop.py",
    "integration/test_kafka_sink.py",
)

_FOLDERS = ("fault", "ops", "integration", "stored", "browser", "package", "texts", "contract", "property", "unit")


class LongestFirst(LoadScopeScheduling):
    """Gives out whole files, in order of `rank`."""

    def __init__(self, config: Any, log: Any = None) -> None:
        super().__init__(config, log)
        # Its own order, by the number of tests, has nothing to do with how long they take.
        self.config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return nodeid if file.endswith(APART) else file


def rank(path: str) -> tuple[int, int]:
    """The smaller, the earlier a file is run."""
    longest = next((place for place, name in enumerate(LONGEST) if path.endswith(name)), len(LONGEST))
    folder = next((place for place, name in enumerate(_FOLDERS) if f"/{name}/" in f"/{path}"), len(_FOLDERS))
    return longest, folder
