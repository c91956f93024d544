"""The stored form of blobs and heads: what is written today must be read for ever."""

from __future__ import annotations

import hashlib

import pytest

from holdfast.engine.log.blob import DELTA, DROP_WINDOW, SEGMENT, TOKEN_BYTES, Section, read_blob, write_blob
from holdfast.engine.log.head import NO_TOKEN, Head
from holdfast.engine.state.keys import encode_slots
from holdfast.errors import CorruptState

PARENT = bytes(range(16))
SECTIONS = [
    Section(b"", "count", 1, encode_slots(["a", "b"]), [b"\x02\x01\x03\x04"]),
    Section(b"\x01", "", DROP_WINDOW, b"", []),
]
GOLDEN_BLOB = bytes.fromhex(
    "48464231 01 01 0000 0000000000000007 00000000 00000001 0000000000000023"
    "000102030405060708090a0b0c0d0e0f 418425516a67a477fe15ce0332596246"
    "92"
    "95 c400 a5636f756e74 01 c4060592a161a162 91 c40402010304"
    "95 c40101 a0 09 c400 90"
)
# Read for ever; what is written may differ from one version of the compressor to the next.
GOLDEN_COMPRESSED = bytes.fromhex(
    "48464231 01 01 0001 0000000000000008 00000000 00000001 0000000000000025"
    "000102030405060708090a0b0c0d0e0f 4987786e5fe62df4a72f5284d4c87309"
    "28b52ffd60e306dd0000a09195c400a362616703c4040591a16191c507d07a010098ff0113"
)
HEAD = Head(
    base=2, last=5, parts=1, snapshot_bytes=300, delta_bytes=90, base_token=b"b" * TOKEN_BYTES, token=b"t" * TOKEN_BYTES
)
GOLDEN_HEAD = bytes.fromhex(
    "48464831 0001 0000 0000000000000002 0000000000000005 00000001 00000000 000000000000012c 000000000000005a"
    "62626262626262626262626262626262 74747474747474747474747474747474"
    "cd0ba6fba2eec0c7cf35bd89388683cd"
)


# --- blobs --------------------------------------------------------------------------------------------------------


def test_a_delta_has_the_bytes_it_always_had():
    blob, token = write_blob(DELTA, 7, PARENT, SECTIONS)
    assert blob == GOLDEN_BLOB
    assert token == GOLDEN_BLOB[48:64]


def test_a_delta_of_old_is_read():
    blob = read_blob(GOLDEN_BLOB, "d7")
    assert blob == (DELTA, 7, 0, PARENT, GOLDEN_BLOB[48:64], SECTIONS)


def test_the_fields_of_a_header_are_where_the_drawing_says():
    blob, token = write_blob(SEGMENT, 0x0102030405060708, PARENT, SECTIONS, part=0x090A0B0C)
    assert blob[0:4] == b"HFB1"
    assert blob[4] == SEGMENT == 2
    assert blob[5] == 1
    assert blob[6:8] == bytes(2)  # no flags
    assert blob[8:16] == bytes([1, 2, 3, 4, 5, 6, 7, 8])
    assert blob[16:20] == bytes([9, 10, 11, 12])
    assert blob[20:24] == bytes([0, 0, 0, 1])
    assert int.from_bytes(blob[24:32], "big") == len(blob) - 64
    assert blob[32:48] == PARENT
    assert blob[48:64] == token == hashlib.blake2b(blob[:48] + blob[64:], digest_size=16).digest()


def test_a_compressed_delta_of_old_is_read():
    blob = read_blob(GOLDEN_COMPRESSED, "d8")
    assert blob[:5] == (DELTA, 8, 0, PARENT, GOLDEN_COMPRESSED[48:64])
    assert blob.sections == [Section(b"", "bag", 3, encode_slots(["a"]), [b"z" * 2000])]


@pytest.mark.parametrize(("length", "flags"), [(900, 0), (1100, 1)])
def test_a_long_body_is_compressed_and_says_so(length, flags):
    sections = [Section(b"", "bag", 3, b"keys", [b"z" * length])]
    blob, token = write_blob(DELTA, 8, PARENT, sections)
    assert int.from_bytes(blob[6:8], "big") == flags
    assert (len(blob) < 300) is bool(flags)
    assert int.from_bytes(blob[24:32], "big") == len(blob) - 64
    assert token == hashlib.blake2b(blob[:48] + blob[64:], digest_size=16).digest()
    assert read_blob(blob, "d8").sections == sections


def test_a_token_depends_on_parent_sequence_and_content():
    tokens = {
        write_blob(DELTA, 7, PARENT, SECTIONS)[1],
        write_blob(DELTA, 8, PARENT, SECTIONS)[1],
        write_blob(DELTA, 7, NO_TOKEN, SECTIONS)[1],
        write_blob(DELTA, 7, PARENT, SECTIONS[:1])[1],
        write_blob(SEGMENT, 7, PARENT, SECTIONS)[1],
    }
    assert len(tokens) == 5


def test_a_blob_of_another_version_says_which_and_what_to_do():
    with pytest.raises(CorruptState) as refused:
        read_blob(GOLDEN_BLOB[:5] + b"\x02" + GOLDEN_BLOB[6:], "d7")
    assert str(refused.value) == (
        "The blob 'd7' has format version 2; this Holdfast reads version 1.\n"
        "  what to do: use the version of Holdfast that wrote it, or a newer one"
    )


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "it has 0 bytes, fewer than the 64 of a header"),
        (GOLDEN_BLOB[:63], "it has 63 bytes, fewer than the 64 of a header"),
        (b"PAR1" + GOLDEN_BLOB[4:], "it begins with b'PAR1', not with b'HFB1'"),
        (GOLDEN_BLOB[:-1], "its body has 34 bytes where its header says 35"),
        (GOLDEN_BLOB + b"\x00", "its body has 36 bytes where its header says 35"),
        (GOLDEN_BLOB[:-1] + b"\x91", "its bytes do not match its checksum"),
        (GOLDEN_BLOB[:63] + b"\x00" + GOLDEN_BLOB[64:], "its bytes do not match its checksum"),
        (GOLDEN_BLOB[:8] + b"\x01" + GOLDEN_BLOB[9:], "its bytes do not match its checksum"),
    ],
)
def test_a_damaged_blob_is_named_with_the_reason(data, why):
    with pytest.raises(CorruptState) as refused:
        read_blob(data, "d7")
    assert str(refused.value).startswith(f"The stored blob 'd7' is damaged: {why}.")


@pytest.mark.parametrize("blob", [GOLDEN_BLOB, GOLDEN_COMPRESSED])
def test_no_flipped_bit_of_a_blob_goes_unnoticed(blob):
    for place in range(len(blob)):
        for bit in range(8):
            flipped = bytearray(blob)
            flipped[place] ^= 1 << bit
            with pytest.raises(CorruptState):
                read_blob(bytes(flipped), "d7")


def test_a_whole_blob_of_an_unknown_kind_is_refused():
    blob, _ = write_blob(9, 7, PARENT, SECTIONS)
    with pytest.raises(CorruptState, match="its kind, 9, is unknown"):
        read_blob(blob, "d7")


# --- heads --------------------------------------------------------------------------------------------------------


def test_a_head_has_the_bytes_it_always_had():
    assert HEAD.encode() == GOLDEN_HEAD


def test_a_head_of_old_is_read():
    assert Head.decode(GOLDEN_HEAD) == HEAD


def test_the_fields_of_a_head_are_where_the_drawing_says():
    data = HEAD.encode()
    assert data[0:4] == b"HFH1"
    assert data[4:6] == b"\x00\x01"
    numbers = {8: 2, 16: 5, 32: 300, 40: 90}
    assert {at: int.from_bytes(data[at : at + 8], "big") for at in numbers} == numbers
    assert int.from_bytes(data[24:28], "big") == 1
    assert data[6:8] + data[28:32] == bytes(6)
    assert (data[48:64], data[64:80]) == (HEAD.base_token, HEAD.token)
    assert data[80:96] == hashlib.blake2b(data[:80], digest_size=16).digest()
    assert len(data) == 96


def test_no_head_at_all_is_that_of_an_empty_log():
    assert Head.decode(None) == Head()
    assert Head().token == Head().base_token == NO_TOKEN == bytes(16)


def test_no_flipped_bit_of_a_head_goes_unnoticed():
    for place in range(len(GOLDEN_HEAD)):
        for bit in range(8):
            flipped = bytearray(GOLDEN_HEAD)
            flipped[place] ^= 1 << bit
            with pytest.raises(CorruptState, match="'head'"):
                Head.decode(bytes(flipped))


@pytest.mark.parametrize("data", [b"", GOLDEN_HEAD[:-1], GOLDEN_HEAD + b"\x00", GOLDEN_BLOB])
def test_what_is_no_head_is_refused(data):
    with pytest.raises(CorruptState, match=r"'head'.*not a head"):
        Head.decode(data)


def test_a_head_of_another_version_says_which():
    fixed = GOLDEN_HEAD[:4] + b"\x00\x02" + GOLDEN_HEAD[6:80]
    with pytest.raises(CorruptState, match="format version is 2; this Holdfast reads version 1"):
        Head.decode(fixed + hashlib.blake2b(fixed, digest_size=16).digest())
