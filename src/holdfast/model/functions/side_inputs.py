"""Side inputs: small data that every call may look at, beside its element and its state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

from holdfast.errors import HoldfastError, InputError, InvalidStep
from holdfast.model.state.ttl import Ttl
from holdfast.model.time.timestamps import Duration

__all__ = ["AsDict", "AsIter", "AsList", "AsSingleton", "SideInput"]

T = TypeVar("T")
DurationLike = Duration | int | float | str


class SideInput:
    """A source, and the shape in which the function sees it.

    The source is a collection (in `holdfast.testing`), or a batch DataFrame or a function that makes one (on Spark). With
    `refresh` it is read again between micro-batches once that much time has passed. A DataFrame remembers the files it
    was made from, so if those files get replaced, give a function that makes a new one each time.

    The source of `AsDict` may also be a stream. Then a call has what the stream says of its own key, and elements wait until
    there is something: `wait` says how long at most, by the watermark; and `ttl` how long the newest row of a key is kept
    (docs/side-inputs.md).
    """

    takes_streams = False

    def __init__(
        self,
        source: object,
        *,
        refresh: DurationLike | None = None,
        wait: DurationLike | None = None,
        ttl: Ttl | DurationLike | None = None,
    ) -> None:
        problems = [] if self.takes_streams else [*streaming_problem(source, type(self).__name__)]
        self.refresh = _duration("refresh", refresh, problems)
        self.wait = _duration("wait", wait, problems)
        self.ttl = _ttl(ttl, problems)
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
            f"{what} is given a streaming DataFrame. It is read as a whole, and a stream has no end. AsDict(stream) gives "
            "each call what the stream says of its own key (docs/side-inputs.md); to match rows by their time, join the two "
            "streams: hf.keyed(...).join(hf.keyed(...), within='10 minutes'). For a table that changes, give a "
            "function with refresh: AsDict(lambda: spark.read.parquet(path), refresh='1 minute')."
        )


def _duration(name: str, given: DurationLike | None, problems: list[str]) -> Duration | None:
    try:
        duration = None if given is None else Duration.of(given)
    except (HoldfastError, TypeError, ValueError) as refused:
        problems.append(f"{name} is not a duration: {refused}")
        return None
    if duration is not None and duration.micros < 0:
        problems.append(f"{name} is {given!r}; it cannot be negative.")
    return duration


def _ttl(given: Ttl | DurationLike | None, problems: list[str]) -> Ttl | None:
    try:
        return Ttl(given) if given is not None and not isinstance(given, Ttl) else given
    except InvalidStep as refused:
        problems.extend(refused.problems)
        return None


class AsList(SideInput):
    """All items, as a list."""

    def view(self, items: Iterable[T]) -> list[T]:
        return list(items)


class AsIter(AsList):
    """Beam's name for items that are only iterated over; here it is a list too."""


class AsDict(SideInput):
    """Pairs, as a dict; the last of equal keys wins. Of a stream: what it says of the key of the call."""

    takes_streams = True

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
