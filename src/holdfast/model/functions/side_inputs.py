"""Side inputs: small data that every call may look at, beside its element and its state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

from holdfast.errors import HoldfastError, InputError, InvalidStep
from holdfast.model.time.timestamps import Duration

__all__ = ["AsDict", "AsIter", "AsList", "AsSingleton", "SideInput"]

T = TypeVar("T")


class SideInput:
    """A source, and the shape in which the function sees it.

    The source is a collection (in `holdfast.testing`), or a batch DataFrame or a function that makes one (on Spark). With
    `refresh` it is read again between micro-batches once that much time has passed. A DataFrame remembers the files it
    was made from, so if those files get replaced, give a function that makes a new one each time.
    """

    def __init__(self, source: object, *, refresh: Duration | int | float | str | None = None) -> None:
        problems = [*streaming_problem(source, type(self).__name__)]
        try:
            self.refresh = None if refresh is None else Duration.of(refresh)
            if self.refresh is not None and self.refresh.micros < 0:
                problems.append(f"refresh is {refresh!r}; it cannot be negative.")
        except (HoldfastError, TypeError, ValueError) as refused:
            problems.append(f"refresh is not a duration: {refused}")
        if problems:
            raise InvalidStep.of(type(self).__name__, problems)
        self.source: Any = source

    def view(self, items: Iterable[T]) -> object:
        """The source's items in the shape that the function is given."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__}({type(self.source).__name__})"


def streaming_problem(source: Any, what: str) -> Iterator[str]:
    """The problem with a streaming DataFrame: it cannot be read as a whole. Says what to do instead."""
    if getattr(source, "isStreaming", False) is True:
        yield (
            f"{what} is given a streaming DataFrame. A side input is read as a whole, and a stream has no end. Join the two "
            "streams by key and time: hf.keyed(...).join(hf.keyed(...), within='10 minutes'); or union them into one step "
            "that keeps the newest row of the other in a cell (docs/groups-and-joins.md). For a table that changes, give a "
            "function with refresh: AsDict(lambda: spark.read.parquet(path), refresh='1 minute')."
        )


class AsList(SideInput):
    """All items, as a list."""

    def view(self, items: Iterable[T]) -> list[T]:
        return list(items)


class AsIter(AsList):
    """Beam's name for items that are only iterated over; here it is a list too."""


class AsDict(SideInput):
    """Pairs, as a dict; the last of equal keys wins."""

    def view(self, items: Iterable[object]) -> dict[object, object]:
        if isinstance(items, Mapping):
            return dict(items)
        result = {}
        item: Any
        for item in items:
            try:
                key, value = item
            except (TypeError, ValueError):
                raise InputError(
                    f"AsDict takes (key, value) pairs; it was given {item!r}.",
                    todo="select two columns, or give pairs; AsList takes items of any shape",
                ) from None
            result[key] = value
        return result


class AsSingleton(SideInput):
    """The one item of the source."""

    def view(self, items: Iterable[T]) -> T:
        found = list(items)
        if len(found) != 1:
            raise InputError(
                f"AsSingleton takes a source of exactly one item; it has {len(found)}.",
                todo="limit or aggregate the source to one item, or use AsList",
            )
        return found[0]
