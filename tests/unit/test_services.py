"""Services that cannot be had: their tests are left out, and it is said; or they fail."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from services import leave_out, left_out


def test_without_a_service_its_tests_are_left_out(monkeypatch):
    monkeypatch.delenv("HOLDFAST_REQUIRE_SERVICES", raising=False)
    with pytest.raises(pytest.skip.Exception) as skipped:
        leave_out("Kafka", "no mvn on the path")
    reports = [SimpleNamespace(longrepr=("file.py", 1, f"Skipped: {why}")) for why in (skipped.value.msg, "another reason")]
    assert left_out([*reports, reports[0]]) == ["2 tests left out, no Kafka: no mvn on the path"]


def test_with_services_required_it_is_a_failure(monkeypatch):
    monkeypatch.setenv("HOLDFAST_REQUIRE_SERVICES", "1")
    with pytest.raises(pytest.fail.Exception, match="there is no Kafka: no mvn on the path"):
        leave_out("Kafka", "no mvn on the path")
