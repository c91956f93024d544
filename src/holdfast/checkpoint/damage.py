"""What is wrong with a single file, judging by its checksums and format alone.

Hadoop's local file system keeps `.name.crc` beside a file: `crc`, a zero byte, the number of bytes in a block (4 bytes), and
for each block its CRC-32 (4 bytes), big-endian. A copy of a checkpoint lacks them; then only the format can tell.
"""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from typing import Any

from holdfast.checkpoint.files.choice import FileInfo, Files
from holdfast.checkpoint.query_files import Commit, OffsetsHead, OperatorMetadata, QueryMetadata
from holdfast.checkpoint.store.archive import snapshot_tables
from holdfast.engine.stored.documents import Malformed, check_form, parse_json
from holdfast.errors import CorruptState

__all__ = ["damage"]

_CRC = struct.Struct(">4si")
_CRC_MAGIC = b"crc\0"
_LZ4_MAGIC = b"LZ4Block"
_LZ4 = struct.Struct("<8sBiiI")


def damage(files: Files, file: FileInfo, content: bytes) -> str | None:
    """What is wrong with a file, whose name is its path in the checkpoint; None if nothing."""
    recorded = files.side_checksums(file.path)
    if recorded is not None:
        found = _differs(content, recorded)
        if found is not None:
            return found
    return _malformed(file.name, content)


def _differs(content: bytes, recorded: bytes) -> str | None:
    if len(recorded) < _CRC.size or not recorded.startswith(_CRC_MAGIC):
        return "the file with its checksums, '.….crc', is damaged"
    size = _CRC.unpack_from(recorded)[1]
    blocks = -(-len(content) // size) if size > 0 else -1
    sums = (len(recorded) - _CRC.size) // 4
    if blocks != sums:
        there = f"{len(content)} bytes" if content else "no bytes"
        return f"it is cut short, or too long: it has {there}, but {sums} blocks of {size} bytes were written"
    for block in range(blocks):
        (expected,) = struct.unpack_from(">I", recorded, _CRC.size + 4 * block)
        if zlib.crc32(content[block * size : (block + 1) * size]) != expected:
            return f"its bytes do not match its checksum, from byte {block * size} on"
    return None


def _malformed(name: str, content: bytes) -> str | None:
    folder, _, last = name.rpartition("/")
    top = name.partition("/")[0]
    if top in ("offsets", "commits") or "_metadata/v2" in folder:
        form = OffsetsHead if top == "offsets" else Commit if top == "commits" else OperatorMetadata
        return _bad_log(content, least=2) or _bad_form(content.split(b"\n")[1], form)
    if top == "sources":
        return _bad_log(content, least=1)
    if name in ("metadata", "holdfast/manifest.json"):
        return _bad_log(content, least=1) or _bad_form(content, QueryMetadata if name == "metadata" else dict[str, Any])
    if last == "metadata":
        return _bad_log(content, least=1)
    if last.endswith(".zip"):
        return _bad_zip(content)
    if last.endswith(".changelog"):
        return _bad_changelog(content)
    return None if content else "it is empty"


def _bad_log(content: bytes, least: int) -> str | None:
    """Checks one of Spark's logs: a version, then lines, where those that look like JSON are JSON; or JSON alone."""
    if not content:
        return "it is empty: it was half-written"
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return "it is not text"
    if least == 1 and text.startswith("{"):
        return _bad_json(text)
    lines = text.rstrip("\n").split("\n")
    if len(lines) < least:
        return "it is cut short: it was half-written"
    return next((bad for bad in map(_bad_json, lines[1:]) if bad is not None), None)


def _bad_json(text: str) -> str | None:
    if text.lstrip().startswith("{"):
        try:
            parse_json(text)
        except Malformed as error:
            return str(error)
    return None


def _bad_form(text: bytes, form: Any) -> str | None:
    """Checks that JSON has the expected fields."""
    try:
        check_form(parse_json(text, infinite=True), form)
    except Malformed as error:
        return str(error)
    return None


def _bad_zip(content: bytes) -> str | None:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            bad = archive.testzip()
            if bad is not None:
                return f"{bad!r} in it does not match its checksum"
        snapshot_tables(content, "")
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        return f"it is not a whole snapshot ({error})"
    except CorruptState:
        return "it does not list its contents"
    return None


def _bad_changelog(content: bytes) -> str | None:
    """Checks only the usual compression: blocks, the last of which is empty."""
    if not content:
        return "it is empty"
    if not content.startswith(_LZ4_MAGIC):
        return None
    at, last = 0, -1
    while at < len(content):
        if len(content) - at < _LZ4.size or content[at : at + len(_LZ4_MAGIC)] != _LZ4_MAGIC:
            return f"it is cut short, or damaged, at byte {at}"
        _, _, compressed, last, _ = _LZ4.unpack_from(content, at)
        at += _LZ4.size + max(compressed, 0)
    return None if at == len(content) and last == 0 else "it is cut short"
