"""The compression of changelogs: Spark's stream of LZ4 blocks, or Zstandard.

A stream of LZ4 blocks, as Java's LZ4BlockOutputStream writes it; numbers are little-endian:

    magic      8 bytes   b"LZ4Block"
    token      1         method (0x10 plain, 0x20 LZ4) and level
    stored     4         bytes of the body
    plain      4         bytes of the body without compression
    checksum   4         the lower 28 bits of its XXH32 without compression
    body

The last block is empty: a stream without it was cut short.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import lz4.block
import xxhash
import zstandard

from holdfast.errors import CorruptState, NeedsSpark

__all__ = ["DAMAGED", "plain_blocks", "plain_bytes"]

DAMAGED = "go back to an earlier micro-batch, or restore a savepoint"

_BLOCK = struct.Struct("<8sBiiI")
_LZ4_MAGIC = b"LZ4Block"
_METHOD, _PLAIN, _LZ4 = 0xF0, 0x10, 0x20
_BLOCK_BYTES_MAX = 1 << 26
_LZ4_RATIO_MAX = 256
_SEED, _SUM_BITS = 0x9747B28C, 0x0FFFFFFF

_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_ZSTD_BYTES_MAX = 256 << 20
_ZSTD_RATIO_MAX = 100
_READ_BYTES = 1 << 20


def plain_bytes(content: bytes, path: str) -> bytes:
    """The whole content of a changelog. Raises CorruptState if it is damaged, NeedsSpark if its compression is unknown."""
    return b"".join(plain_blocks(content, path))


def plain_blocks(content: bytes, path: str) -> Iterator[bytes]:
    """Like `plain_bytes`, piece by piece: later pieces are not looked at before they are asked for."""
    if content.startswith(_LZ4_MAGIC):
        return _lz4_blocks(content, path)
    if content.startswith(_ZSTD_MAGIC):
        return _zstd_blocks(content, path)
    if not content or _LZ4_MAGIC.startswith(content) or _ZSTD_MAGIC.startswith(content):
        raise _damaged(path, "it is cut short")
    raise NeedsSpark(f"{path!r} has an unknown compression.")


def _lz4_blocks(content: bytes, path: str) -> Iterator[bytes]:
    at = 0
    while True:
        if at + _BLOCK.size > len(content):
            raise _damaged(path, "it is cut short")
        magic, token, stored, size, checksum = _BLOCK.unpack_from(content, at)
        if magic != _LZ4_MAGIC or not 0 <= size <= _BLOCK_BYTES_MAX or not 0 <= stored <= _BLOCK_BYTES_MAX:
            raise _damaged(path, f"there is no block at byte {at}")
        body = content[at + _BLOCK.size : at + _BLOCK.size + stored]
        at += _BLOCK.size + stored
        if len(body) != stored:
            raise _damaged(path, "it is cut short")
        if size == 0:
            break
        yield _lz4_block(body, token & _METHOD, size, checksum, path)
    if at != len(content):
        raise _damaged(path, f"it goes on after its end, at byte {at}")


def _lz4_block(body: bytes, method: int, size: int, checksum: int, path: str) -> bytes:
    if method not in (_PLAIN, _LZ4):
        raise NeedsSpark(f"{path!r} has a block of the unknown kind {method}.")
    if size > _LZ4_RATIO_MAX * len(body) or (method == _PLAIN and size != len(body)):
        raise _damaged(path, "a block has another size than it says")
    try:
        plain = body if method == _PLAIN else bytes(lz4.block.decompress(body, uncompressed_size=size))
    except lz4.block.LZ4BlockError:
        raise _damaged(path, "a block cannot be decompressed") from None
    if len(plain) != size or xxhash.xxh32_intdigest(plain, _SEED) & _SUM_BITS != checksum:
        raise _damaged(path, "a block does not match its checksum")
    return plain


def _zstd_blocks(content: bytes, path: str) -> Iterator[bytes]:
    left = max(_ZSTD_BYTES_MAX, _ZSTD_RATIO_MAX * len(content))
    try:
        with zstandard.ZstdDecompressor().stream_reader(content, read_across_frames=True) as reader:
            while piece := reader.read(_READ_BYTES):
                left -= len(piece)
                if left < 0:
                    raise _damaged(path, "it claims to expand to more than any changelog that was written")
                yield piece
    except zstandard.ZstdError as error:
        raise _damaged(path, f"it cannot be decompressed ({error})") from None


def _damaged(path: str, why: str) -> CorruptState:
    return CorruptState(f"The changelog {path!r} is damaged: {why}.", todo=DAMAGED)
