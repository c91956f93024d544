"""map_with_state: a plain function of the state and a value."""

from __future__ import annotations

import pytest

import holdfast as hf
from holdfast import MapWithState
from holdfast.testing import TestStream


def counted(state, value):
    count = (state or 0) + 1
    return count, (count, value)


def until_full(state, value):
    """Gives every third value, and begins anew."""
    kept = [*(state or []), value]
    return (None, kept) if len(kept) == 3 else (kept, None)


def test_state_is_kept_by_key(run):
    stream = TestStream().add_elements([("a", "x"), ("b", "y"), ("a", "z")]).crash().add_elements([("a", "w")])
    results = run(MapWithState(counted), stream)
    assert sorted(results.values) == [("a", (1, "x")), ("a", (2, "z")), ("a", (3, "w")), ("b", (1, "y"))]


def test_none_forgets_the_state_and_leaves_out_the_row(run):
    stream = TestStream().add_elements([("k", n) for n in range(7)])
    results = run(MapWithState(until_full), stream)
    assert results.values == [("k", [0, 1, 2]), ("k", [3, 4, 5])]
    assert results.state("k") == {"state": [6]}


def test_state_that_is_not_written_is_forgotten(run):
    stream = TestStream().add_elements([("k", "x")]).advance_processing_time(61).add_elements([("k", "y")])
    assert run(MapWithState(counted, ttl="1 minute"), stream).values == [("k", (1, "x")), ("k", (1, "y"))]


def test_what_was_read_is_the_readers_own(run):
    def grows(state, value):
        state = state if state is not None else []
        state.append(value)
        return (state, len(state)) if value != "lost" else (["fresh"], 0)

    stream = TestStream().add_elements([("k", "x"), ("k", "lost"), ("k", "y")])
    assert run(MapWithState(grows), stream).values == [("k", 1), ("k", 0), ("k", 2)]


@pytest.mark.parametrize("result", [5, (1,), [1, 2], None, (1, 2, 3)])
def test_what_is_no_pair_is_an_error(run, result):
    with pytest.raises(hf.OutputError, match=r"it must return a pair, the new state and a row"):
        run(MapWithState(lambda state, value: result), TestStream().add_elements([("k", 1)]))


def test_the_step_is_called_like_the_function(run):
    def broken(state, value):
        raise RuntimeError("oh")

    with pytest.raises(hf.UserCodeError) as caught:
        run(MapWithState(broken), TestStream().add_elements([("k", 1)]))
    assert "'broken'" in str(caught.value)
    assert "test_map_with_state.py" in caught.value.detail.splitlines()[1]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (5, "map_with_state was given 5; give a function of (state, value)."),
        (lambda state: None, "cannot be called with (state, value)"),
        (lambda: None, "cannot be called with (state, value)"),
    ],
)
def test_what_is_refused(run, given, says):
    with pytest.raises(hf.InvalidStep) as caught:
        run(MapWithState(given), TestStream())
    assert says in str(caught.value)


def test_a_time_to_live_that_is_none(run):
    with pytest.raises(hf.InvalidStep, match="ttl is 'soon'"):
        run(MapWithState(counted, ttl="soon"), TestStream())
