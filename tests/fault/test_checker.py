"""The checker itself: it must find what is wrong, and pass nothing that it has not seen."""

from __future__ import annotations

import pytest

from .checker import UNKNOWN, History, check
from .oracle import expected_rows
from .stream import make_files


@pytest.fixture(scope="module")
def rows():
    return expected_rows(make_files(1, files=6, rows=40))


def ended(faults_wanted=0):
    return History(faults_wanted=faults_wanted, ended=True)


def verdict_on(rows, expected, history=None):
    return check(history or ended(), lambda: rows, lambda: expected)


def test_the_same_rows_in_any_order_are_valid(rows):
    verdict = verdict_on(rows[::-1], rows)
    assert verdict.valid is True
    assert verdict


@pytest.mark.parametrize("place", [0, 57, -1])
def test_a_lost_row(rows, place):
    lost = list(rows)
    row = lost.pop(place)
    verdict = verdict_on(lost, rows)
    assert verdict.valid is False
    assert verdict.problems == (f"missing: {row}",)


@pytest.mark.parametrize("place", [0, 57, -1])
def test_a_doubled_row(rows, place):
    verdict = verdict_on([*rows, rows[place]], rows)
    assert verdict.valid is False
    assert verdict.problems == (f"doubled: {rows[place]} is there 2 times",)


@pytest.mark.parametrize("column", range(8))
def test_a_wrong_column(rows, column):
    doctored = list(rows)
    row = doctored[57]
    doctored[57] = (*row[:column], "?" if column < 2 else row[column] + 1000, *row[column + 1 :])
    verdict = verdict_on(doctored, rows)
    assert verdict.valid is False
    kinds = {problem.partition(":")[0] for problem in verdict.problems}
    assert kinds == ({"wrong"} if column >= 4 else {"missing", "unexpected"})


def test_a_row_of_nowhere(rows):
    verdict = verdict_on([*rows, ("nobody", "element", 0, 1, 5, 5, 5, 5)], rows)
    assert verdict.valid is False
    assert "unexpected" in str(verdict)


def test_an_element_that_was_lost_shows_in_every_later_row_of_its_key():
    files = make_files(1, files=6, rows=40)
    lost = [list(content) for content in files]
    del lost[0][0]
    verdict = verdict_on(expected_rows(lost), expected_rows(files))
    assert verdict.valid is False


def test_two_elements_in_another_order_show():
    files = make_files(1, files=6, rows=40)
    key = files[0][0].key
    swapped = [list(content) for content in files]
    swapped[0].append(files[0][0]._replace(value=files[0][0].value + 1))
    other = [list(content) for content in swapped]
    first, last = (number for number in (0, len(other[0]) - 1))
    assert other[0][first].key == other[0][last].key == key
    other[0][first], other[0][last] = other[0][last], other[0][first]
    assert verdict_on(expected_rows(other), expected_rows(swapped)).valid is False


def test_an_empty_oracle_proves_nothing():
    assert verdict_on([], []).valid == UNKNOWN


def test_a_run_that_did_not_end_is_unknown(rows):
    verdict = verdict_on(rows, rows, History())
    assert verdict.valid == UNKNOWN
    assert not verdict


def test_a_run_with_too_few_faults_is_unknown(rows):
    history = ended(faults_wanted=2)
    history.note("kill", "once")
    verdict = verdict_on(rows, rows, history)
    assert verdict.valid == UNKNOWN
    assert not verdict
    history.note("kill", "twice")
    assert verdict_on(rows, rows, history)


def test_a_checker_that_crashes_is_no_pass(rows):
    def broken():
        raise OSError("the sink cannot be read")

    verdict = check(ended(), broken, lambda: rows)
    assert verdict.valid == UNKNOWN
    assert not verdict
    assert "the sink cannot be read" in str(verdict)
