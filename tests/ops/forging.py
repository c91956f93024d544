"""A small checkpoint that no Spark has written, but in Spark's form; and ways to damage and to forge its files."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from holdfast.engine.stored.manifest import make_manifest
from holdfast.model.functions.options import StepOptions
from holdfast.model.functions.step import build_step
from holdfast.model.windows.ready import FixedWindows

from .functions import Everything

JSON_FILES = (
    "metadata",
    "offsets/1",
    "commits/1",
    "holdfast/manifest.json",
    "holdfast/lock.json",
    "holdfast/stop.json",
    "state/0/_metadata/v2/0",
    "sources/0/0",
)


def manifest() -> dict[str, Any]:
    step = build_step(Everything(), StepOptions(name="cells", windowing=FixedWindows(60)))
    return make_manifest(step.describe(), key=[{"name": "k", "type": "string"}], key_groups=2, backend="heap")


def make_checkpoint(folder: Path) -> Path:
    """Two committed micro-batches of a job with one step, in one partition."""
    properties = {"timeMode": "EventTime", "outputMode": "Append", "stateVariables": [{"stateName": "blobs"}]}
    operator = {
        "operatorInfo": {"operatorId": 0, "operatorName": "transformWithStateInPySparkExec"},
        "stateStoreInfo": [
            {
                "storeName": "default",
                "numColsPrefixKey": 0,
                "numPartitions": 1,
                "stateSchemaFilePaths": [f"file:{folder}/state/0/_stateSchema/default/0_a"],
            }
        ],
        "operatorPropertiesJson": json.dumps(properties),
    }
    lock = {
        "lock_version": 1,
        "owner": "job fraud",
        "host": "elsewhere",
        "machine": "elsewhere/1",
        "process": 12,
        "process_started": "77",
        "taken_at": "2026-01-01T00:00:00+00:00",
        "alive_at": "2026-01-01T00:00:00+00:00",
        "token": "0123",
    }
    content = {
        "metadata": json.dumps({"id": "5d3c7a1e-0000-4000-8000-000000000000"}),
        "holdfast/manifest.json": json.dumps({"manifest_version": 1, "job": "fraud", "steps": {"cells": manifest()}}),
        "holdfast/lock.json": json.dumps(lock),
        "holdfast/stop.json": json.dumps({"token": "0123", "by": "somebody"}),
        "state/0/_metadata/v2/0": "v2\n" + json.dumps(operator),
        "state/0/_stateSchema/default/0_a": "v3\nschema",
        "state/0/0/1.changelog": "changes",
        "sources/0/0": 'v1\n{"path":"file:///input/0","timestamp":1,"batchId":0}',
        "sources/0/1": 'v1\n{"path":"file:///input/1","timestamp":2,"batchId":1}',
    }
    settings = {"spark.sql.shuffle.partitions": "1"}
    for batch in (0, 1):
        head = {"batchWatermarkMs": 0, "batchTimestampMs": 1_700_000_000_000 + batch, "conf": settings}
        content[f"offsets/{batch}"] = f'v1\n{json.dumps(head)}\n{{"logOffset":{batch}}}'
        content[f"commits/{batch}"] = f"v1\n{json.dumps({'nextBatchWatermarkMs': 1000 * batch})}"
    for name, text in content.items():
        put(folder / name, text.encode())
    put(folder / "state/0/0/2.zip", snapshot({"sstFiles": [], "logFiles": [], "numKeys": 0}))
    return folder


def snapshot(description: Any) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        text = description if isinstance(description, str) else json.dumps(description)
        archive.writestr("metadata", f"v1\n{text}")
    return data.getvalue()


def put(file: Path, content: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)


def forge_savepoint(folder: Path, change: Any) -> None:
    """Changes what a savepoint says of itself, with a digest that fits."""
    file = folder / "savepoint.json"
    content = json.loads(file.read_text())
    content.pop("digest")
    content = change(content) or content
    text = json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
    if isinstance(content, dict):
        content["digest"] = hashlib.sha256(text).hexdigest()
    file.write_text(json.dumps(content))


ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=5),
    st.sampled_from(["", ".", "..", "/etc/passwd", "../../.bashrc", "a\0b", "\x1b[2J", "\ud800", "9" * 5000, "s3a://x/y"]),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
    st.just([{}]),
)
"""Values that a field should not have."""
JUNK = st.one_of(
    st.just(b""),
    st.binary(max_size=40),
    st.sampled_from(
        [
            b"{",
            b"[]",
            b"null",
            b"0",
            b'"x"',
            b"NaN",
            b"{}",
            b"[" * 100_000,
            b'{"a":' * 100_000,
            b'{"id":1}',
            b"v1",
            b"v1\n",
            b"v1\n{",
            b"v1\n[]",
            b"v1\n{}",
            b"v1\n" + b"[" * 100_000,
            b"v99\n{}",
            b"v2\n{}",
            b"\xff\xfe",
            b'"\\ud800"',
            b"1" * 10_000,
        ]
    ),
)
"""Contents that a file should not have."""


def places(content: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where in parsed JSON there is something that can be put otherwise."""
    inner = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    return [above, *(place for name, part in inner for place in places(part, (*above, name)))]


def replaced(content: Any, place: tuple[Any, ...], value: Any, *, remove: bool = False) -> Any:
    """Parsed JSON with something else in one place, or without that."""
    if not place:
        return value
    copy = dict(content) if isinstance(content, dict) else list(content)
    if len(place) == 1 and remove:
        del copy[place[0]]
    else:
        copy[place[0]] = replaced(copy[place[0]], place[1:], value, remove=remove)
    return copy


@st.composite
def forged(draw: Any, data: bytes) -> bytes:
    """A file with one field, or several, that it should not have so; or with any content at all."""
    if draw(st.integers(0, 3)) == 0:
        return bytes(draw(JUNK))
    if draw(st.integers(0, 5)) == 0:
        return data[: draw(st.integers(0, len(data)))]
    *before, text = data.split(b"\n", 1) if data.startswith(b"v") else (data,)
    first, *rest = text.split(b"\n") if before else (text,)
    content = json.loads(first)
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.sampled_from(places(content)))
        content = replaced(content, place, draw(ODD), remove=draw(st.booleans()))
    return b"\n".join([*before, json.dumps(content).encode(), *rest])
