"""What real jobs say of themselves, before they have run and after."""

from __future__ import annotations

import pytest

import holdfast as hf
from holdfast.errors import InvalidStep
from integration.functions import Count

OUTPUT = "k string, n int"


class Timed(hf.DoFn):
    """Has one of most things that can be said of a step."""

    TOTALS = hf.MapStateSpec("totals", hf.StrUtf8Coder(), hf.FloatCoder(), ttl=hf.Ttl("1 hour", refresh="read"))
    BEST = hf.CombiningStateSpec("best", max)
    END = hf.TimerSpec("end", hf.TimeDomain.WATERMARK)
    NAP = hf.TimerSpec("nap", hf.TimeDomain.REAL_TIME)

    def process(
        self,
        element,
        totals=hf.DoFn.StateParam(TOTALS),
        best=hf.DoFn.StateParam(BEST),
        end=hf.DoFn.TimerParam(END),
        nap=hf.DoFn.TimerParam(NAP),
    ):
        yield element

    @hf.on_timer(END)
    def on_end(self):
        """Nothing."""

    @hf.on_timer(NAP)
    def on_nap(self):
        """Nothing."""


@pytest.fixture
def rows(source):
    return source.df


@pytest.fixture
def explain(tmp_path):
    """What a job says that writes these DataFrames, with the paths of the test left out."""

    def explained(*frames):
        job = hf.Job("job", checkpoint=str(tmp_path / "checkpoint"), progress=False)
        for frame in frames:
            job.write(frame, hf.sinks.Collect())
        said = job.explain()
        assert not (tmp_path / "checkpoint").exists()
        assert said.svg.startswith("<svg")
        return str(said).replace(str(tmp_path), "/data"), said.graph

    return explained


def counted(df, name, **options):
    value = next(column for column in df.columns if column != "k")
    return hf.keyed(df, key="k", value=value).par_do(Count(), output=OUTPUT, name=name, **options)


def ways(graph):
    """What happens on the way to each step and sink."""
    return {str(getattr(target, "number", target.name)): edge.words for edge, target in graph.edges}


def places(graph):
    return {step.name: operator.number for operator in graph.operators for step in operator.steps}


def test_one_step(rows, explain):
    timed = hf.keyed(
        rows.selectExpr("k", "timestamp '2026-01-01' AS at", "v"), key="k", timestamp="at", watermark="10 seconds"
    )
    said, _ = explain(
        timed.window_into(hf.FixedWindows(60), allowed_lateness=30).par_do(
            Timed(),
            output="k string, v string",
            name="timed",
            key_groups=4,
            backend="disk",
            limits=hf.Limits(max_keys=100, policy="evict_lru"),
        )
    )
    assert said.splitlines() == [
        "Job job: 1 source, 1 step in 1 operator, 1 sink",
        "",
        "Sources",
        "  1  parquet: /data/input",
        "",
        "Operator 0",
        "  timed (Timed)",
        "     from     source 1: Project",
        "     key      k string; 4 key groups, backend disk",
        "     value    v string",
        "     time     at, watermark 10 seconds",
        "     windows  FixedWindows(size 1 minute), late by up to 30 seconds",
        "     cells    totals: map, str to float; lives 1 hour after use",
        "              best: combining, a function",
        "     timers   end: event time",
        "              nap: processing time",
        "     limits   max_keys 100: evict_lru",
        "     gives    main to sink 1",
        "",
        "Sinks",
        "  1  Collect(0 rows)",
        "     from     timed.main",
        "     columns  k string, v string",
    ]


def test_a_diamond(rows, explain):
    top = counted(rows, "top")
    left, right = counted(top.where("n > 1"), "left"), counted(top, "right")
    said, graph = explain(counted(left.union(right), "both"), top.join(rows.sparkSession.range(3), top.n == 1, "left_semi"))
    assert "Operator 1, shared by 2 steps\n  left (Count)\n" in said
    assert places(graph) == {"top": 2, "left": 1, "right": 1, "both": 0}
    arrow = "directly, in Arrow"
    assert ways(graph) == {"top": "", "left": "Filter", "right": arrow, "both": arrow, "1": "", "2": "Join"}
    assert [str(edge.origin) for edge in graph.steps[-1].inputs] == ["left.main", "right.main"]


@pytest.mark.night
def test_one_source_for_several_steps_is_one(rows, source, explain):
    _, graph = explain(*(counted(rows.where(f"v != '{n}'"), f"step {n}") for n in range(5)))
    assert len(graph.sources) == 1
    assert [len(operator.steps) for operator in graph.operators] == [5]
    assert graph.sharing("step 0") == ("step 1", "step 2", "step 3", "step 4")
    _, graph = explain(counted(rows, "one"), counted(source.df, "other"))
    assert [str(read) for read in graph.sources] == [str(graph.sources[0])] * 2


def test_a_chain_runs_as_it_was_built(rows, explain):
    _, graph = explain(counted(counted(rows, "first").where("n > 1"), "second"))
    assert places(graph) == {"first": 1, "second": 0}
    # Between them are Spark's own rows, whatever is done with them.
    assert ways(graph) == {"first": "", "second": "Filter", "1": ""}


def test_state_of_sparks_own_hides_the_numbers_behind_it(rows, explain):
    said, graph = explain(counted(rows, "step").dropDuplicates(["k"]))
    assert places(graph) == {"step": None}
    assert "\nAn operator\n" in said
    assert ways(graph) == {"step": "", "1": "Deduplicate"}


def test_a_union_of_steps_has_an_operator_for_each(rows, source, explain):
    _, graph = explain(counted(rows, "one").union(counted(source.df, "other")))
    assert places(graph) == {"one": 0, "other": 1}
    assert [operator.level for operator in graph.operators] == [0, 0]


def test_a_job_without_steps(rows, explain):
    _, graph = explain(rows.where("k = 'a'"))
    assert graph.operators == ()
    assert ways(graph) == {"1": "Filter"}


def test_joins_and_aggregations(spark, rows, explain):
    clock = spark.readStream.format("rate").option("rowsPerSecond", 1).load().selectExpr("'a' AS k", "timestamp", "value")
    left = hf.keyed(clock, key="k", value="value", timestamp="timestamp", watermark="1 minute")
    right = hf.keyed(clock.selectExpr("k", "timestamp", "1 AS one"), key="k", timestamp="timestamp", watermark="1 minute")
    hourly = left.window_into(
        hf.FixedWindows("1 hour"), trigger=hf.Repeatedly(hf.AfterCount(5)), accumulation_mode="discarding"
    )
    _, graph = explain(left.join(right, within="1 hour"), hourly.combine_per_key({"total": hf.Sum()}, name="hourly"))
    join, hours = sorted(graph.steps, key=lambda step: step.name == "hourly")
    assert (join.function, hours.function) == ("IntervalJoin", "CombinePerKey")
    assert hours.trigger == "Repeatedly, discarding"
    assert {str(read) for read in graph.sources} == {"rate"}
    assert not [column for column in join.values if column.name.startswith("~")]
    assert {edge.words for edge in join.inputs} == {"Project"}


def test_nothing_of_a_source_but_its_kind_and_its_place(spark, explain):
    lines = spark.readStream.format("socket").option("host", "secret-host").option("port", 9).load()
    said, graph = explain(counted(lines.selectExpr("value AS k", "value AS v"), "step"))
    assert [str(read) for read in graph.sources] == ["socket"]
    assert "secret" not in said


def test_functions_by_name(rows, explain):
    def running(state, value):
        return (state or 0) + 1, (state or 0) + 1

    _, graph = explain(hf.keyed(rows, key="k", value="v").map_with_state(running, output="n int", name="running"))
    assert [(step.name, step.function) for step in graph.steps] == [("running", "MapWithState")]


def test_nothing_to_explain(tmp_path):
    job = hf.Job("job", checkpoint=str(tmp_path / "checkpoint"))
    with pytest.raises(InvalidStep, match="Nothing is written"):
        job.explain()
    assert job._repr_html_() == f"<p><code>{job!r}</code></p>".replace("'", "&#x27;")


def test_a_notebook_shows_a_job(rows, tmp_path):
    job = hf.Job("<b>", checkpoint=str(tmp_path / "checkpoint")).write(counted(rows, "step"), hf.sinks.Collect())
    shown = job._repr_html_()
    assert "&lt;b&gt;" in shown
    assert "<b>" not in shown
    assert ": new, writes" in shown
    assert job.explain().svg in shown


@pytest.mark.night
def test_a_job_that_has_run_says_where_its_steps_are(rows, tmp_path):
    """A step that is added to a checkpoint goes where there is an operator for it."""

    def job(*frames):
        made = hf.Job("job", checkpoint=str(tmp_path / "checkpoint"), trigger="available now", progress=False)
        for frame in frames:
            made.write(frame, hf.sinks.Collect())
        return made

    first = counted(rows, "first")
    job(counted(first, "second"), first).run()
    job(counted(rows, "first")).run()
    again = job(counted(rows, "alone"), counted(rows, "first"))
    assert len(again.explain().graph.operators) == 1
    again.run()
    graph = again.explain().graph
    assert places(graph) == {"alone": 1, "first": 1}
    assert "Operator 0, kept for the state of removed steps" in str(again.explain())
