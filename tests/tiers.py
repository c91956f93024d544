"""The tiers of the tests, and how much of everything each has. `tests/README.md` explains them.

`make test-fast` starts no Spark, `make test` is what must pass before a change lands, `make test-all` is for the night.
Each has a Hypothesis profile of its name; tests that need more or fewer examples than usual say so with `examples`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from hypothesis import settings

__all__ = ["TIERS", "Tier", "current_tier", "enter_tier", "examples", "is_in_tier", "marks_of_folder", "refuse_spark"]

_VARIABLE = "HOLDFAST_TIER"
_EXAMPLES_USUAL = 100
_EXAMPLES_MIN = 5


@dataclass(frozen=True)
class Tier:
    """How much a tier has of what can be had in any amount."""

    name: str
    examples_percent: int
    """Of Hypothesis, in percent of what a test asks for."""
    stops: int
    """How many times `fault/test_stops.py` stops a job, for each trigger."""
    kill_rounds: int
    """How many rounds of kills the tests in `fault/` make, of drivers, executors and workers."""
    fault_seeds: str
    """Numbers with commas between."""


TIERS = {
    tier.name: tier
    for tier in (
        Tier("fast", examples_percent=10, stops=1, kill_rounds=1, fault_seeds="1"),
        Tier("test", examples_percent=12, stops=3, kill_rounds=1, fault_seeds="1"),
        Tier("all", examples_percent=1000, stops=60, kill_rounds=2, fault_seeds="1,2,3"),
    )
}


def enter_tier(name: str) -> None:
    """Makes a tier the current one, also for the processes that are started from here."""
    os.environ[_VARIABLE] = name
    for tier in TIERS.values():
        # A busy machine is no failure.
        settings.register_profile(tier.name, max_examples=_scaled(tier, _EXAMPLES_USUAL), deadline=None)
    settings.load_profile(name)


def current_tier() -> Tier:
    return TIERS[os.environ.get(_VARIABLE, "test")]


def examples(asked: int) -> int:
    """How many examples the current tier gives to a test that asks for so many; 100 is usual."""
    return _scaled(current_tier(), asked)


def marks_of_folder(folder: str) -> list[str]:
    """The marks that all tests of a folder have. In `contract` it depends on the runtime,
    which its own conftest knows; in `texts` a few tests say so themselves."""
    return [] if folder in ("unit", "property", "contract", "texts") else ["slow"]


def is_in_tier(tier: Tier, marks: set[str]) -> bool:
    """Whether a test with these marks runs in a tier."""
    left_out = {"fast": {"slow", "night"}, "test": {"night"}, "all": set()}
    return not marks & left_out[tier.name]


def refuse_spark(event: str, arguments: tuple[object, ...]) -> None:
    """An audit hook for the fast tier: a test that starts Spark there fails."""
    if event == "subprocess.Popen" and "spark-submit" in str(arguments[1]):
        raise RuntimeError("This test starts Spark, which the fast tier does not: mark it with @pytest.mark.slow.")


def _scaled(tier: Tier, asked: int) -> int:
    return max(_EXAMPLES_MIN, asked * tier.examples_percent // 100)
