"""The files that the state after a micro-batch consists of: what a copy of it needs, and nothing else.

What should exist follows from the manifest's steps, the operators' descriptions of their partitions and schemas, and the
sources' offsets.

metadata, holdfast/manifest.json
offsets and commits of the micro-batch and of the one before it, both of which Spark reads when it starts
sources/                          all of it; for a file source, the log up to where it was
state/<operator>/_metadata        the description that applies to the micro-batch, and the schemas that it names
state/<operator>/<partition>/     the last snapshot, the files that it names, and the changelogs after it
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from holdfast.checkpoint.files.choice import FileInfo, join
from holdfast.checkpoint.layout import Checkpoint
from holdfast.checkpoint.parts import Operator, Partition
from holdfast.checkpoint.source_logs import SourceLogs
from holdfast.errors import CorruptState

__all__ = ["PieceFinder", "Pieces", "whole_pieces"]


@dataclass
class Pieces:
    """The files of a micro-batch."""

    files: list[FileInfo] = field(default_factory=list)
    """With names relative to the checkpoint."""
    missing: list[str] = field(default_factory=list)
    """The paths of missing files."""
    sizes: dict[str, int] = field(default_factory=dict)
    """By path, the sizes that snapshots record for their files."""


class PieceFinder:
    """Finds the files of a checkpoint's micro-batches, as of now."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint
        self.operators = checkpoint.operators()
        self._common = list(self._found_common())
        self._missing_operators = checkpoint.missing_operators(self.operators)
        self._sources = SourceLogs(checkpoint)
        self._tables: dict[str, dict[str, int]] = {}
        self._missing_schemas: dict[tuple[int, int], list[str]] = {}

    def pieces(self, batch: int) -> Pieces:
        """The files of one micro-batch. Raises CorruptState if a snapshot cannot be read."""
        pieces = Pieces(list(self._common))
        for log in ("offsets", "commits"):
            for number in range(max(0, batch - 1), batch + 1):
                self._add(pieces, log, str(number))
        pieces.missing += self.missing_sources(batch)
        pieces.missing += self._missing_operators
        for operator in self.operators:
            if operator.is_described:
                self._add_metadata(pieces, operator, batch)
            for number, stores in self._checkpoint.partitions_at(operator, batch).items():
                if not stores:
                    pieces.missing.append(join(operator.path, str(number)))
                for store in stores:
                    self._add_store(pieces, store, batch + 1)
        return pieces

    def missing(self, batch: int, *, planned: bool) -> list[str]:
        """The missing files of a micro-batch, and those that its sources need for the next one if that is planned."""
        missing = [*self.pieces(batch).missing, *(self.missing_sources(batch + 1) if planned else ())]
        return list(dict.fromkeys(missing))

    def missing_sources(self, batch: int) -> list[str]:
        """The missing files of sources, judging by the offsets of a micro-batch."""
        return self._sources.missing(batch)

    def _found_common(self) -> Iterator[FileInfo]:
        files, path = self._checkpoint.files, self._checkpoint.path
        for name in ("metadata", "holdfast/manifest.json"):
            info = files.info(join(path, name))
            if info is not None:
                yield replace(info, name=name)
        for below in files.walk(join(path, "sources")):
            if not below.name.rpartition("/")[2].startswith("."):
                yield replace(below, name=f"sources/{below.name}")
        for operator in self.operators:
            # The first partition's stores also hold the schemas of operators in the older format.
            first = [join(store.path, "_metadata") for store in operator.partitions if store.number == 0]
            for folder in (join(operator.path, "_stateSchema"), *first):
                for below in files.walk(folder):
                    if not below.name.rpartition("/")[2].startswith("."):
                        yield replace(below, name=self._below(below.path))

    def _add_metadata(self, pieces: Pieces, operator: Operator, batch: int) -> None:
        known = [number for number in operator.counts if number <= batch]
        name = f"v2/{max(known)}" if known else "metadata"
        self._add(pieces, "state", str(operator.number), "_metadata", name)
        if known:
            pieces.missing += self._without_schemas(operator.number, max(known))

    def _without_schemas(self, number: int, described: int) -> list[str]:
        """The missing schemas among those that an operator names."""
        missing = self._missing_schemas.get((number, described))
        if missing is None:
            named = self._checkpoint.schema_paths(number, described)
            missing = [path for path in named if self._checkpoint.files.info(path) is None]
            self._missing_schemas[number, described] = missing
        return missing

    def _add_store(self, pieces: Pieces, store: Partition, version: int) -> None:
        base = store.base(version)
        pieces.missing += store.missing(version)
        for number in sorted(n for n in store.changelogs if base < n <= version):
            self._add_file(pieces, store.changelogs[number])
        if base:
            self._add_file(pieces, store.snapshots[base])
            for name, size in self.tables(store.snapshots[base]).items():
                path = join(store.path, "SSTs", name)
                pieces.sizes[path] = size
                if name in store.tables:
                    self._add_file(pieces, store.tables[name])
                else:
                    pieces.missing.append(path)

    def tables(self, snapshot: FileInfo) -> dict[str, int]:
        """The files that a snapshot names, with their sizes."""
        known = self._tables.get(snapshot.path)
        if known is None:
            known = self._tables[snapshot.path] = self._checkpoint.table_names(snapshot)
        return known

    def _add(self, pieces: Pieces, *names: str) -> None:
        info = self._checkpoint.files.info(join(self._checkpoint.path, *names))
        if info is None:
            pieces.missing.append(join(self._checkpoint.path, *names))
        else:
            self._add_file(pieces, info)

    def _add_file(self, pieces: Pieces, info: FileInfo) -> None:
        pieces.files.append(replace(info, name=self._below(info.path)))

    def _below(self, path: str) -> str:
        return path.removeprefix(self._checkpoint.path).lstrip("/")


def whole_pieces(checkpoint: Checkpoint, batch: int, *, planned: bool = False) -> list[FileInfo]:
    """The files of a micro-batch. Raises CorruptState if one is missing, or if the next one's plan cannot be run."""
    finder = PieceFinder(checkpoint)
    missing = finder.missing(batch, planned=planned)
    if missing:
        raise CorruptState(
            f"Micro-batch {batch} of {checkpoint.path!r} is incomplete: {missing[0]!r} is missing.",
            detail="\n".join(f"- {path}" for path in missing[1:]),
            todo=f"see what is whole: holdfast checkpoint verify {checkpoint.path}",
        )
    return finder.pieces(batch).files
