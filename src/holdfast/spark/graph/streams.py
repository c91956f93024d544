"""What the streams at the beginning of a plan are: files, a Kafka topic, Spark's clock."""

from __future__ import annotations

import re
from typing import Any

from holdfast.engine.stored.words import without_secrets
from holdfast.spark.graph.description import SourceView

__all__ = ["Sources"]

_PLACES = ("path", "subscribe", "subscribePattern", "assign", "topic")
"""The only options that are looked at: others may be secret."""
_IN_BRACKETS = re.compile(r"\[(.*)\]$", re.DOTALL)


class Sources:
    """The sources that have been found, each once, however many ways begin at it."""

    def __init__(self) -> None:
        self._known: list[tuple[Any, SourceView]] = []

    @property
    def found(self) -> tuple[SourceView, ...]:
        return tuple(view for _, view in self._known)

    def at(self, node: Any) -> SourceView:
        """The source that a node without others below it is."""
        for known, view in self._known:
            if known.equals(node):
                return view
        view = SourceView(len(self._known) + 1, *_kind_and_place(node))
        self._known.append((node, view))
        return view


def _kind_and_place(node: Any) -> tuple[str, str]:
    name = node.nodeName()
    if name == "StreamingRelation":
        place = _IN_BRACKETS.search(str(node.sourceName()))
        return _short(str(node.dataSource().className())), without_secrets("" if place is None else place[1])
    if name == "StreamingRelationV2":
        options = node.extraOptions()
        given = [str(options.get(option)) for option in _PLACES if options.get(option) is not None]
        return str(node.sourceName()), without_secrets(", ".join(given))
    return str(name), ""


def _short(name: str) -> str:
    return name.rpartition(".")[2]
