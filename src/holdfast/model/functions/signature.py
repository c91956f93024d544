"""Signatures: what each method of a DoFn asks for, read once from its parameters.

Nothing is raised here: problems are yielded as sentences, so that the step can report them together.
"""

from __future__ import annotations

import dis
import inspect
import typing
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from holdfast.model.coders.pickled import annotation_problems
from holdfast.model.foreign import foreign_globals
from holdfast.model.functions.params import Param, ParamKind, StateParam, TimerParam
from holdfast.model.functions.undeclared import default_problems, undeclared_problem
from holdfast.model.state.methods import cell_methods
from holdfast.model.state.specs import State, StateSpec
from holdfast.model.time.timers import Timer, TimerSpec

__all__ = ["Argument", "MethodSignature", "read_signature"]

_FLINKS_METHODS = {"value": "read", "update": "write", "get": "read"}
"""Methods of Flink's cells, and the one that a cell here has for it, where it has it."""
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True)
class Argument:
    """One positional argument of a call: its kind, and for a cell or timer the spec."""

    name: str
    kind: ParamKind
    spec: Any = None
    default: Any = inspect.Parameter.empty
    """For a side input: the value used if none is given."""
    annotation: Any = None

    @property
    def label(self) -> str:
        """How the argument is named in messages; two arguments of a method must not share it."""
        if self.kind in (ParamKind.STATE, ParamKind.TIMER):
            return f"{self.kind.value}({getattr(self.spec, 'name', self.spec)})"
        return str(self.kind.value)


@dataclass
class MethodSignature:
    """The positional arguments of a method in call order, and what is wrong with them, in sentences."""

    method: str
    function: Callable[..., Any]
    arguments: list[Argument] = field(default_factory=list)
    takes_more: bool = False
    """Whether a `*args` takes side inputs beyond the named ones."""
    problems: list[str] = field(default_factory=list)

    @property
    def side_inputs(self) -> list[Argument]:
        return [a for a in self.arguments if a.kind is ParamKind.SIDE_INPUT]

    def undeclared(self, argument: Argument) -> str:
        """The sentence about a parameter that has no side input."""
        code = getattr(inspect.unwrap(self.function), "__code__", None)
        calls = () if code is None else _attributes(list(dis.get_instructions(code)))
        used = {attribute for name, attribute in calls if name == argument.name}
        owner = getattr(self.function, "__self__", None)
        return undeclared_problem(argument.name, argument.annotation, used, owner, self.method)

    def specs(self, kind: ParamKind) -> list[Any]:
        return [a.spec for a in self.arguments if a.kind is kind]


def read_signature(
    bound: Callable[..., Any],
    method: str,
    *,
    allowed: frozenset[ParamKind],
    element_first: bool,
    cells_as: type[Any] | None = None,
) -> MethodSignature:
    """Reads the parameters of a bound method.

    `element_first`: a first parameter without a `DoFn.…Param` default is the element, as in `process`. `cells_as`: what the
    method gets for a cell, if it is not the cell of one key.
    """
    signature = MethodSignature(method, bound)
    hints = _hints(bound)
    for position, parameter in enumerate(inspect.signature(bound).parameters.values()):
        parameter = parameter.replace(annotation=hints.get(parameter.name, parameter.annotation))
        signature.problems.extend(_keyword_problems(parameter, method))
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            signature.takes_more = True
        if parameter.kind not in _POSITIONAL:
            continue
        argument = _argument(parameter, is_element=element_first and position == 0)
        signature.arguments.append(argument)
        signature.problems.extend(_argument_problems(argument, parameter, method, allowed))
        signature.problems.extend(default_problems(parameter, getattr(bound, "__self__", None), method))
    signature.problems.extend(_repeated(signature))
    signature.problems.extend(_misused_cells(signature, cells_as))
    signature.problems.extend(foreign_globals(bound, method))
    return signature


def _hints(bound: Callable[..., Any]) -> dict[str, Any]:
    """The annotations, string ones included; empty if a name in them is unknown."""
    try:
        return typing.get_type_hints(bound)
    except Exception:
        return {}


def _argument(parameter: inspect.Parameter, is_element: bool) -> Argument:
    default = parameter.default
    if isinstance(default, (StateParam, TimerParam)):
        return Argument(parameter.name, default.kind, default.spec)
    if isinstance(default, Param):
        return Argument(parameter.name, default.kind)
    if is_element:
        return Argument(parameter.name, ParamKind.ELEMENT)
    return Argument(parameter.name, ParamKind.SIDE_INPUT, default=default, annotation=parameter.annotation)


def _keyword_problems(parameter: inspect.Parameter, method: str) -> Iterator[str]:
    if parameter.kind is not inspect.Parameter.KEYWORD_ONLY:
        return
    if isinstance(parameter.default, Param):
        yield (
            f"{method} takes {parameter.name!r} by keyword only, where {parameter.default!r} would silently be "
            "ignored; put it before the '*'."
        )
    elif parameter.default is inspect.Parameter.empty:
        yield f"{method} takes {parameter.name!r} by keyword only and without a default, so it cannot be called."


def _argument_problems(
    argument: Argument, parameter: inspect.Parameter, method: str, allowed: frozenset[ParamKind]
) -> Iterator[str]:
    if argument.kind not in allowed:
        if argument.kind is ParamKind.SIDE_INPUT and not isinstance(parameter.default, Param):
            if parameter.default is inspect.Parameter.empty:
                yield f"{method} has a parameter {argument.name!r}, but nothing can be passed to it there."
        else:
            yield f"{method} asks for DoFn.{argument.kind.value} as {argument.name!r}, which is not available there."
    if argument.kind is ParamKind.STATE and not isinstance(argument.spec, StateSpec):
        yield f"{method} has StateParam({argument.spec!r}) as {argument.name!r}: {_wrong_spec(argument.spec, 'state')}"
    if argument.kind is ParamKind.TIMER and not isinstance(argument.spec, TimerSpec):
        yield f"{method} has TimerParam({argument.spec!r}) as {argument.name!r}: {_wrong_spec(argument.spec, 'timer')}"
    yield from _annotation_problems(argument, parameter, method)


def _wrong_spec(spec: object, wanted: str) -> str:
    if isinstance(spec, TimerSpec):
        return "that is a timer's spec; use DoFn.TimerParam."
    if isinstance(spec, StateSpec):
        return "that is a state cell's spec; use DoFn.StateParam."
    if isinstance(spec, type):
        return f"that is a class; make an instance, {spec.__name__}('name', ...)."
    return f"that is not a {wanted} spec."


def _annotation_problems(argument: Argument, parameter: inspect.Parameter, method: str) -> Iterator[str]:
    if isinstance(argument.spec, StateSpec):
        what = f"{method} declares the values of {argument.spec!r} to be"
        yield from annotation_problems(argument.spec.coder, parameter.annotation, what)
    annotation = getattr(parameter.annotation, "__origin__", parameter.annotation)
    if not isinstance(annotation, type) or not issubclass(annotation, (State, Timer)):
        return
    declared = f"{method} declares {argument.name!r} as a {annotation.__name__}, but {argument.spec!r} is"
    if isinstance(argument.spec, StateSpec) and not issubclass(argument.spec.live, annotation):
        yield f"{declared} a {argument.spec.kind} cell."
    if isinstance(argument.spec, TimerSpec) and not issubclass(annotation, Timer):
        yield f"{declared} a timer."


def _repeated(signature: MethodSignature) -> Iterator[str]:
    seen: dict[str, str] = {}
    for argument in signature.arguments:
        if argument.kind is ParamKind.SIDE_INPUT:
            continue
        if argument.label in seen:
            yield (
                f"{signature.method} asks for {argument.label} twice, as {seen[argument.label]!r} and as "
                f"{argument.name!r}; keep one."
            )
        seen[argument.label] = argument.name


def _misused_cells(signature: MethodSignature, cells_as: type[Any] | None) -> Iterator[str]:
    """Finds uses of `cell.method` in the byte code where that kind of cell has no such method."""
    cells = {a.name: a.spec for a in signature.arguments if isinstance(a.spec, StateSpec)}
    code = getattr(inspect.unwrap(signature.function), "__code__", None)
    if code is None or not cells:
        return
    instructions = list(dis.get_instructions(code))
    # A name that is rebound may stand for anything afterwards: `seen = list(seen.read())`.
    for name in set(_stored_names(instructions)):
        cells.pop(name, None)
    for name, attribute in dict.fromkeys(_attributes(instructions)):
        spec = cells.get(name)
        if spec is None or hasattr(cells_as or spec.live, attribute):
            continue
        if cells_as is not None:
            kind = f"{name} is a {cells_as.__name__}"
            methods = sorted(method for method in dir(cells_as) if not method.startswith("_"))
        else:
            kind, methods = f"{spec!r} is a {spec.kind} cell", cell_methods(spec)
        here = _FLINKS_METHODS.get(attribute)
        meant = f" Flink's {attribute} is {here} here." if cells_as is None and here in methods else ""
        yield f"{signature.method} calls {name}.{attribute}, but {kind}, which has {', '.join(methods)}.{meant}"


def _attributes(instructions: Iterable[dis.Instruction]) -> Iterator[tuple[str, str]]:
    """Each `name.attribute` of a local variable."""
    previous = None
    for instruction in instructions:
        if instruction.opname in ("LOAD_ATTR", "LOAD_METHOD") and previous is not None:
            yield previous, instruction.argval
        previous = _loaded_name(instruction)


def _loaded_name(instruction: dis.Instruction) -> str | None:
    """The local variable that the instruction leaves on top of the stack, if it loads one."""
    # Newer Pythons have combined instructions, such as STORE_FAST_LOAD_FAST.
    if "LOAD_FAST" not in instruction.opname:
        return None
    loaded = instruction.argval
    return loaded[-1] if isinstance(loaded, tuple) else str(loaded)


def _stored_names(instructions: Iterable[dis.Instruction]) -> Iterator[str]:
    """The local variables that are bound somewhere in the function."""
    for instruction in instructions:
        if instruction.opname.startswith("STORE_FAST"):
            names = instruction.argval if isinstance(instruction.argval, tuple) else (instruction.argval,)
            yield from names[:1] if instruction.opname.endswith("LOAD_FAST") else names
