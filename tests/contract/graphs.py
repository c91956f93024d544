"""Graphs of steps, described once, and three ways to find what they write: in memory, on Spark, and by hand.

All rows are a key and a number. A step that is given the output of several others counts, since which of them come first is
not said.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import holdfast as hf
from holdfast.model.functions.options import StepOptions
from holdfast.model.functions.step import build_step
from holdfast.testing import TestStream
from holdfast.testing.memory_runtime import MemoryRuntime

SCHEMA = "k string, v int"
KEY_GROUPS = 2
ROW = pa.schema([("k", pa.string()), ("v", pa.int32())])
SOURCE = "source"

Row = tuple[str, int]
Rows = list[Row]
Given = tuple[str, ...]
"""The source, or outputs of steps as "step.tag"; their rows together."""


# Functions


class Numbered(hf.DoFn):
    """Adds 1001 for each row that the key has had, so that the order of a key's rows shows."""

    SEEN = hf.ValueStateSpec("seen", hf.VarIntCoder())

    def process(self, element, seen=hf.DoFn.StateParam(SEEN)):
        key, value = element
        seen.write((seen.read() or 0) + 1)
        yield key, value + 1001 * seen.read()


class Counted(Numbered):
    """Gives how many rows the key has had: the same, whatever order they come in."""

    def process(self, element, seen=hf.DoFn.StateParam(Numbered.SEEN)):
        seen.write((seen.read() or 0) + 1)
        yield element[0], seen.read()


class Lettered(Numbered):
    """Gives rows to another key, the first letter of their own. It remembers something, but that does not show."""

    def process(self, element, seen=hf.DoFn.StateParam(Numbered.SEEN)):
        key, value = element
        seen.write(value)
        yield key[0], value


class Strict(Numbered):
    """Refuses multiples of seven, numbers the rest, and gives even numbers to another output."""

    def process(self, element, seen=hf.DoFn.StateParam(Numbered.SEEN)):
        _, value = element
        # What is written before the refusal must be forgotten.
        rows = list(Numbered.process(self, element, seen))
        if value % 7 == 0:
            raise ValueError(f"seven divides {value}")
        return [hf.TaggedOutput("even", row) for row in rows] if value % 2 == 0 else rows


# The same by hand, over all rows at once


def numbered(rows: Rows) -> dict[str, Rows]:
    had: Counter[str] = Counter()
    found = []
    for key, value in rows:
        had[key] += 1
        found.append((key, value + 1001 * had[key]))
    return {"main": found}


def counted(rows: Rows) -> dict[str, Rows]:
    return {"main": [(key, n + 1) for key, many in Counter(key for key, _ in rows).items() for n in range(many)]}


def lettered(rows: Rows) -> dict[str, Rows]:
    return {"main": [(key[0], value) for key, value in rows]}


def strict(rows: Rows) -> dict[str, Rows]:
    taken = [row for row in rows if row[1] % 7]
    even = [value % 2 == 0 for _, value in taken]
    pairs = list(zip(numbered(taken)["main"], even, strict=True))
    return {
        "main": [row for row, is_even in pairs if not is_even],
        "even": [row for row, is_even in pairs if is_even],
        "dead_letter": [row for row in rows if row[1] % 7 == 0],
    }


BY_HAND: dict[type[hf.DoFn], Callable[[Rows], dict[str, Rows]]] = {
    Numbered: numbered,
    Counted: counted,
    Lettered: lettered,
    Strict: strict,
}


# Graphs


@dataclass(frozen=True)
class Step:
    name: str
    fn: type[hf.DoFn]
    given: Given = (SOURCE,)

    @property
    def tags(self) -> tuple[str, ...]:
        """Its outputs besides the main one."""
        return ("even", "dead_letter") if self.fn is Strict else ()

    @property
    def outputs(self) -> Given:
        return tuple(f"{self.name}.{tag}" for tag in ("main", *self.tags))

    @property
    def options(self) -> dict[str, Any]:
        return {"name": self.name, "key_groups": KEY_GROUPS, "on_error": "dead_letter" if self.tags else "fail"}


@dataclass(frozen=True)
class Graph:
    """Steps in an order in which each follows those it depends on, and what each sink is given."""

    steps: tuple[Step, ...]
    sinks: tuple[Given, ...]


Written = list[Rows]
"""The rows of each sink, sorted."""


def together(given: Given, rows: dict[str, Rows]) -> Rows:
    return [row for name in given for row in rows[name]]


def plain(graph: Graph, batches: Sequence[Rows]) -> Written:
    """What the sinks must get, by hand."""
    rows: dict[str, Rows] = {SOURCE: [row for batch in batches for row in batch]}
    for step in graph.steps:
        found = BY_HAND[step.fn](together(step.given, rows))
        rows |= {f"{step.name}.{tag}": found[tag] for tag in ("main", *step.tags)}
    return [sorted(together(given, rows)) for given in graph.sinks]


class InMemory:
    """A graph in memory: each step by itself, one after the other, micro-batch by micro-batch."""

    def __init__(self, graph: Graph, backend: Callable[[], Any] = lambda: "heap") -> None:
        self._graph = graph
        self._runtimes = {step.name: _runtime(step, backend()) for step in graph.steps}
        self._sinks: list[Rows] = [[] for _ in graph.sinks]

    def run(self, batches: Iterable[Rows]) -> None:
        for batch in batches:
            rows = {SOURCE: batch}
            for step in self._graph.steps:
                rows |= self._play(step, together(step.given, rows))
            for sink, given in zip(self._sinks, self._graph.sinks, strict=True):
                sink += together(given, rows)

    def _play(self, step: Step, rows: Rows) -> dict[str, Rows]:
        """Runs one micro-batch of a step; gives its outputs."""
        runtime = self._runtimes[step.name]
        had = len(runtime.outputs)
        [event] = TestStream().add_elements(rows).events
        runtime.play(event)
        found: dict[str, Rows] = {name: [] for name in step.outputs}
        for output in runtime.outputs[had:]:
            found[f"{step.name}.{output.tag}"].append(tuple(output.value[:2]))
        return found

    def crash(self) -> None:
        """All memory of all steps is lost."""
        for runtime in self._runtimes.values():
            for event in TestStream().crash().events:
                runtime.play(event)

    def finish(self) -> Written:
        for runtime in self._runtimes.values():
            runtime.finish()
        return [sorted(sink) for sink in self._sinks]


def _runtime(step: Step, backend: Any) -> MemoryRuntime:
    options = StepOptions(**step.options, outputs=step.tags, backend=backend)
    return MemoryRuntime(lambda: build_step(step.fn(), options), options)


class OnSpark:
    """A graph as a job on Spark, over files, each a micro-batch."""

    def __init__(self, graph: Graph, folder: Path, backend: Callable[[], Any] = lambda: "heap") -> None:
        from holdfast.testing.spark_runtime import scripted_session

        self._graph = graph
        self._spark = scripted_session()
        self._input, self._checkpoint = folder / "input", folder / "checkpoint"
        self._input.mkdir()
        self._files = 0
        self._backends = {step.name: backend() for step in graph.steps}
        self._sinks = [hf.sinks.Collect() for _ in graph.sinks]

    def run(self, batches: Iterable[Rows]) -> None:
        """Adds files, and runs a new job on the checkpoint until all are done."""
        for batch in batches:
            self._add(batch)
        frames = self._frames()
        job = hf.Job("graph", checkpoint=str(self._checkpoint), trigger="available now", progress=False)
        for sink, given in zip(self._sinks, self._graph.sinks, strict=True):
            job.write(_union(given, frames), sink)
        job.run()

    def _add(self, batch: Rows) -> None:
        path = self._input / f"{self._files:05d}.parquet"
        pq.write_table(pa.table(list(zip(*batch, strict=True)), schema=ROW), path)
        # Files come in the order of their times, which could be the same.
        os.utime(path, (1_700_000_000 + self._files,) * 2)
        self._files += 1

    def _frames(self) -> dict[str, Any]:
        """The source and all outputs, built anew."""
        reader = self._spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        frames: dict[str, Any] = {SOURCE: reader.parquet(str(self._input))}
        for step in self._graph.steps:
            schemas = {tag: None if tag == "dead_letter" else SCHEMA for tag in step.tags}
            made = hf.keyed(_union(step.given, frames), key="k", value="v").par_do(
                step.fn(), outputs={"main": SCHEMA, **schemas}, backend=self._backends[step.name], **step.options
            )
            frames |= {f"{step.name}.{tag}": made[tag] for tag in made}
        return frames

    def crash(self) -> None:
        """Each run is a job of its own."""

    def finish(self) -> Written:
        return [sorted(map(tuple, sink.rows)) for sink in self._sinks]


def _union(given: Given, frames: dict[str, Any]) -> Any:
    """The rows of several outputs. Dead letters have more columns than others."""
    first, *rest = (frames[name].select("k", "v") if name.endswith(".dead_letter") else frames[name] for name in given)
    for other in rest:
        first = first.union(other)
    return first
