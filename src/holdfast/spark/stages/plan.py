"""The plan of a step: what the driver sends to the workers, and what a worker makes of it."""

from __future__ import annotations

import contextlib
import hashlib
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
from pyspark import cloudpickle

from holdfast.engine.backends.choice import Backend
from holdfast.engine.backends.protocol import BackendFactory
from holdfast.engine.run.choice import make_runner
from holdfast.engine.run.failures import DeadLetter
from holdfast.engine.run.outputs import tag_and_value
from holdfast.engine.run.runner import I, PaneBlock, Runner, SessionBlock
from holdfast.engine.state.key_group import Layout
from holdfast.engine.stored.manifest import Evolution
from holdfast.errors import HoldfastError, InvalidStep
from holdfast.model.functions.culprits import BACKEND_ADVICE
from holdfast.model.functions.grouping import Column, build
from holdfast.model.functions.options import StepOptions
from holdfast.model.functions.step import DEAD_LETTER_TAG, LATE_TAG, MAIN_TAG, OVER_LIMIT_TAG, Step
from holdfast.model.state.limits import Limits
from holdfast.spark.stages.clock import BatchClock, Clock
from holdfast.spark.stages.panes import PaneLayout, PaneWriter
from holdfast.spark.stages.payload import from_payload, to_payloads
from holdfast.spark.stages.pickling import pickled, pickled_step
from holdfast.spark.types.batch_rows import write_arrays
from holdfast.spark.types.rows import ElementReader, OutputWriter

__all__ = ["Loaded", "Reader", "StepPlan", "by_value"]

_DIVERTED = (LATE_TAG, OVER_LIMIT_TAG, DEAD_LETTER_TAG)


@dataclass(frozen=True)
class StepPlan:
    """Everything a worker needs, with the user's function as bytes, which are decoded once per worker, not per task."""

    name: str
    pickled: bytes
    """The function and its `StepOptions`, by cloudpickle."""
    reader: Reader
    schemas: dict[str, pa.Schema]
    """By tag."""
    manifest: dict[str, Any]
    key_groups: int
    uses_event_time: bool
    uses_processing_time: bool
    chained: bool
    """Whether the elements come from another step of the same query, rather than from a source with a watermark."""
    memory_budget_bytes: int
    backend: str = "heap"
    factory: bytes | None = None
    """The factory of a user's own backend, by cloudpickle."""
    names_backend: bool = False
    """Whether the step itself has named its backend, so that its job's does not count."""
    evolution: Evolution = field(default_factory=Evolution)
    parallel_over: str = "key"
    side_inputs: dict[str, Any] = field(default_factory=dict)
    """The side inputs as sent, by the name of the parameter; `*n` for those that go to `*args`."""
    panes: PaneLayout | None = None
    """For an aggregation: what its rows look like."""
    clock: Clock = field(default_factory=BatchClock)
    writer: Callable[[pa.Schema, str, str], OutputWriter] = OutputWriter
    function: str = ""
    """The class of the user's function, for people."""
    limits: Limits | None = None
    origins: bool = False
    """Whether outputs leave unchanged, with their times and windows, for tests."""

    @cached_property
    def digest(self) -> str:
        """Identifies a plan in a worker: whatever differs, nothing made from another plan can be reused."""
        parts = (
            self.pickled,
            self.factory,
            self.reader,
            self.schemas,
            self.manifest,
            self.chained,
            self.writer,
            self.panes,
            self.evolution,
        )
        return hashlib.blake2b(cloudpickle.dumps(parts), digest_size=16).hexdigest()  # type: ignore[no-untyped-call]

    @staticmethod
    def pickle_step(fn: Any, options: StepOptions) -> bytes:
        """The bytes of a function with its options. The user's own modules travel with it."""
        combined = getattr(fn, "fn", None)
        given = list(combined.values()) if isinstance(combined, Mapping) else [combined]
        with by_value([type(fn), type(options.windowing), *map(type, given)], given, getattr(fn, "code_modules", ())):
            return pickled_step(fn, options)

    @staticmethod
    def pickle_backend(step: str, backend: Backend) -> bytes | None:
        """The bytes of the factory of a user's own backend."""
        if isinstance(backend, str):
            return None
        with by_value([backend if isinstance(backend, type) else type(backend)]):
            return pickled(step, backend, [(type(backend).__name__, backend)], BACKEND_ADVICE)

    def running_on(self, backend: str | None) -> StepPlan:
        """The plan in a job with this backend of Holdfast's own."""
        if backend in (None, self.backend) or self.names_backend:
            return self
        return replace(self, backend=backend, manifest={**self.manifest, "backend": backend})

    def in_slot(self, slot: int) -> StepPlan:
        """The plan of the step in an operator that it shares: its manifest says which labels are its own."""
        return replace(self, manifest={**self.manifest, "slot": slot}) if slot else self

    def load(self) -> Loaded:
        """Builds the step in a worker."""
        with self._imported():
            fn, options = cloudpickle.loads(self.pickled)
            factory = None if self.factory is None else cloudpickle.loads(self.factory)
        return Loaded(self, build(fn, options), factory)

    def layout(self) -> Layout:
        """The layout of its cells, in a worker that does not run it: the function is not set up."""
        with self._imported():
            fn, options = cloudpickle.loads(self.pickled)
        return Layout(build(fn, options), self.reader.elements.value_coder)

    @contextlib.contextmanager
    def _imported(self) -> Iterator[None]:
        try:
            yield
        except ImportError as error:
            raise InvalidStep(
                self.name,
                [
                    f"A worker cannot import what the function needs: {error}. Install it where the workers run, send it "
                    "with spark.sparkContext.addPyFile(...), or start Spark with hf.session()."
                ],
            ) from None


@contextlib.contextmanager
def by_value(classes: Sequence[type[Any]], functions: Sequence[Any] = (), more: Iterable[str] = ()) -> Iterator[None]:
    """Pickles the user's modules by value: workers may lack files beside the driver's script, but have installed ones."""
    own = {cls.__module__ for base in classes for cls in base.__mro__}
    own |= set(more) | {str(getattr(function, "__module__", None)) for function in functions}
    modules = [sys.modules[name] for name in sorted(own) if name != "__main__" and _is_users_own(name)]
    for module in modules:
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)  # type: ignore[no-untyped-call]


def _is_users_own(name: str) -> bool:
    if name.split(".")[0] == "holdfast" or name not in sys.modules:
        return False
    file = getattr(sys.modules[name], "__file__", None)
    installed = [sysconfig.get_path(kind) for kind in ("stdlib", "purelib", "platlib")]
    return file is not None and not any(Path(file).is_relative_to(path) for path in installed)


class Reader(Protocol):
    """Reads what crossed the shuffle."""

    @property
    def elements(self) -> ElementReader:
        """Reads the elements themselves."""

    def intake(self, runner: Runner[I], batches: list[pa.RecordBatch], columns: tuple[Column, ...], now: int) -> I:
        """The runner's intake; `now` is the time of elements that have none, `columns` are those of an aggregation."""


class Loaded:
    """A step in a worker: the user's function, set up, and what reads and writes its rows."""

    def __init__(self, plan: StepPlan, step: Step, factory: BackendFactory | None = None) -> None:
        self.plan = plan
        self.factory = factory
        self.step = step
        self.layout = Layout(step, plan.reader.elements.value_coder)
        self._views: dict[str, Any] = {}
        self._versions: dict[str, int] = {}
        self._writers = {tag: self._writer(tag, schema) for tag, schema in plan.schemas.items()}
        self.runner = self._make_runner()
        self.runner.setup()

    def _writer(self, tag: str, schema: pa.Schema) -> OutputWriter | PaneWriter:
        if tag == MAIN_TAG and self.plan.panes is not None:
            return PaneWriter(schema, self.step.name, tag, self.plan.panes)
        return self.plan.writer(schema, self.step.name, tag)

    def _make_runner(self) -> Runner[Any]:
        named = {name: view for name, view in self._views.items() if not name.startswith("*")}
        extra = [self._views[name] for name in sorted(self._views) if name.startswith("*")]
        check = None if self.plan.origins else self._check_output
        return make_runner(self.step, self.layout, named, extra, origins=self.plan.origins, check=check)

    def _check_output(self, item: Any) -> None:
        """Raises for an output that does not fit its schema, while its call can still be rolled back."""
        tag, value = tag_and_value(item)
        if tag in (LATE_TAG, OVER_LIMIT_TAG) or isinstance(value, DeadLetter):
            # An element, whose own columns it will have.
            return
        writer = self._writers.get(tag)
        if isinstance(writer, OutputWriter):
            writer.check(value)

    def refresh(self, sent: dict[str, Any]) -> None:
        """Takes side inputs that are new since the last task."""
        versions = {name: side_input.version() for name, side_input in sent.items()}
        if versions != self._versions:
            self._views = {name: side_input.value() for name, side_input in sent.items()}
            self._versions = versions
            self.runner = self._make_runner()

    def intake(self, packed: Iterable[tuple[int, int, bytes | None]], default_time: int) -> Any:
        """The input in packed rows (source, part, payload), in an order that does not depend on their arrival."""
        rows = sorted((row for row in packed if row[2] is not None), key=itemgetter(0, 1))
        batches = [batch for _, _, payload in rows for batch in from_payload(payload)]  # type: ignore[arg-type]
        columns = () if self.step.grouping is None else self.step.grouping.columns
        try:
            return self.plan.reader.intake(self.runner, batches, columns, default_time)
        except HoldfastError as error:
            raise error.within(step=self.step.name) from None

    def payloads(self) -> list[tuple[str, bytes]]:
        """The outputs of the bundle that has run, as (tag, payload) rows."""
        return [(tag, payload) for tag, batch in self.outputs() for payload in to_payloads(batch)]

    def outputs(self) -> list[tuple[str, pa.RecordBatch]]:
        """The outputs of the bundle that has run, as batches with their tags."""
        written = _Written(self)
        if self.plan.origins:
            written.take_values(MAIN_TAG, list(self.runner.outputs()))
        else:
            self.runner.deliver(written)
        return written.batches

    def write_values(self, tag: str, values: list[Any]) -> pa.RecordBatch:
        writer = self._writers[tag]
        if isinstance(writer, PaneWriter):
            return writer.write_values(values)
        return writer.write([self._flat(tag, value) for value in values] if tag in _DIVERTED else values)

    def write_columns(self, tag: str, columns: Mapping[str, Any]) -> pa.RecordBatch:
        writer = self._writers[tag]
        assert isinstance(writer, OutputWriter)
        try:
            return write_arrays(writer, columns)
        except HoldfastError as error:
            raise error.within(step=self.step.name) from None

    @property
    def pane_writer(self) -> PaneWriter:
        """Of an aggregation."""
        writer = self._writers[MAIN_TAG]
        assert isinstance(writer, PaneWriter)
        return writer

    def _flat(self, tag: str, value: Any) -> Any:
        """Diverted elements and dead letters as rows: the element's own columns, then what went wrong."""
        reader = self.plan.reader.elements
        if tag in (LATE_TAG, OVER_LIMIT_TAG):
            return reader.flat(*value)
        if tag == DEAD_LETTER_TAG and isinstance(value, DeadLetter):
            return (
                *reader.flat(value.key, value.value),
                value.timestamp,
                value.method,
                _writable(value.error),
                _writable(value.traceback),
            )
        return value


def _writable(text: str) -> str:
    """The text of an error, escaping characters that no string column takes."""
    return text.encode(errors="backslashreplace").decode()


class _Written:
    """Outputs as they are written: batches with their tags."""

    def __init__(self, loaded: Loaded) -> None:
        self._loaded = loaded
        self.batches: list[tuple[str, pa.RecordBatch]] = []

    def take_values(self, tag: str, values: list[Any]) -> None:
        if values:
            self.batches.append((tag, self._loaded.write_values(tag, values)))

    def take_columns(self, tag: str, columns: Mapping[str, Any]) -> None:
        self.batches.append((tag, self._loaded.write_columns(tag, columns)))

    def take_panes(self, blocks: list[PaneBlock]) -> None:
        self.batches.append((MAIN_TAG, self._loaded.pane_writer.write_blocks(blocks)))

    def take_sessions(self, block: SessionBlock) -> None:
        self.batches.append((MAIN_TAG, self._loaded.pane_writer.write_sessions(block)))
