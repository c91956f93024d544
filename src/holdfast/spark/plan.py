"""The plan of a step: what travels from the driver to the workers, and what a worker makes of it."""

from __future__ import annotations

import contextlib
import hashlib
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
from pyspark import cloudpickle

from holdfast.engine.backends.choice import Backend
from holdfast.engine.backends.protocol import BackendFactory
from holdfast.engine.failures import DeadLetter
from holdfast.engine.intake import Elements
from holdfast.engine.manifest import Evolution
from holdfast.engine.outputs import tag_and_value
from holdfast.engine.runner import StepRunner
from holdfast.engine.runners import make_runner
from holdfast.engine.state import Layout
from holdfast.engine.whole_windows import PaneCollector, PartialBlock, WholeWindowRunner
from holdfast.errors import HoldfastError, InvalidStep
from holdfast.model.culprits import BACKEND_ADVICE
from holdfast.model.grouping import build
from holdfast.model.step import DEAD_LETTER_TAG, LATE_TAG, MAIN_TAG, OVER_LIMIT_TAG, Step
from holdfast.spark.lifting import LiftedReader
from holdfast.spark.panes import PaneLayout, PaneWriter
from holdfast.spark.payload import from_payload, to_payloads
from holdfast.spark.pickling import pickled, pickled_step
from holdfast.spark.rows import ElementReader, OutputWriter

__all__ = ["Loaded", "StepPlan", "by_value"]


@dataclass(frozen=True)
class StepPlan:
    """Everything a worker needs, with the user's function as bytes: they are decoded once in a worker, not per task."""

    name: str
    pickled: bytes
    """The function and the options of `build_step`, by cloudpickle."""
    reader: ElementReader | LiftedReader
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
    """Of a backend of the user's own: what makes it, by cloudpickle."""
    evolution: Evolution = field(default_factory=Evolution)
    parallel_over: str = "key"
    side_inputs: dict[str, Any] = field(default_factory=dict)
    """What side inputs are sent as, by the name of the parameter; `*n` for those that go to `*args`."""
    panes: PaneLayout | None = None
    """Of an aggregation: what its rows look like."""
    writer: Callable[[pa.Schema, str, str], OutputWriter] = OutputWriter
    script: Script | None = None
    """Of a scripted run in a test: where its clock comes from."""

    @cached_property
    def digest(self) -> str:
        """Tells plans apart in a worker: whatever differs, what the worker made of another plan cannot be used."""
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
    def pickle_step(fn: Any, options: dict[str, Any]) -> bytes:
        """The bytes of a function with its options. Modules of the user's own travel with it."""
        combined = getattr(fn, "fn", None)
        given = list(combined.values()) if isinstance(combined, Mapping) else [combined]
        with by_value([type(fn), type(options.get("windowing")), *map(type, given)], given, getattr(fn, "code_modules", ())):
            return pickled_step(fn, options)

    @staticmethod
    def pickle_backend(step: str, backend: Backend) -> bytes | None:
        """The bytes of the factory of a backend of the user's own."""
        if isinstance(backend, str):
            return None
        with by_value([backend if isinstance(backend, type) else type(backend)]):
            return pickled(step, backend, [(type(backend).__name__, backend)], BACKEND_ADVICE)

    def load(self) -> Loaded:
        """Builds the step in a worker."""
        try:
            fn, options = cloudpickle.loads(self.pickled)
            factory = None if self.factory is None else cloudpickle.loads(self.factory)
        except ImportError as error:
            raise InvalidStep(
                self.name,
                [
                    f"A worker cannot import what the function needs: {error}. Install it where the workers run, send it "
                    "with spark.sparkContext.addPyFile(...), or start Spark with hf.session()."
                ],
            ) from None
        return Loaded(self, build(fn, **options), factory)


@contextlib.contextmanager
def by_value(classes: Sequence[type[Any]], functions: Sequence[Any] = (), more: Iterable[str] = ()) -> Iterator[None]:
    """Workers may not have the files beside the driver's script, but they have what is installed."""
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


class Script(Protocol):
    """Takes the place of Spark's clock in a scripted run, so that tests never wait."""

    def scope(self) -> str:
        """Changes when the worker is to forget everything."""

    def now_micros(self) -> int: ...

    def is_final(self) -> bool: ...


class Loaded:
    """A step in a worker: the user's function, set up, and what reads and writes its rows."""

    def __init__(self, plan: StepPlan, step: Step, factory: BackendFactory | None = None) -> None:
        self.plan = plan
        self.factory = factory
        self.step = step
        self._element_reader = plan.reader.elements if isinstance(plan.reader, LiftedReader) else plan.reader
        self.layout = Layout(step, self._element_reader.value_coder)
        self._views: dict[str, Any] = {}
        self._versions: dict[str, int] = {}
        self._writers = {tag: self._writer(tag, schema) for tag, schema in plan.schemas.items()}
        self.runner = self._make_runner()
        self.runner.setup()

    def _writer(self, tag: str, schema: pa.Schema) -> OutputWriter | PaneWriter:
        if tag == MAIN_TAG and self.plan.panes is not None:
            return PaneWriter(schema, self.step.name, tag, self.plan.panes)
        return self.plan.writer(schema, self.step.name, tag)

    def _make_runner(self) -> StepRunner | WholeWindowRunner:
        named = {name: view for name, view in self._views.items() if not name.startswith("*")}
        extra = [self._views[name] for name in sorted(self._views) if name.startswith("*")]
        scripted = self.plan.script is not None
        check = None if scripted else self._check_output
        return make_runner(self.step, self.layout, named, extra, origins=scripted, check=check)

    def _check_output(self, item: Any) -> None:
        """Raises for an output that does not fit its schema, while the call that gave it can still be taken back."""
        tag, value = tag_and_value(item)
        writer = self._writers.get(tag)
        if isinstance(writer, OutputWriter):
            writer.check(value)

    def refresh(self, sent: dict[str, Any]) -> None:
        """Takes in side inputs that are new since the last task."""
        versions = {name: side_input.version() for name, side_input in sent.items()}
        if versions != self._versions:
            self._views = {name: side_input.value() for name, side_input in sent.items()}
            self._versions = versions
            self.runner = self._make_runner()

    def intake(self, packed: Iterable[tuple[int, int, bytes | None]], default_time: int) -> Elements | PartialBlock:
        """The elements of packed rows (source, part, payload), in an order that does not depend on the rows' arrival."""
        rows = sorted((row for row in packed if row[2] is not None), key=itemgetter(0, 1))
        batches = [batch for _, _, payload in rows for batch in from_payload(payload)]  # type: ignore[arg-type]
        reader = self.plan.reader
        if not isinstance(reader, LiftedReader):
            pairs: list[tuple[Any, Any]] = []
            times: list[int] = []
            for batch in batches:
                more_pairs, more_times = reader.read(batch, default_time)
                pairs += more_pairs
                times += more_times
            return self.runner.elements(pairs, times)
        assert self.step.grouping is not None
        columns = self.step.grouping.columns
        if not isinstance(self.runner, WholeWindowRunner):
            return self.runner.elements(*reader.pairs(batches, columns))
        try:
            return reader.block(batches, columns)
        except HoldfastError as error:
            raise error.within(step=self.step.name) from None

    def payloads(self) -> list[tuple[str, bytes]]:
        """The outputs of the bundle that has run, as (tag, payload) rows."""
        by_tag: dict[str, list[Any]] = {}
        if self.plan.script is not None:
            by_tag[MAIN_TAG] = list(self.runner.outputs())
        elif isinstance(self.runner, WholeWindowRunner):
            return self._pane_payloads(self.runner.collector)
        else:
            collector = self.runner.collector
            plain = collector.plain()
            if plain is not None:
                by_tag[MAIN_TAG] = plain
            else:
                for tag, value in collector.tagged(self.step, whole=self.plan.panes is not None):
                    by_tag.setdefault(tag, []).append(self._flat(tag, value))
        return [row for tag, items in by_tag.items() if items for row in _rows(tag, self._write(tag, items))]

    def _write(self, tag: str, items: list[Any]) -> pa.RecordBatch:
        writer = self._writers[tag]
        return writer.write_values(items) if isinstance(writer, PaneWriter) else writer.write(items)

    def _pane_payloads(self, collector: PaneCollector) -> list[tuple[str, bytes]]:
        payloads = []
        if collector.blocks:
            writer = self._writers[MAIN_TAG]
            assert isinstance(writer, PaneWriter)
            payloads += _rows(MAIN_TAG, writer.write_blocks(collector.blocks))
        if collector.late:
            late = [self._flat(LATE_TAG, element) for element, _, _ in collector.late]
            payloads += _rows(LATE_TAG, self._write(LATE_TAG, late))
        return payloads

    def _flat(self, tag: str, value: Any) -> Any:
        """Elements that were diverted, and dead letters, as rows: the element's own columns, then what went wrong."""
        reader = self._element_reader
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
    """The text of an error, which may quote what no column of texts takes, with that spelled out."""
    return text.encode(errors="backslashreplace").decode()


def _rows(tag: str, batch: pa.RecordBatch) -> list[tuple[str, bytes]]:
    return [(tag, payload) for payload in to_payloads(batch)]
