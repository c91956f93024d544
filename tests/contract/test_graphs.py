"""Graphs of steps: in memory and on Spark every sink gets what was worked out by hand, even after a restart half way."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiers import examples

from .graphs import SOURCE, Counted, Graph, InMemory, Lettered, Numbered, OnSpark, Step, Strict, plain

BATCHES = [[("ab"[i % 2] + str(i % 5), i) for i in range(begin, begin + 12)] for begin in (0, 12, 24, 36)]
LETTERS = ("first.dead_letter", "second.dead_letter")

GRAPHS = {
    "chain": Graph(
        (
            Step("first", Numbered),
            Step("second", Lettered, ("first.main",)),
            Step("third", Counted, ("second.main",)),
        ),
        (("first.main",), ("second.main",), ("third.main",)),
    ),
    "diamond": Graph(
        (
            Step("top", Strict),
            Step("left", Numbered, ("top.main",)),
            Step("right", Numbered, ("top.even",)),
            Step("bottom", Counted, ("left.main", "right.main")),
        ),
        (("bottom.main",), ("left.main", "right.main"), ("top.dead_letter",)),
    ),
    "fan-out": Graph(
        tuple(Step(f"step{n}", fn) for n, fn in enumerate((Numbered, Counted, Lettered, Strict, Numbered))),
        (("step0.main",), ("step1.main",), ("step2.main",), ("step3.even",), ("step4.main",)),
    ),
    "inner-outputs": Graph(
        (Step("first", Strict), Step("second", Strict, ("first.main",)), Step("third", Numbered, ("second.even",))),
        (("first.even",), ("second.main",), LETTERS, ("third.main",)),
    ),
    "only-the-last": Graph(
        (Step("first", Numbered), Step("second", Numbered, ("first.main",)), Step("third", Strict, ("second.main",))),
        (("third.main",),),
    ),
    "unwritten-tags": Graph(
        (Step("first", Strict), Step("second", Counted, ("first.even",))),
        (("second.main",),),
    ),
    "written-twice": Graph(
        (Step("first", Numbered), Step("second", Counted, ("first.main",))),
        (("first.main",), ("first.main",), ("second.main",), ("second.main", "second.main")),
    ),
    "given-twice": Graph(
        (Step("first", Numbered), Step("second", Counted, ("first.main", SOURCE, "first.main"))),
        (("second.main",), ("first.main",)),
    ),
}


@pytest.fixture
def made(run):
    """Makes a graph where the other tests run their functions."""

    def make(graph):
        return InMemory(graph, run.own_backend) if run.runtime == "memory" else OnSpark(graph, run.folder, run.own_backend)

    return make


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("parts", [1, 2], ids=["straight", "restarted"])
def test_every_sink_gets_its_rows(made, name, parts):
    graph = GRAPHS[name]
    running = made(graph)
    size = len(BATCHES) // parts
    for begin in range(0, len(BATCHES), size):
        running.run(BATCHES[begin : begin + size])
        running.crash()
    assert running.finish() == plain(graph, BATCHES)


def test_what_was_worked_out_by_hand_is_not_empty():
    """So that the test above can fail."""
    for graph in GRAPHS.values():
        assert all(plain(graph, BATCHES))


# Random graphs

rows = st.tuples(st.sampled_from(["a", "b", "c"]), st.integers(0, 30))


@st.composite
def graphs(draw):
    """Up to five steps, each over any outputs before it, and sinks with any outputs. Only a step that is given one output
    may depend on the order."""
    steps, outputs = [], [SOURCE]
    for number in range(draw(st.integers(1, 5))):
        chosen = tuple(draw(st.lists(st.sampled_from(outputs), min_size=1, max_size=3)))
        fn = draw(st.sampled_from([Numbered, Counted, Strict])) if len(chosen) == 1 else Counted
        steps.append(Step(f"step{number}", fn, chosen))
        outputs += steps[-1].outputs
    sinks = draw(st.lists(st.lists(st.sampled_from(outputs[1:]), min_size=1, max_size=3).map(tuple), min_size=1, max_size=4))
    return Graph(tuple(steps), tuple(sinks))


@settings(max_examples=examples(100))
@given(graph=graphs(), batches=st.lists(st.lists(rows, max_size=8), max_size=5), crashes=st.sets(st.integers(0, 4)))
def test_random_graphs(graph, batches, crashes):
    running = InMemory(graph)
    for number, batch in enumerate(batches):
        running.run([batch])
        if number in crashes:
            running.crash()
    assert running.finish() == plain(graph, batches)
