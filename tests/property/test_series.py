"""A series of an ordered list beside a plain sorted list, with blocks so short that there are many of them."""

from __future__ import annotations

from collections.abc import Callable
from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.engine.tables import series as module
from holdfast.engine.tables.series import Series
from tiers import examples

TIMES = st.integers(-5, 40)
ORDERS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), TIMES, st.just(0)),
        st.tuples(st.just("cut"), TIMES, st.integers(0, 15)),
        st.tuples(st.just("begin"), st.just(0), st.just(0)),
        st.tuples(st.just("roll back"), st.just(0), st.just(0)),
    ),
    max_size=60,
)


def check(series: Series, model: list[tuple[int, int]]) -> None:
    assert list(zip(series.times, series.values, strict=True)) == model
    assert len(series) == len(model)
    assert bool(series) == bool(model)
    if model:
        assert (series.first, series.last) == (model[0][0], model[-1][0])
    for minimum in range(-6, 42, 5):
        for limit in (minimum - 1, minimum, minimum + 1, minimum + 9, 50):
            wanted = [pair for pair in model if minimum <= pair[0] < limit]
            assert list(zip(*series.between(minimum, limit), strict=True)) == wanted
            assert series.has_any(minimum, limit) == bool(wanted)
    blocks = list(series.blocks())
    assert all(0 < len(block.times) == len(block.values) <= 2 * module._BLOCK for block in blocks if model)
    assert series._earlier is None or series._earlier


@given(start=st.lists(TIMES, max_size=20), orders=ORDERS, block=st.integers(1, 4))
@settings(max_examples=examples(300), deadline=None)
def test_a_series_is_a_sorted_list_that_can_go_back(start, orders, block):
    with mock.patch.object(module, "_BLOCK", block):
        model = [(time, number) for number, time in enumerate(sorted(start))]
        series = Series([time for time, _ in model], [value for _, value in model])
        undo: list[tuple[Callable[..., None], tuple[object, ...]]] = []
        saved = list(model)
        check(series, model)
        for number, (order, time, width) in enumerate(orders, start=100):
            if order == "add":
                series.add(time, number)
                undo.append((series.take_out, (time,)))
                position = sum(known <= time for known, _ in model)
                model.insert(position, (time, number))
            elif order == "cut":
                gone = series.cut(time, time + width)
                undo.append((series.put_back, gone))
                assert list(zip(*gone, strict=True)) == [pair for pair in model if time <= pair[0] < time + width]
                model = [pair for pair in model if not time <= pair[0] < time + width]
            elif order == "begin":
                undo, saved = [], list(model)
            else:
                while undo:
                    inverse, arguments = undo.pop()
                    inverse(*arguments)
                model = list(saved)
            check(series, model)


def test_an_entry_in_the_middle_moves_a_block_and_no_more():
    series = Series(range(0, 200_000, 2), list(range(100_000)))
    blocks = list(series.blocks())
    series.add(100_001, -1)
    changed = [now for now, before in zip(series.blocks(), blocks, strict=True) if now.times is not before.times]
    assert changed == []
    assert sorted(len(block.times) for block in series.blocks())[-2:] == [1_000, 1_001]
    series.cut(0, 2_002)
    assert len(list(series.blocks())) == 99
