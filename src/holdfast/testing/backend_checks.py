"""Checks of backends: scripts for the rules of `holdfast.engine.backends.protocol`, with failures that name the rule.

A bundle must give the same outputs and leave the same state as on the heap backend.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from holdfast.engine.backends.choice import backend_problems
from holdfast.engine.backends.protocol import BackendFactory, Commit, Due
from holdfast.errors import HoldfastError
from holdfast.testing.backend_functions import SCRIPTS, Batch, Count, Script
from holdfast.testing.backend_rig import FullStore, KeyGroup, Stopped, Worker
from holdfast.testing.memory_runtime import HeapBackends
from holdfast.testing.memory_store import MemoryStore

__all__ = ["BackendCheck", "BrokenBackend", "backend_checks", "check_backend"]

Play = Callable[[KeyGroup, int, Worker, Batch], Any]
"""Plays one bundle of a script; returns its outputs and the worker that ran it."""

_COUNT = Script("", Count(), [])
_A, _AB, _B = Batch([("a", 0, 0)]), Batch([("a", 0, 0), ("b", 0, 0)]), Batch([("b", 0, 0)])


class BrokenBackend(AssertionError):
    """A backend that breaks a rule: which one, what was expected, and what it gave."""


class BackendCheck:
    """One check. Called with the factory of a backend, it raises BrokenBackend if the rule is broken."""

    def __init__(self, name: str, rule: str, function: Callable[[BackendFactory], None]) -> None:
        self.name = name
        self.rule = rule
        self._function = function

    def __call__(self, factory: BackendFactory) -> None:
        try:
            self._function(factory)
        except _Unexpected as broken:
            raise BrokenBackend(f"{self.name}: the rule is: {self.rule}.\n{broken}") from None
        except Exception as error:
            told = f"{type(error).__name__}: {error}"
            raise BrokenBackend(f"{self.name}: the rule is: {self.rule}.\n  the backend raised {told}") from error

    def __repr__(self) -> str:
        return self.name


class _Unexpected(Exception):
    """What was expected and what the backend gave, in words."""


_CHECKS: list[BackendCheck] = []


def backend_checks() -> list[BackendCheck]:
    """All checks, for `@pytest.mark.parametrize("check", backend_checks(), ids=repr)`. Each takes a factory."""
    return list(_CHECKS)


def check_backend(factory: BackendFactory) -> None:
    """Runs all checks. Raises one BrokenBackend that lists all that failed.

    Each check uses its own places, so the backend's store may be shared and need not be empty.
    """
    problems = list(backend_problems(factory))
    if isinstance(factory, str):
        problems = [f"check_backend takes a factory, not {factory!r}."]
    failed = [f"the factory: {problem}" for problem in problems]
    for check in _CHECKS if not problems else ():
        try:
            check(factory)
        except BrokenBackend as broken:
            failed.append(str(broken))
    if failed:
        raise BrokenBackend(f"{len(failed)} of {len(_CHECKS)} checks failed.\n\n" + "\n\n".join(failed))


def _check(name: str, rule: str) -> Callable[[Callable[[BackendFactory], None]], None]:
    def add(function: Callable[[BackendFactory], None]) -> None:
        _CHECKS.append(BackendCheck(name, rule, function))

    return add


@contextlib.contextmanager
def _group(factory: BackendFactory, script: Script = _COUNT, key_group: int = 0, query: str = "") -> Iterator[KeyGroup]:
    group = KeyGroup(factory, script, key_group, query)
    try:
        yield group
    finally:
        group.release()


def _expect(what: str, expected: Any, got: Any) -> None:
    if isinstance(expected, dict) and isinstance(got, dict):
        keys = sorted({k for k in (*expected, *got) if expected.get(k, "nothing") != got.get(k, "nothing")}, key=repr)[:5]
        lines = [f"{k}: expected {expected.get(k, 'nothing')!r}, got {got.get(k, 'nothing')!r}" for k in keys]
    elif isinstance(expected, list) and isinstance(got, list):
        missing = [item for item in expected if got.count(item) < expected.count(item)]
        extra = [item for item in got if expected.count(item) < got.count(item)]
        lines = [f"missing: {item}" for item in missing[:3]] + [f"not expected: {item}" for item in extra[:3]]
    else:
        lines = [] if expected == got else [f"expected {expected!r}, got {got!r}"]
    if lines:
        raise _Unexpected("\n".join([f"  {what}:", *(f"    {line}" for line in lines)]))


# Whole scripts, as the heap backend plays them.


def _as_on_heap(factory: BackendFactory, script: Script, name: str, play: Play) -> None:
    """Plays a script in one of the ways, and compares everything after each bundle."""
    with _group(factory, script) as group, _group(HeapBackends(), script) as reference:
        worker, expert = group.worker(), reference.worker()
        for number, batch in enumerate(script.batches):
            where = f"bundle {number + 1} of {len(script.batches)}, {name}"
            outputs = reference.micro_batch(expert, batch)
            got, worker = play(group, number, worker, batch)
            _expect(f"the outputs of {where}", outputs, got)
            _expect(f"the state after {where}", reference.content(), group.content())
            fresh = reference.worker()
            fresh.backend.open(MemoryStore(reference.store.committed))
            # Any heap backend, used before or not, may name a time that is too early.
            _expect_due(where, fresh.due(), expert.due(), worker.due())


def _expect_due(where: str, one: Due, another: Due, got: Any) -> None:
    for clock, first, second, told in zip(("event", "real"), one, another, got, strict=True):
        if first is None or second is None:
            continue
        limit = max(first, second)
        if told is None or told > limit:
            told = None if told is None else told / 1e6
            raise _Unexpected(f"  next_due after {where}, {clock} time:\n    expected at most {limit / 1e6}, got {told}")


def _goes_on(group: KeyGroup, number: int, worker: Worker, batch: Batch) -> Any:
    return group.micro_batch(worker, batch), worker


def _crashes(group: KeyGroup, number: int, worker: Worker, batch: Batch) -> Any:
    worker.backend.release()
    worker = group.worker()
    return group.micro_batch(worker, batch), worker


def _by_turns(group: KeyGroup, number: int, worker: Worker, batch: Batch) -> Any:
    if len(group.turns) < 2:
        group.turns.append(group.worker())
    worker = group.turns[number % 2]
    return group.micro_batch(worker, batch), worker


def _rolled_back_first(group: KeyGroup, number: int, worker: Worker, batch: Batch) -> Any:
    worker.bundle(group.store, batch)
    group.store.rollback()
    return group.micro_batch(worker, batch), worker


def _abandoned_first(group: KeyGroup, number: int, worker: Worker, batch: Batch) -> Any:
    with contextlib.suppress(Stopped):
        worker.bundle(group.store, batch, stop_after=1)
    worker.backend.abandon()
    group.store.rollback()
    return group.micro_batch(worker, batch), worker


_WAYS: dict[str, tuple[str, Play]] = {
    "one worker": ("what was committed is what the next bundle sees", _goes_on),
    "a crash before each bundle": ("a new instance sees exactly what was committed", _crashes),
    "two workers by turns": ("open sees what others have committed since", _by_turns),
    "each bundle rolled back once": ("a commit whose store was rolled back leaves no trace", _rolled_back_first),
    "each bundle abandoned once": ("what was abandoned leaves no trace", _abandoned_first),
}


def _add_script(name: str, script: Script, way: str) -> None:
    rule, play = _WAYS[way]

    @_check(f"{name}, {way}", f"{script.shows}; and {rule}")
    def check(factory: BackendFactory) -> None:
        _as_on_heap(factory, script, way, play)


for _name, _script in SCRIPTS.items():
    for _way in _WAYS:
        _add_script(_name, _script, _way)


# Single rules.


@_check("the store goes back after a commit", "open gives the state of the store as it was one commit ago, to any instance")
def _goes_back(factory: BackendFactory) -> None:
    for fresh in (False, True):
        with _group(factory) as group:
            worker = group.worker()
            for _ in range(2):
                group.micro_batch(worker, _A)
            before = dict(group.store.committed)
            group.micro_batch(worker, _AB)
            group.store = MemoryStore(before)
            worker = group.worker() if fresh else worker
            who = "a new instance" if fresh else "the instance that had committed"
            _expect(f"the outputs after going back, of {who}", _counted(a=3), group.micro_batch(worker, _A))
            _expect(f"the outputs after that, of {who}", _counted(a=4, b=1), group.micro_batch(worker, _AB))


@_check("the store goes back several commits", "open gives the state as of then, or refuses with a HoldfastError")
def _goes_far_back(factory: BackendFactory) -> None:
    with _group(factory) as group:
        worker = group.worker()
        group.micro_batch(worker, _A)
        before = dict(group.store.committed)
        for _ in range(30):
            group.micro_batch(worker, _AB)
        group.store = MemoryStore(before)
        for each in (worker, group.worker()):
            with contextlib.suppress(HoldfastError):
                _expect("the outputs after going back thirty commits", _counted(a=2, b=1), each.bundle(group.store, _AB))
            each.backend.abandon()
            group.store.rollback()


@_check("an untold end", "a bundle that was neither committed nor abandoned leaves no trace")
def _untold(factory: BackendFactory) -> None:
    with _group(factory) as group:
        worker = group.worker()
        group.micro_batch(worker, _A)
        with contextlib.suppress(Stopped):
            worker.bundle(group.store, _AB, stop_after=1)
        group.store.rollback()
        _expect("the outputs of the next bundle", _counted(a=2, b=1), group.micro_batch(worker, _AB))


@_check("a store without room", "a commit that raised leaves no trace")
def _without_room(factory: BackendFactory) -> None:
    with _group(factory) as group:
        worker = group.worker()
        group.micro_batch(worker, _A)
        with contextlib.suppress(Stopped):
            worker.bundle(FullStore(group.store.committed), _AB)
        worker.backend.abandon()
        for each in (worker, group.worker()):
            _expect("the outputs of the next bundle", _counted(a=2, b=1), each.bundle(group.store, _AB))
            group.store.rollback()


@_check("the same bundle twice", "the same bundle over the same state gives the same, whoever runs it")
def _twice(factory: BackendFactory) -> None:
    with _group(factory) as group:
        first, second = group.worker(), group.worker()
        group.micro_batch(first, _AB)
        outputs = first.bundle(group.store, _A)
        group.store.rollback()
        _expect("the outputs of the second run", outputs, group.micro_batch(second, _A))
        for worker in (first, second):
            _expect("the outputs of the bundle after it", _counted(a=3), worker.bundle(group.store, _A))
            group.store.rollback()


@_check("two attempts at once", "either of two attempts at one bundle may be the one that counts, and that one is whole")
def _at_once(factory: BackendFactory) -> None:
    for begun in (1, 0):
        for second_counts in (False, True):
            with _group(factory) as group:
                _attempts(group, begun, second_counts)


def _attempts(group: KeyGroup, begun: int, second_counts: bool) -> None:
    """Two attempts that differ: a function need not be deterministic, and only one of them counts."""
    if begun:
        group.micro_batch(group.worker(), _A)
    views = [MemoryStore(group.store.committed) for _ in range(2)]
    first, second = group.worker(), group.worker()
    first.backend.open(views[0])
    try:
        second.bundle(views[1], _B)
    except Exception:
        # The later attempt may be refused; then it does not count.
        second.backend.abandon()
        second_counts = False
    first.finish(views[0], _A)
    group.store = MemoryStore(dict(views[second_counts].items()))
    expected = _counted(a=begun + 1, b=2) if second_counts else _counted(a=begun + 2, b=1)
    for worker in (first, second, group.worker()):
        told = f"the outputs after the {'second' if second_counts else 'first'} attempt was the one that counts"
        _expect(told, expected, worker.bundle(group.store, _AB))
        group.store.rollback()


@_check("places are apart", "a key group sees nothing of another key group or another query")
def _apart(factory: BackendFactory) -> None:
    with _group(factory) as first, _group(factory, key_group=1, query=first.place.query) as second, _group(factory) as third:
        workers = [group.worker() for group in (first, second, third)]
        for times in (1, 2):
            for group, worker in zip((first, second, third), workers, strict=True):
                _expect("the outputs of a key group", _counted(a=times), group.micro_batch(worker, _A))


@_check("parts", "each element is in exactly one part, and a part's state has everything of its keys")
def _parts(factory: BackendFactory) -> None:
    keys = [f"key {n}" for n in range(100)]
    batch = Batch([(key, 0, 0) for key in (*keys, *keys[::3])])
    with _group(factory) as group:
        worker = group.worker()
        group.micro_batch(worker, Batch([(key, 0, 0) for key in keys]))
        worker.backend.open(group.store)
        places: list[int] = []
        for part in worker.parts(batch):
            taken: Sequence[int] = range(len(batch.elements)) if part.positions is None else part.positions
            places += taken
            held = {slot for window in part.state.windows.values() for slot in window.slots()}
            wanted = {batch.elements[place][0] for place in taken}
            _expect("keys of a part that its state does not have", [], sorted(wanted - held))
        worker.backend.abandon()
        _expect("the places of the elements in all parts", list(range(len(batch.elements))), sorted(places))


@_check("commit", "commit gives a Commit; a bundle that changed nothing leaves the state as it was")
def _commits(factory: BackendFactory) -> None:
    with _group(factory) as group:
        worker = group.worker()
        group.micro_batch(worker, _A)
        for each in (worker, group.worker()):
            each.backend.open(group.store)
            for _ in each.parts(Batch()):
                pass
            _expect("what commit gives is a Commit", True, isinstance(each.backend.commit(group.store), Commit))
            group.store.commit()
        _expect("the outputs of the bundle after it", _counted(a=2), group.micro_batch(worker, _A))


@_check("release", "after release the state is read again when it is needed, and memory_bytes is a number of bytes")
def _releases(factory: BackendFactory) -> None:
    with _group(factory) as group:
        worker = group.worker()
        group.micro_batch(worker, _A)
        size: Any = worker.backend.memory_bytes
        _expect("memory_bytes is a number of bytes", True, isinstance(size, int) and size >= 0)
        worker.backend.release()
        worker.backend.release()
        _expect("the outputs after release", _counted(a=2), group.micro_batch(worker, _A))


@_check("everything", "everything gives the state of the store's content, whatever the instance holds")
def _everything(factory: BackendFactory) -> None:
    with _group(factory) as group:
        worker = group.worker()
        group.micro_batch(worker, _A)
        worker.bundle(group.store, _AB)
        group.store.rollback()
        _expect("the state after a commit that was rolled back", 1, sum(group.content().values()))


def _counted(**counts: int) -> list[str]:
    """The outputs of a bundle in which each of these keys is counted."""
    return sorted(f"{(key, count)!r} at 0 in GlobalWindow" for key, count in counts.items())
