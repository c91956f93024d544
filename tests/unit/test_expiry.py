"""The index of cells that may expire: what a sweep takes, in which order."""

from __future__ import annotations

from holdfast.engine.state.expiry import ExpiryIndex, Piece

WINDOW = b"w"


def taken(index: ExpiryIndex, limit: int) -> list[tuple[int, list]]:
    found = []
    while (piece := index.take(limit)) is not None:
        found.append((piece.time, piece.slots))
    return found


def test_a_lump_goes_in_the_order_of_its_keys_however_they_came():
    index = ExpiryIndex()
    for slot, time in (("c", 10), ("a", 20), ("b", 10), ("a", 10), ("b", 10), ("d", 30)):
        index.enter(WINDOW, 0, slot, time)
    assert index.next_time == 10
    assert taken(index, 20) == [(10, ["a", "b", "c"]), (20, ["a"])]
    assert index.next_time == 30
    assert taken(index, 29) == []


def test_what_is_put_back_comes_first_and_in_one_order_with_what_came_since():
    index = ExpiryIndex()
    for slot in "abdf":
        index.enter(WINDOW, 0, slot, 10)
    index.enter(WINDOW, 0, "late", 20)
    piece = index.take(30)
    assert piece == Piece(10, WINDOW, 0, ["a", "b", "d", "f"])
    first, rest = piece.split(2)
    assert first.slots == ["a", "b"]
    index.put_back(rest)
    assert index.next_time == 10
    index.enter(WINDOW, 0, "e", 10)
    index.enter(WINDOW, 0, "earlier", 5)
    assert taken(index, 30) == [(5, ["earlier"]), (10, ["d", "e", "f"]), (20, ["late"])]


def test_windows_and_cells_go_one_after_the_other():
    index = ExpiryIndex()
    for window, cell in ((b"w2", 0), (b"w1", 1), (b"w1", 0)):
        index.enter(window, cell, "a", 10)
    pieces = [index.take(10) for _ in range(3)]
    assert [(piece.window, piece.cell) for piece in pieces] == [(b"w1", 0), (b"w1", 1), (b"w2", 0)]


def test_a_large_lump_comes_in_pieces():
    index = ExpiryIndex()
    for slot in range(2_500):
        index.enter(WINDOW, 0, slot, 10)
    pieces = taken(index, 10)
    assert [len(slots) for _, slots in pieces] == [1_000, 1_000, 500]
    assert [slot for _, slots in pieces for slot in slots] == list(range(2_500))
