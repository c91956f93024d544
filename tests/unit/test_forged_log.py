"""Blobs and keys that were made to do harm, with checksums that are right: declared errors, and no more memory than due."""

from __future__ import annotations

import struct
import tracemalloc
from typing import Any

import ormsgpack
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast as hf
from holdfast.engine.log import blob as blobs
from holdfast.engine.log.blob import DELTA, Section, plain_size, read_blob, write_blob
from holdfast.engine.log.sections import apply_sections, delta_sections
from holdfast.engine.state.key_group import KeyGroupState, Layout
from holdfast.engine.state.keys import decode_slots, encode_slots, slot_from_bytes, slot_of, slot_to_bytes
from holdfast.engine.tables import Focus, make_cell
from holdfast.errors import CoderError, CorruptState, HoldfastError
from holdfast.model.coders import PlainCoder
from holdfast.model.functions.step import build_step
from holdfast.model.windows.ready import GlobalWindow
from tiers import examples

PARENT = bytes(16)


def forged(body: bytes, compressed: bool = True) -> bytes:
    """A blob with this body, and a token that is right."""
    header = struct.pack(">4sBBHQIIQ16s", b"HFB1", DELTA, 1, int(compressed), 1, 0, 1, len(body), PARENT)
    return header + blobs._token(header, body) + body


# --- what is compressed -------------------------------------------------------------------------------------------


def peak_of(function: Any) -> int:
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_small_blob_that_would_become_a_large_one_is_refused_before_it_does():
    bomb = forged(zstandard.compress(bytes(100 * 2**20), 1))
    assert len(bomb) < 64 * 1024

    def read() -> None:
        with pytest.raises(CorruptState, match=r"claim to expand to 104,857,600, more than any"):
            read_blob(bomb, "d1")

    assert peak_of(read) < 2**20


def test_a_body_that_does_not_say_how_large_it_is_is_refused():
    untold = zstandard.ZstdCompressor(write_content_size=False).compress(ormsgpack.packb([]) * 2000)
    for function in (lambda: read_blob(forged(untold), "d1"), lambda: plain_size(forged(untold), "d1")):
        with pytest.raises(CorruptState, match="'d1' is damaged: its body does not state its size"):
            function()


@pytest.mark.parametrize("size", [0, 1, 2000, 2**20])
def test_a_body_that_says_another_size_than_it_has_is_refused(size):
    honest = zstandard.compress(bytes(1000), 1)
    lie = zstandard.ZstdCompressor(level=1).compressobj(size=1000)
    assert lie.compress(bytes(1000)) + lie.flush() == honest
    # The size stands in two bytes, less 256, right after the magic number and the descriptor of the frame.
    assert honest[4] >> 6 == 1
    changed = honest[:5] + struct.pack("<H", max(size - 256, 0) & 0xFFFF) + honest[7:]
    with pytest.raises(CorruptState):
        read_blob(forged(changed), "d1")


def test_bytes_after_the_body_are_refused():
    body = zstandard.compress(ormsgpack.packb([[b"", "c", 1, b"", [bytes(5000)]]]), 1)
    read_blob(forged(body), "d1")
    for rest in (b"\x00", body):
        with pytest.raises(CorruptState):
            read_blob(forged(body + rest), "d1")
    with pytest.raises(CorruptState, match="bytes after"):
        read_blob(forged(ormsgpack.packb([]) + b"\x00", compressed=False), "d1")


def test_what_compresses_too_well_is_written_as_it_is_and_read_again():
    sections = [Section(b"", "cell", 1, b"", [bytes(70 * 2**20)])]
    blob, token = write_blob(DELTA, 1, PARENT, sections)
    assert plain_size(blob) == len(blob) > 70 * 2**20
    assert read_blob(blob, "d1")[4:] == (token, sections)


@pytest.mark.parametrize("data", [b"", b"HFB1", bytes(63), bytes(64), forged(b"no frame at all")[:70], forged(b"")])
def test_the_size_of_what_is_no_blob_is_a_declared_error(data):
    with pytest.raises(CorruptState, match="'d1' is damaged"):
        plain_size(data, "d1")


# --- what is in them ----------------------------------------------------------------------------------------------

FIELDS = [b"", "cell", 1, b"\x05\x90", []]


@pytest.mark.parametrize("place", range(5))
@pytest.mark.parametrize("value", [None, True, 3.5, "text", b"bytes", 7, [], [1], ["text"], {"a": 1}])
def test_a_section_with_a_field_of_another_type_is_refused(place, value):
    section = [*FIELDS[:place], value, *FIELDS[place + 1 :]]
    blob = forged(ormsgpack.packb([section]), compressed=False)
    if type(value) is type(FIELDS[place]) and value in ([], "text", b"bytes", 7):
        assert read_blob(blob, "d1").sections == [Section(*section)]
        return
    with pytest.raises(CorruptState, match="section 0 of its body has a field of the wrong type"):
        read_blob(blob, "d1")


@pytest.mark.parametrize(
    "body", [b"", b"\xc1", b"\x93", ormsgpack.packb(None), ormsgpack.packb([[]]), ormsgpack.packb([1]), b"\x91" * 100_000]
)
def test_a_body_that_is_no_list_of_sections_is_refused(body):
    with pytest.raises(CorruptState):
        read_blob(forged(body, compressed=False), "d1")


class AllKinds(hf.DoFn):
    VALUE = hf.ValueStateSpec("value")
    BAG = hf.BagStateSpec("bag")
    SET = hf.SetStateSpec("set")
    MAP = hf.MapStateSpec("map")
    LIST = hf.OrderedListStateSpec("list")
    SUM = hf.CombiningStateSpec("sum", sum)

    def process(
        self,
        element,
        value=hf.DoFn.StateParam(VALUE),
        bag=hf.DoFn.StateParam(BAG),
        members=hf.DoFn.StateParam(SET),
        names=hf.DoFn.StateParam(MAP),
        times=hf.DoFn.StateParam(LIST),
        total=hf.DoFn.StateParam(SUM),
    ):
        pass


LAYOUT = Layout(build_step(AllKinds()))


def honest_sections() -> list[Section]:
    """Of two bundles: what makes entries, and what changes them."""
    state, sections = KeyGroupState(LAYOUT), []
    for bundle in range(2):
        for spec, table in zip(LAYOUT.specs, state.window(GlobalWindow()).tables, strict=True):
            focus = Focus()
            cell: Any = make_cell(spec, focus, None)
            cell.attach(table)
            for focus.key in ("a", 1, (2, "b")):
                fill(spec.name, cell, bundle)
        sections += delta_sections(state)
        state.settle()
    return sections


def fill(name: str, cell: Any, bundle: int) -> None:
    if name == "value":
        cell.write((bundle, "x"))
    elif name == "map":
        cell.put(f"n{bundle}", [bundle])
        cell.remove("n0")
    elif name == "list":
        cell.add((bundle, "y"))
        cell.clear_range(0, bundle)
    else:
        cell.add(bundle)


HONEST = honest_sections()
BLOCKS = sorted({part for section in HONEST for part in (section.keys, *section.columns)})
STRANGE: list[list[Any]] = [[[1]], [{}], [None], [b"x"], [1.5], [True], [(1.5,)], [([],)], [set()], [2**70], ["\ud800"], []]
STRANGE_BLOCKS = [bytes((5,)) + ormsgpack.packb(v) for v in ([[1]], [{}], [None], [b"x"], [1.5], [], ["a", "a"])]
STRANGE_BLOCKS += [PlainCoder().encode_block([PlainCoder().freeze(item) for item in items]) for items in STRANGE]
PARTS = st.one_of(st.sampled_from(BLOCKS), st.sampled_from(STRANGE_BLOCKS), st.binary(max_size=20))


@settings(max_examples=examples(500), deadline=None)
@given(st.lists(st.sampled_from(range(len(HONEST))), max_size=4), st.data())
def test_sections_of_another_state_are_applied_or_refused_with_a_declared_error(before, data):
    state = KeyGroupState(LAYOUT)
    try:
        apply_sections(state, [HONEST[place] for place in before], "d1")
        section = data.draw(st.sampled_from(HONEST))
        operation = data.draw(st.sampled_from([section.operation, *range(10), -1]))
        columns = data.draw(st.one_of(st.just(section.columns), st.lists(PARTS, max_size=6)))
        if section.columns and data.draw(st.booleans()):
            place = data.draw(st.integers(0, len(section.columns) - 1))
            columns = [*section.columns[:place], data.draw(PARTS), *section.columns[place + 1 :]]
        keys = data.draw(st.one_of(st.just(section.keys), PARTS))
        window = data.draw(st.sampled_from([b"", b"", b"w", bytes(16)]))
        apply_sections(state, [Section(window, section.cell, operation, keys, columns)], "d1")
        state.reindex()
    except HoldfastError:
        pass


# --- keys ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [b"", b"I", b"I\x00", b"I" + bytes(9), b"S\xff", b"P", b"P\xc1", b"X", b"x", b"\x00S"])
def test_a_key_that_cannot_be_read_is_a_declared_error(data):
    with pytest.raises(CoderError):
        slot_from_bytes(data)


@pytest.mark.parametrize("value", [[1], {"a": 1}, None, 1.5, True, (1.5,), ([],), frozenset({1})])
def test_what_can_be_no_slot_is_not_taken_for_one(value):
    with pytest.raises(CoderError):
        slot_from_bytes(b"P" + PlainCoder().encode(value))
    with pytest.raises(CoderError):
        decode_slots(bytes((5,)) + ormsgpack.packb([1.5]))


@settings(max_examples=examples(500), deadline=None)
@given(st.one_of(st.binary(max_size=12), st.tuples(st.sampled_from([b"S", b"I", b"E", b"P"]), st.binary(max_size=12))))
def test_any_bytes_are_a_key_or_a_declared_error(data):
    data = data if isinstance(data, bytes) else b"".join(data)
    try:
        slot = slot_from_bytes(data)
    except CoderError:
        return
    hash(slot)
    assert slot_from_bytes(slot_to_bytes(slot)) == slot


def test_keys_of_every_kind_are_read_as_they_were():
    slots = [slot_of(key) for key in ("a", "\ud800", 1, -(2**63), 2**70, True, 1.5, (1, "b"), (), b"x", (1, (2,)))]
    assert decode_slots(encode_slots(slots)) == slots
    assert [slot_from_bytes(slot_to_bytes(slot)) for slot in slots] == slots
