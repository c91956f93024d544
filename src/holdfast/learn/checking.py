"""Checks a file in which exercises were done: loads it, and plays the script of each case in memory.

The file is the learner's own program, and is run as such.
"""

from __future__ import annotations

import contextlib
import sys
import traceback
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.errors import HoldfastError, InputError, UserCodeError
from holdfast.learn.cases import Case, Exercise
from holdfast.learn.exercises import EXERCISES
from holdfast.model.aggregate.combine import CombineFn
from holdfast.model.functions.dofn import DoFn
from holdfast.model.functions.grouping import CombinePerKey
from holdfast.model.functions.step import get_dofn_specs, validate_stateful_dofn
from holdfast.testing import run

__all__ = ["Checked", "Outcome", "check_file"]

_MODULE = "holdfast_exercise"
_AS_ABOVE = "it raises the same error"
_LEFT = "Clear each cell of a key when it is not needed any more, with its clear()."
_NOT_WRITTEN = "it is not written yet: a method raises NotImplementedError"


@dataclass(frozen=True)
class Outcome:
    """Whether one thing is as it must be; if not, what is wrong and what to do."""

    shows: str
    wrong: str = ""
    todo: str = ""
    raised: bool = False
    """Whether that is an error of the function's."""

    @property
    def passed(self) -> bool:
        return not self.wrong


@dataclass(frozen=True)
class Checked:
    """An exercise that was found in a file, and what was checked. If its class cannot be built, nothing else is."""

    exercise: Exercise
    outcomes: tuple[Outcome, ...]

    @property
    def passed(self) -> bool:
        return all(outcome.passed for outcome in self.outcomes)


def check_file(path: str | Path) -> list[Checked]:
    """Checks all exercises that a file has classes for. Raises InputError if it has none, or cannot be run."""
    with _loaded(Path(path)) as names:
        found = [exercise for exercise in EXERCISES if exercise.class_name in names]
        if not found:
            classes = ", ".join(exercise.class_name for exercise in EXERCISES)
            raise InputError(
                f"{path} has no class of an exercise.", todo=f"name the class as the task does, one of: {classes}"
            )
        return [Checked(exercise, tuple(_outcomes(exercise, names[exercise.class_name]))) for exercise in found]


@contextlib.contextmanager
def _loaded(path: Path) -> Iterator[dict[str, Any]]:
    """The names that a file defines. Its module is there for as long as they are in use, since classes look for theirs."""
    try:
        code = compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from None
    except (SyntaxError, ValueError) as error:
        raise InputError(f"{path} is not valid Python: {error}") from None
    module = types.ModuleType(_MODULE)
    module.__file__ = str(path)
    sys.modules[_MODULE] = module
    try:
        try:
            exec(code, module.__dict__)
        except ModuleNotFoundError as error:
            what = f"{path} fails when it is loaded: {_short(error, path)}"
            raise InputError(what, todo="import holdfast as hf has all that an exercise needs") from error
        except (Exception, SystemExit) as error:
            raise InputError(f"{path} fails when it is loaded: {_short(error, path)}") from error
        yield module.__dict__
    finally:
        del sys.modules[_MODULE]


def _outcomes(exercise: Exercise, cls: Any) -> Iterator[Outcome]:
    shows = f"is a {_kind(exercise).__name__} that can be built"
    todo = f"holdfast learn hint {exercise.name}"
    try:
        wrong = _shape_problem(exercise, cls)
    except NotImplementedError:
        wrong = _NOT_WRITTEN
    except HoldfastError as error:
        wrong = str(error)
    except Exception as error:
        wrong = f"{type(error).__name__}: {error}"
    if wrong:
        yield Outcome(shows, wrong, todo)
        return
    yield Outcome(shows)
    raised = set()
    for case in exercise.cases:
        outcome = _outcome(exercise, case, cls)
        if outcome.raised and outcome.wrong in raised:
            # What the case has to say is about something else.
            yield Outcome(outcome.shows, _AS_ABOVE)
            continue
        if outcome.raised:
            raised.add(outcome.wrong)
        yield outcome
        if outcome.wrong == _NOT_WRITTEN:
            return
    if exercise.uses:
        missing = _missing_kinds(exercise, cls())
        names = " and a ".join(kind.__name__ for kind in exercise.uses)
        yield Outcome(
            f"does so with a {names}", f"no method asks for a {missing[0]}" if missing else "", todo if missing else ""
        )


def _kind(exercise: Exercise) -> type:
    return CombineFn if any(case.parts for case in exercise.cases) else DoFn


def _shape_problem(exercise: Exercise, cls: Any) -> str:
    wanted = _kind(exercise)
    if not (isinstance(cls, type) and issubclass(cls, wanted)):
        return f"{exercise.class_name} is not a class that derives from hf.{wanted.__name__}"
    if issubclass(cls, DoFn):
        validate_stateful_dofn(cls())
    return ""


def _missing_kinds(exercise: Exercise, fn: DoFn) -> list[str]:
    """The kinds of cells and timers that the function was to have, and has not."""
    cells, timers = get_dofn_specs(fn)
    specs = [*cells, *timers]
    return [kind.__name__ for kind in exercise.uses if not any(isinstance(spec, kind) for spec in specs)]


def _outcome(exercise: Exercise, case: Case, cls: Any) -> Outcome:
    try:
        fn = cls()
        if case.parts:
            return _compared(case, [_merged(fn, case.parts)])
        out = run(CombinePerKey(fn) if isinstance(fn, CombineFn) else fn, case.stream, **case.options)
        return _compared(case, out.values, out.keys())
    except UserCodeError as error:
        if isinstance(error.__cause__, NotImplementedError):
            return Outcome(case.shows, _NOT_WRITTEN, f"holdfast learn hint {exercise.name}")
        return Outcome(case.shows, str(error), case.todo, raised=True)
    except NotImplementedError:
        return Outcome(case.shows, _NOT_WRITTEN, f"holdfast learn hint {exercise.name}")
    except HoldfastError as error:
        return Outcome(case.shows, str(error), case.todo, raised=True)
    except Exception as error:
        return Outcome(case.shows, f"{type(error).__name__}: {error}", case.todo, raised=True)


def _merged(fn: CombineFn[Any, Any, Any], parts: tuple[tuple[object, ...], ...]) -> object:
    """What comes out if each part has an accumulator of its own, and these are merged."""
    accumulators = []
    for part in parts:
        accumulator = fn.create_accumulator()
        for value in part:
            accumulator = fn.add_input(accumulator, value)
        accumulators.append(accumulator)
    return fn.extract_output(fn.merge_accumulators(accumulators))


def _compared(case: Case, values: list[object], left: Sequence[object] = ()) -> Outcome:
    if _plain(values) != _plain(case.wants):
        return Outcome(case.shows, f"expected: {_rows(case.wants)}\nbut got:  {_rows(values)}", case.todo)
    if case.keeps is not None and list(left) != list(case.keeps):
        todo = _LEFT if set(left) - set(case.keeps) else case.todo
        kept = f"the results are right; at the end there is state of {_rows(left)}, and should be of {_rows(case.keeps)}"
        return Outcome(case.shows, kept, todo)
    return Outcome(case.shows)


def _plain(value: object) -> object:
    """The same with lists for tuples and for what a bag gives, so that any of them will do."""
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes, Mapping, Set)):
        return [_plain(item) for item in value]
    return value


def _rows(values: Sequence[object]) -> str:
    return ", ".join(map(repr, values)) or "nothing"


def _short(error: BaseException, path: Path) -> str:
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    where = f" (line {lines[-1]})" if lines else ""
    return f"{type(error).__name__}: {error}{where}"
