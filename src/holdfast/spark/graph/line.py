"""Puts the steps of a graph in a line: the DataFrame of one query that runs each of them once. See `stages/line.py`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from holdfast.checkpoint.labels import labels
from holdfast.errors import InvalidStep
from holdfast.spark.graph.branches import Branch, branches_of, stateful_nodes
from holdfast.spark.graph.catalyst import Catalyst, attributes, expression_id
from holdfast.spark.graph.edges import Bypass, Edge, OutputOf
from holdfast.spark.graph.graph import Graph
from holdfast.spark.graph.handing import handoff_of
from holdfast.spark.graph.placing import Placement
from holdfast.spark.graph.sources import in_recorded_order
from holdfast.spark.graph.weaving import Weave, Woven, multiplies_rows, weaving_problem
from holdfast.spark.stages.handoff import Handoff
from holdfast.spark.stages.line import (
    LINE_COLUMNS,
    LINE_SCHEMA,
    REPORT_ROUTE,
    Beacon,
    Exit,
    Lane,
    LineProcessor,
    Origin,
    SinkLane,
    Stop,
    pack_lanes,
    unpack_origins,
)
from holdfast.spark.stages.metrics import observed
from holdfast.spark.stages.processor import transformed, with_batch_time
from holdfast.spark.steps.lineage import BuiltStep, analyzed, tasks_vary

__all__ = ["Line", "line_of"]


@dataclass(frozen=True)
class Line:
    """The query of a graph."""

    frame: DataFrame
    """Rows of the line, of which only outputs that sinks want are left."""
    routes: dict[OutputOf | Bypass, int]

    def rows_of(self, origin: OutputOf | Bypass) -> Column:
        """Which rows of a micro-batch are those of an output, or of a source."""
        return F.col("route") == self.routes[origin]


def line_of(spark: SparkSession, graph: Graph, placement: Placement, sources: Sequence[str] | None = None) -> Line:
    """The line of a graph, with its sources in the order of these marks. Raises InvalidStep if something between two of its
    steps cannot be part of it."""
    return _Builder(spark, graph, placement, sources).line()


class _Builder:
    def __init__(self, spark: SparkSession, graph: Graph, placement: Placement, sources: Sequence[str] | None) -> None:
        self._spark = spark
        self._marks = sources
        self._catalyst = Catalyst(spark)
        self._graph = graph
        self._placement = placement
        numbers = iter(range(2**31 - 1))
        self._inputs = dict(zip(graph.steps, numbers, strict=False))
        self._outputs = dict(zip(graph.wanted, numbers, strict=False))
        self._handoffs: dict[Edge, Handoff] = {}
        for edge in graph.edges:
            handoff = handoff_of(edge, self._inputs[edge.target], placement.slots[edge.target])
            if handoff is not None:
                self._handoffs[edge] = handoff
        self._woven = [edge for edge in graph.edges if edge.origin is not None and edge not in self._handoffs]
        self._copies = {edge: _copy_of(edge) for edge in self._woven}
        self._origins = dict(zip(dict.fromkeys(self._copies.values()), numbers, strict=False))

    def line(self) -> Line:
        problems = [*dict.fromkeys(self._problems())]
        if problems:
            raise InvalidStep("job", problems)
        frame = self._sources()
        for stage, operator in enumerate(self._placement.operators, start=1):
            frame = self._operator(frame, operator.steps, operator.time_mode, stage)
            here = [edge for edge in self._woven if edge.origin is not None and edge.origin.step in operator.steps]
            if here:
                frame = self._between(frame, here, stage)
        return Line(frame, self._outputs)

    def _problems(self) -> Iterator[str]:
        for edge in self._graph.edges:
            for name in stateful_nodes(edge) if edge.origin is None else ():
                yield (
                    f"Before the step {edge.target.plan.name!r} Spark keeps state of its own ({name}), which a job of "
                    "several steps cannot have: let a step do that, or give each step a job of its own."
                )
        for bypass in self._graph.bypasses:
            for name in stateful_nodes(bypass):
                yield (
                    f"What is written from a source without passing a step has state of Spark's own ({name}), which a job "
                    "with other outputs cannot have: let a step do that, or write it with a job of its own."
                )
        for edge in self._woven:
            assert edge.origin is not None
            for link in edge.links:
                problem = weaving_problem(link)
                if problem is not None:
                    yield (
                        f"Between the steps {edge.origin.step.plan.name!r} and {edge.target.plan.name!r} there is "
                        f"{problem}. In a job whose steps have several uses, only where, select, withColumn, explode, union "
                        "and joins with a batch DataFrame can be there: do the rest in one of the steps, or give each step "
                        "a job of its own."
                    )

    # From the sources to the line

    def _sources(self) -> DataFrame:
        found = branches_of(self._catalyst, self._graph.edges, self._graph.bypasses)
        ordered = [found[number] for number in in_recorded_order([branch.base for branch in found], self._marks)]
        return reduce(DataFrame.union, map(self._branch, ordered))

    def _branch(self, branch: Branch) -> DataFrame:
        """What all steps and sinks are given of one part of the plan."""
        weave = Weave(self._catalyst, branch.base)
        given = attributes(branch.base)
        ways = []
        for way, links in branch.members:
            woven = weave.begin(given, given)
            for link in links:
                weave.follow(woven, link)
            ways.append((way, woven))
        wide, lanes = self._lanes(weave, ways, [])
        by_content = tasks_vary(branch.base)
        pack = pack_lanes(lanes, stage=0, beacons=self._beacons(), passing=False, by_content=by_content)
        return self._catalyst.frame(wide).mapInArrow(pack, LINE_SCHEMA)

    def _beacons(self) -> list[Beacon]:
        return [
            Beacon(self._inputs[step], min(labels(step.plan.key_groups, self._placement.slots[step])))
            for step in self._graph.steps
        ]

    def _lanes(
        self, weave: Weave, ways: Sequence[tuple[Edge | Bypass, Woven]], first: Sequence[Any]
    ) -> tuple[Any, list[Lane | SinkLane]]:
        """The wide rows, and which of their columns each step or sink is given. `first` are columns that come before."""
        columns = {expression_id(column): column for column in first}
        lanes = []
        for way, woven in ways:
            own = self._own_columns(weave, way, woven)
            columns |= {expression_id(column): column for column in own}
            positions = {name: number for number, name in enumerate(columns)}
            lanes.append(self._lane(way, woven, tuple(positions[expression_id(column)] for column in own)))
        named = [self._catalyst.named(column, f"c{number}") for number, column in enumerate(columns.values())]
        return self._catalyst.project(named, weave.plan), lanes

    def _own_columns(self, weave: Weave, way: Edge | Bypass, woven: Woven) -> list[Any]:
        """The columns of a way: first, if not every row goes it, one that is null in the others."""
        if isinstance(way, Bypass):
            flag = [] if woven.guard is None else [weave.only_own(woven, woven.guard)]
            return [*flag, *(weave.column(woven, attribute) for attribute in attributes(way.plan))]
        assert way.target.prepared is not None
        group, *rest = (weave.column(woven, attribute) for attribute in attributes(analyzed(way.target.prepared)))
        return [weave.only_own(woven, group), *rest]

    def _lane(self, way: Edge | Bypass, woven: Woven, positions: tuple[int, ...]) -> Lane | SinkLane:
        if isinstance(way, Bypass):
            flag, columns = (None, positions) if woven.guard is None else (positions[0], positions[1:])
            return SinkLane(self._outputs[way], flag, columns)
        prepared = way.target.prepared
        assert prepared is not None
        return Lane(
            route=self._inputs[way.target],
            key_groups=way.target.plan.key_groups,
            slot=self._placement.slots[way.target],
            columns=positions,
            names=tuple(prepared.columns),
            lift=way.target.lift,
        )

    # Through the operators

    def _operator(self, frame: DataFrame, steps: Sequence[BuiltStep], time_mode: str, stage: int) -> DataFrame:
        slots = self._placement.slots
        stops = {slots[step]: self._stop(step) for step in steps}
        processor = LineProcessor(stops, stage=stage, by_clock=time_mode == "ProcessingTime")
        begun = [step.initial(slots[step]) for step in steps if step.initial is not None]
        initial = reduce(DataFrame.union, begun).groupBy("label") if begun else None
        if time_mode == "None":
            frame = with_batch_time(frame)
        rows = transformed(frame.groupBy("label"), processor, LINE_SCHEMA, time_mode=time_mode, initial=initial)
        return observed(rows, f"operator_{stage}", F.col("route") == REPORT_ROUTE)

    def _stop(self, step: BuiltStep) -> Stop:
        plan = step.plan.in_slot(self._placement.slots[step])
        exits = {tag: self._exit(OutputOf(step, tag)) for tag in step.schemas}
        return Stop(plan, self._inputs[step], exits)

    def _exit(self, output: OutputOf) -> Exit:
        routes = [self._outputs[output]] if output in self._outputs else []
        routes += [route for copy, route in self._origins.items() if copy.output == output]
        handoffs = [handoff for edge, handoff in self._handoffs.items() if edge.origin == output]
        return Exit(tuple(routes), tuple(handoffs))

    def _between(self, frame: DataFrame, edges: Sequence[Edge], stage: int) -> DataFrame:
        """Spark's own work between the steps of this stage and later ones."""
        copies = list(dict.fromkeys(self._copies[edge] for edge in edges))
        fields = [field for copy in copies for field in copy.schema.fields]
        wider = [StructField(f"c{number}", field.dataType, True) for number, field in enumerate(fields)]
        schema = StructType([*frame.schema.fields, *wider])
        unpack = unpack_origins([Origin(self._origins[copy], copy.arrow_schema) for copy in copies])
        plan = analyzed(frame.mapInArrow(unpack, schema))
        weave = Weave(self._catalyst, plan)
        line, columns = attributes(plan)[: len(LINE_COLUMNS)], attributes(plan)[len(LINE_COLUMNS) :]
        given = {}
        for copy in copies:
            count = len(copy.schema.fields)
            given[copy], columns = columns[:count], columns[count:]
        ways = []
        for edge in edges:
            copy = self._copies[edge]
            own = self._catalyst.equal(line[0], self._catalyst.literal(self._origins[copy]))
            woven = weave.begin(attributes(edge.base), given[copy], weave.flag(own))
            for link in edge.links:
                weave.follow(woven, link)
            ways.append((edge, woven))
        if len(weave.watermarks) > 1:
            names = ", ".join(repr(edge.target.plan.name) for edge in edges)
            raise InvalidStep(
                "job",
                [
                    f"Several watermarks are declared for what goes on to {names}, of which Spark allows one: leave out "
                    "watermark= there, and declare it before the first step; it is passed on."
                ],
            )
        wide, lanes = self._lanes(weave, ways, line)
        return self._catalyst.frame(wide).mapInArrow(pack_lanes(lanes, stage=stage, passing=True), LINE_SCHEMA)


@dataclass(frozen=True)
class _Copy:
    """Rows of an output on their way to later steps: the same for all edges, unless one may multiply them."""

    output: OutputOf
    only_for: Edge | None

    @property
    def schema(self) -> StructType:
        return self.output.step.schemas[self.output.tag]

    @property
    def arrow_schema(self) -> pa.Schema:
        schema: pa.Schema = self.output.step.plan.schemas[self.output.tag]
        return schema


def _copy_of(edge: Edge) -> _Copy:
    assert edge.origin is not None
    return _Copy(edge.origin, edge if any(multiplies_rows(link.node) for link in edge.links) else None)
