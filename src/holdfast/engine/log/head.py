"""The head of a log: where it begins and ends.

offset  size  field
0       4     magic             b"HFH1"
4       2     format version    1
6       2     zero
8       8     base              sequence number that the snapshot contains (0: no snapshot, the log begins empty)
16      8     last              sequence number of the last delta
24      4     parts             segments of the snapshot
28      4     zero
32      8     snapshot bytes    size of all segments, without compression
40      8     delta bytes       size of all deltas after the base, without compression
48      16    base token        token of the state at the base
64      16    token             token of the state at the end
80      16    checksum          blake2b-128 of bytes 0 to 79
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from dataclasses import dataclass

from holdfast.engine.log.blob import TOKEN_BYTES
from holdfast.errors import CorruptState

__all__ = ["NO_TOKEN", "Head"]

NO_TOKEN = bytes(TOKEN_BYTES)
"""The token of the empty state, before the first delta."""

_MAGIC = b"HFH1"
_VERSION = 1
_STRUCT = struct.Struct(">4sHHQQIIQQ16s16s")


@dataclass(frozen=True)
class Head:
    """See the module's drawing. The default is the head of an empty log."""

    base: int = 0
    last: int = 0
    parts: int = 0
    snapshot_bytes: int = 0
    delta_bytes: int = 0
    base_token: bytes = NO_TOKEN
    token: bytes = NO_TOKEN

    def encode(self) -> bytes:
        fixed = _STRUCT.pack(
            _MAGIC,
            _VERSION,
            0,
            self.base,
            self.last,
            self.parts,
            0,
            self.snapshot_bytes,
            self.delta_bytes,
            self.base_token,
            self.token,
        )
        return fixed + _checksum(fixed)

    @classmethod
    def decode(cls, data: bytes | None) -> Head:
        """The head in these bytes; for None, that of an empty log."""
        if data is None:
            return cls()
        if len(data) != _STRUCT.size + TOKEN_BYTES or not data.startswith(_MAGIC):
            raise _corrupt("it is not a head at all")
        fixed, checksum = data[: _STRUCT.size], data[_STRUCT.size :]
        if not hmac.compare_digest(checksum, _checksum(fixed)):
            raise _corrupt("its bytes do not match its checksum")
        _, version, _, base, last, parts, _, snapshot_bytes, delta_bytes, base_token, token = _STRUCT.unpack(fixed)
        if version != _VERSION:
            raise _corrupt(f"its format version is {version}; this Holdfast reads version {_VERSION}")
        return cls(base, last, parts, snapshot_bytes, delta_bytes, base_token, token)


def _checksum(fixed: bytes) -> bytes:
    return hashlib.blake2b(fixed, digest_size=TOKEN_BYTES).digest()


def _corrupt(why: str) -> CorruptState:
    return CorruptState(
        f"The stored blob 'head' is damaged: {why}.",
        detail="Nothing was decoded from it.",
        todo="restore the checkpoint from a copy, or go back to an earlier micro-batch",
    )
