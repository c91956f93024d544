"""The plan of a step: what travels from the driver to the workers, and what a worker makes of it."""

from __future__ import annotations

import contextlib
import hashlib
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
from pyspark import cloudpickle

from holdfast.engine.failures import DeadLetter
from holdfast.engine.runner import StepRunner
from holdfast.engine.state import Layout
from holdfast.errors import InvalidStep
from holdfast.model.step import DEAD_LETTER_TAG, LATE_TAG, MAIN_TAG, Step, build_step
from holdfast.spark.payload import from_payload, to_payload
from holdfast.spark.rows import ElementReader, OutputWriter

__all__ = ["Loaded", "StepPlan"]


@dataclass(frozen=True)
class StepPlan:
    """Everything a worker needs, with the user's function as bytes: they are decoded once in a worker, not per task."""

    name: str
    pickled: bytes
    """The function and the options of `build_step`, by cloudpickle."""
    reader: ElementReader
    schemas: dict[str, pa.Schema]
    """By tag."""
    manifest: dict[str, Any]
    key_groups: int
    uses_event_time: bool
    uses_processing_time: bool
    chained: bool
    """Whether the elements come from another step of the same query, rather than from a source with a watermark."""
    memory_budget_bytes: int
    side_inputs: dict[str, Any] = field(default_factory=dict)
    """What side inputs are sent as, by the name of the parameter; `*n` for those that go to `*args`."""
    writer: Callable[[pa.Schema, str, str], OutputWriter] = OutputWriter
    script: Script | None = None
    """Of a scripted run in a test: where its clock comes from."""

    @cached_property
    def digest(self) -> str:
        """Tells plans apart in a worker: whatever differs, what the worker made of another plan cannot be used."""
        parts = (self.pickled, self.reader, self.schemas, self.manifest, self.chained, self.writer)
        return hashlib.blake2b(cloudpickle.dumps(parts), digest_size=16).hexdigest()  # type: ignore[no-untyped-call]

    @staticmethod
    def pickle_step(fn: Any, options: dict[str, Any]) -> bytes:
        """The bytes of a function with its options. Modules of the user's own travel with it."""
        with _by_value([type(fn), type(options.get("windowing"))], getattr(fn, "code_modules", ())):
            pickled: bytes = cloudpickle.dumps((fn, options))  # type: ignore[no-untyped-call]
        return pickled

    def load(self) -> Loaded:
        """Builds the step in a worker."""
        try:
            fn, options = cloudpickle.loads(self.pickled)
        except ImportError as error:
            raise InvalidStep(
                self.name,
                [
                    f"A worker cannot import what the function needs: {error}. Install it where the workers run, send it "
                    "with spark.sparkContext.addPyFile(...), or start Spark with hf.session()."
                ],
            ) from None
        return Loaded(self, build_step(fn, **options))


@contextlib.contextmanager
def _by_value(classes: list[type[Any]], more: Iterable[str]) -> Iterator[None]:
    """Workers may not have the files beside the driver's script, but they have what is installed."""
    own = {cls.__module__ for base in classes for cls in base.__mro__} | set(more)
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

    def __init__(self, plan: StepPlan, step: Step) -> None:
        self.plan = plan
        self.step = step
        self.layout = Layout(step, plan.reader.value_coder)
        self._views: dict[str, Any] = {}
        self._versions: dict[str, int] = {}
        self.runner = self._make_runner()
        self.runner.setup()
        self._writers = {tag: plan.writer(schema, step.name, tag) for tag, schema in plan.schemas.items()}

    def _make_runner(self) -> StepRunner:
        named = {name: view for name, view in self._views.items() if not name.startswith("*")}
        extra = [self._views[name] for name in sorted(self._views) if name.startswith("*")]
        return StepRunner(self.step, self.layout, named, extra, origins=self.plan.script is not None)

    def refresh(self, sent: dict[str, Any]) -> None:
        """Takes in side inputs that are new since the last task."""
        versions = {name: side_input.version() for name, side_input in sent.items()}
        if versions != self._versions:
            self._views = {name: side_input.value() for name, side_input in sent.items()}
            self._versions = versions
            self.runner = self._make_runner()

    def pairs(
        self, packed: Iterable[tuple[int, int, bytes | None]], default_time: int
    ) -> tuple[list[tuple[Any, Any]], list[int]]:
        """The elements of packed rows (source, part, payload) and their times, in an order that does not depend on
        the rows' arrival."""
        pairs: list[tuple[Any, Any]] = []
        times: list[int] = []
        for _, _, payload in sorted((row for row in packed if row[2] is not None), key=itemgetter(0, 1)):
            for batch in from_payload(payload):  # type: ignore[arg-type]
                more_pairs, more_times = self.plan.reader.read(batch, default_time)
                pairs += more_pairs
                times += more_times
        return pairs, times

    def payloads(self) -> list[tuple[str, bytes]]:
        """The outputs of the bundle that has run, as (tag, payload) rows."""
        collector = self.runner.collector
        plain = collector.plain()
        by_tag: dict[str, list[Any]] = {}
        if self.plan.script is not None:
            by_tag[MAIN_TAG] = list(self.runner.outputs())
        elif plain is not None:
            by_tag[MAIN_TAG] = plain
        else:
            for tag, value in collector.tagged(self.step):
                by_tag.setdefault(tag, []).append(self._flat(tag, value))
        return [(tag, to_payload(self._writers[tag].write(items))) for tag, items in by_tag.items() if items]

    def _flat(self, tag: str, value: Any) -> Any:
        """Late elements and dead letters as rows: the element's own columns, then what went wrong."""
        reader = self.plan.reader
        if tag == LATE_TAG:
            return reader.flat(*value)
        if tag == DEAD_LETTER_TAG and isinstance(value, DeadLetter):
            return (
                *reader.flat(value.key, value.value),
                value.timestamp,
                value.method,
                value.error,
                value.traceback,
            )
        return value
