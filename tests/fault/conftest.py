"""Seeds: each test runs with every seed of HOLDFAST_FAULT_SEED (numbers with commas between), or of the tier; and says
which."""

from __future__ import annotations

import os

import pytest

from tiers import current_tier

from .running import Program


def pytest_generate_tests(metafunc):
    if "seed" in metafunc.fixturenames:
        seeds = [int(seed) for seed in os.environ.get("HOLDFAST_FAULT_SEED", current_tier().fault_seeds).split(",")]
        metafunc.parametrize("seed", seeds, ids=lambda seed: f"seed{seed}", indirect=True)


@pytest.fixture
def seed(request):
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print(f"\n{request.node.nodeid}: replay with HOLDFAST_FAULT_SEED={request.param}", flush=True)
    return request.param


@pytest.fixture
def start():
    """Starts a program, and sees to it that none outlives its test."""
    started = []

    def start(*arguments, **options):
        started.append(Program(*arguments, **options))
        started[-1].until_active()
        return started[-1]

    yield start
    for program in started:
        program.kill()
