"""The glossary: in order, complete, and each place in the code is there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src" / "holdfast"
PAGE = ROOT / "docs" / "glossary.md"

_PLACE = re.compile(r"`([^`]+)`")

OF_THE_TEXTS = """
accumulator, allowed lateness, bag state, barrier, bundle, capability matrix, cardinality, Chandy-Lamport, checkpoint,
checkpoint interval,
checkpoint timeout, checksum, coder, CombineFn, combiner lifting, compaction, conflict resolution, deduplication, DoFn,
element, event time, eviction, exactly once, fault tolerance, flatMapGroupsWithState, GroupState, HashMapStateBackend,
HDFS-backed store, idempotent sink, incremental checkpoint, key, keyed state, late data, LRU, mapGroupsWithState,
mergeAccumulators, micro-batch, minimum pause, MVCC, offset, operator state, output mode, ParDo, PCollection, pipeline,
PTransform, rate limit, recovery time, reprocessing, RocksDB, RocksDBStateBackend, runner, savepoint, schema evolution,
session window, shuffle, side input, side output, sink, sliding window, source, state backend, state cell, state explosion,
state schema, state store, StateSpec, StateStoreProvider, stream-stream join, task slot, time travel, timeout,
tolerable failures, transactional commit, trigger, TTL, tumbling window, update type, upsert, value state, versioning,
visibility, WAL, watermark, window, worker, DAG, GroupByKey, hot-key fan-out, JobManager, state descriptor
"""
"""What the texts call things, whose code is in `tests/texts/`."""


def entries() -> dict[str, list[str]]:
    """Of each term: what it is, the word here, the place."""
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    return {term: rest for term, *rest in ([cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:])}


def names_in(path: Path) -> set[str]:
    """What a module defines or imports, read and not imported."""
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            found.add(node.name)
        elif isinstance(node, ast.ImportFrom):
            found |= {alias.asname or alias.name for alias in node.names}
    return found


def is_there(place: str) -> bool:
    path, _, name = place.partition("::")
    return (SOURCES / path).is_file() and (not name or name in names_in(SOURCES / path))


def test_the_terms_are_in_order_and_each_once():
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    assert len(entries()) == len(lines) - 1
    assert list(entries()) == sorted(entries(), key=str.casefold)


@pytest.mark.parametrize("term", re.split(r",\s+", OF_THE_TEXTS.strip()))
def test_a_term_of_the_texts_is_there(term):
    assert term in entries()


def test_each_has_a_sentence_and_a_word():
    assert [term for term, (what, here, _) in entries().items() if not (what.endswith(".") and here)] == []


def test_each_place_is_there():
    assert [term for term, (*_, code) in entries().items() if not _PLACE.findall(code)] == []
    assert [place for *_, code in entries().values() for place in _PLACE.findall(code) if not is_there(place)] == []


def test_a_place_that_is_not_there_is_noticed():
    assert is_there("model/state/ttl.py::Ttl")
    assert not is_there("model/state/ttl.py::Tll")
    assert not is_there("model/state/tll.py")
