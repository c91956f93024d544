"""Checks what a user says of a job. Each function gives sentences, one for each thing that is wrong."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from holdfast.watch.health.thresholds import Thresholds

__all__ = ["change_problems", "option_problems", "watch_problems"]


def option_problems(
    name: Any, checkpoint: Any, tolerated_failures: Any, retained_batches: Any, budget: Any
) -> Iterator[str]:
    """What is wrong with the plain options."""
    if not isinstance(name, str) or not name:
        yield f"The name of a job is {name!r}; it must be a text."
    if not isinstance(checkpoint, (str, os.PathLike)) or not str(checkpoint).strip():
        # None is what a variable of the environment is that nobody has set.
        yield f"checkpoint is {checkpoint!r}; give the path of a directory."
    if type(tolerated_failures) is not int or tolerated_failures < 0:
        yield f"tolerated_failures, or tolerable_failures, is {tolerated_failures!r}; it must be a whole number from 0 on."
    if retained_batches is not None and (type(retained_batches) is not int or retained_batches < 1):
        yield f"retained_batches is {retained_batches!r}; it must be a whole number from 1 on."
    if budget is not None and (type(budget) is not int or budget < 0):
        yield f"memory_budget_bytes is {budget!r}; it must be a number of bytes."


def change_problems(drop: Any, rename: Any) -> Iterator[str]:
    """What is wrong with the changes of steps."""
    if not isinstance(drop, (list, tuple, set, frozenset)) or not all(isinstance(name, str) for name in drop):
        yield f"drop_steps is {drop!r}; give a list of names of steps."
    pairs = [] if rename is None else list(rename.items()) if isinstance(rename, Mapping) else [(None, None)]
    if not all(isinstance(name, str) for pair in pairs for name in pair):
        yield f"rename_steps is {rename!r}; give old names with new ones: {{'old': 'new'}}."
    elif len({new for _, new in pairs}) < len(pairs):
        yield f"rename_steps is {rename!r}; it gives two steps the same name."


def watch_problems(history: Any, ui: Any, outlets: Any, on_health: Any, thresholds: Any) -> Iterator[str]:
    """What is wrong with who is told what the job does."""
    for name, value in (("history", history), ("ui", ui)):
        if type(value) is not bool:
            yield f"{name} is {value!r}; it must be True or False."
    if not isinstance(outlets, (list, tuple)):
        yield f"outlets is {outlets!r}; give a list, such as [hf.watch.Prometheus(9464)]."
    else:
        for outlet in outlets:
            if not all(callable(getattr(outlet, method, None)) for method in ("batch", "event", "close")):
                yield f"{outlet!r} is no outlet: it needs the methods batch, event and close, as hf.watch.Webhook has."
    if on_health is not None and not callable(on_health):
        yield f"on_health is {on_health!r}; give a function that takes the health of the job."
    if thresholds is not None and not isinstance(thresholds, Thresholds):
        yield f"thresholds is {thresholds!r}; give hf.watch.Thresholds(...)."
    if history is False and (ui or outlets or on_health is not None):
        yield "Without a history there is nothing to show or to tell: leave out history=False, or ui, outlets and on_health."
