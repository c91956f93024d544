"""Parameters that do not say what they ask for: guesses what was meant, so that the message can name it."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from holdfast.model.functions.params import Param
from holdfast.model.state.specs import State, StateSpec
from holdfast.model.time.timers import Timer, TimerSpec

__all__ = ["default_problems", "undeclared_problem"]

_KINDS: tuple[tuple[type[Any], type[Any], str, str], ...] = (
    (TimerSpec, Timer, "timer", "TimerParam"),
    (StateSpec, State, "state cell", "StateParam"),
)


def default_problems(parameter: inspect.Parameter, owner: object, method: str) -> Iterator[str]:
    """Problems with a default that is almost a `DoFn.…Param`: the spec itself, or a class instead of an instance."""
    name, default = parameter.name, parameter.default
    for spec_type, live, kind, wish in _KINDS:
        said = None
        if isinstance(default, spec_type):
            said, spec = f"{default!r} itself", _place(default, owner)
        elif isinstance(default, type) and issubclass(default, (spec_type, live)):
            said, spec = f"the class {default.__name__}", "SPEC"
        elif isinstance(default, type) and issubclass(default, Param) and default.__name__ == wish:
            said, spec = f"the class DoFn.{wish}", "SPEC"
        if said is not None:
            yield f"{method} has {said} as the default of {name!r}; to get the {kind}, write {name}=DoFn.{wish}({spec})."


def undeclared_problem(name: str, annotation: Any, used: set[str], owner: object, method: str) -> str:
    """The problem with a parameter that has no default and no side input. `used`: what the method calls on it."""
    for spec_type, live, kind, wish in _KINDS:
        spec = _named(name, spec_type, owner)
        is_declared = isinstance(annotation, type) and issubclass(annotation, live)
        if spec is not None or is_declared or (spec_type is TimerSpec and "set" in used):
            of = spec or next(iter(_specs(spec_type, owner)), "SPEC")
            return (
                f"{method} has a parameter {name!r}, which seems to be a {kind}, but does not ask for one: write "
                f"{name}=DoFn.{wish}({of})."
            )
    return (
        f"{method} has a parameter {name!r}, but no side input of that name is given: "
        f"side_inputs={{'{name}': AsDict(...)}}. "
        f"(A timer is {name}=DoFn.TimerParam(SPEC), a state cell {name}=DoFn.StateParam(SPEC).)"
    )


def _specs(spec_type: type[Any], owner: object) -> dict[str, Any]:
    """The specs of a class, by attribute name."""
    members = {name: value for cls in reversed(type(owner).__mro__) for name, value in vars(cls).items()}
    return {name: value for name, value in members.items() if isinstance(value, spec_type)}


def _named(name: str, spec_type: type[Any], owner: object) -> str | None:
    """The attribute that holds a spec of this name, or has this name itself."""
    for attribute, spec in _specs(spec_type, owner).items():
        if name.lower() in (attribute.lower(), str(spec.name).lower()):
            return attribute
    return None


def _place(spec: object, owner: object) -> str:
    found = [name for name, value in _specs(type(spec), owner).items() if value is spec]
    return found[0] if found else "SPEC"
