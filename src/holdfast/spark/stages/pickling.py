"""What is sent to the workers as bytes, by cloudpickle; if that fails, the error names the culprit."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from pyspark import cloudpickle

from holdfast.errors import InvalidStep
from holdfast.model.functions.culprits import sending_problems
from holdfast.model.functions.dofn import DoFn
from holdfast.model.functions.options import StepOptions

__all__ = ["pickled", "pickled_step"]


def pickled_step(fn: Any, options: StepOptions, content: Any = None) -> bytes:
    """The bytes of a step: its function, or an aggregation's transform, with its options; or other content made from
    these."""
    whole = (fn, options) if content is None else content
    return pickled(str(options.name), whole, [*_parts(fn), *_given(options)])


def pickled(step: str, content: Any, parts: Iterable[tuple[str, Any]], advice: str = "") -> bytes:
    """The bytes of the content. If pickling fails, `parts` are the possible culprits with their names, and `advice` is what
    to do, if that is always the same."""
    try:
        data: bytes = cloudpickle.dumps(content)  # type: ignore[no-untyped-call]
    except Exception as error:
        problems = sending_problems(cloudpickle.dumps, parts, advice)
        raise InvalidStep(step, problems or [f"It cannot be sent to a worker: {error}"]) from error
    return data


def _parts(fn: Any) -> list[tuple[str, Any]]:
    """A function under its own name; an aggregation's functions under theirs."""
    combined = getattr(fn, "fn", None)
    if isinstance(fn, DoFn):
        return [(type(fn).__name__, fn)]
    given = list(combined.values()) if isinstance(combined, Mapping) else [combined]
    return [(_called(part), part) for part in given] + [(type(fn).__name__, fn)]


def _called(part: Any) -> str:
    return str(getattr(part, "__name__", type(part).__name__))


def _given(options: StepOptions) -> list[tuple[str, Any]]:
    """The options; an instance is listed under the name of its class."""
    named = {"windowing", "trigger"}
    given = [(field.name, getattr(options, field.name)) for field in dataclasses.fields(options)]
    return [(_called(value) if name in named else name, value) for name, value in given if value is not None]
