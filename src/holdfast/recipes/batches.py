"""Elements in batches: for calls that cost the same for a hundred things as for one."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import holdfast as hf
from holdfast.recipes.arguments import Recipe, Span
from holdfast.recipes.rows import plain

__all__ = ["GroupIntoBatches", "stored_size"]

_PLAIN = hf.PlainCoder()


def stored_size(value: object) -> int:
    """The bytes of a text in UTF-8 or of bytes; of anything else as a cell keeps it."""
    if isinstance(value, str):
        return len(value.encode())
    return len(value) if isinstance(value, (bytes, bytearray)) else len(_PLAIN.encode(value))


class GroupIntoBatches(Recipe):
    """Gives the values of a key in batches, (key, [values]): when there are enough, or they have waited long enough.

    A batch is given when it has `max_count` values, before it would have more than `max_bytes`, and `max_wait` after its
    first value came, by the machine's clock; when the window ends, and at the end of the input, what there is. Give at
    least one of the three. A value that is larger than `max_bytes` by itself is a batch of its own. `size_of` says how
    large a value is, in bytes; `stored_size` if it is left out.

    Within a batch and from one to the next, values are in order of arrival. A row is given as a dict of its fields.
    A micro-batch that runs again gives the same batches: the clock is the micro-batch's own.

    Keeps for each key and window: the values of the batch that is not full, their number and size.

    Frees it: when the batch is given. Without `max_wait`, a batch that never fills stays until its window ends.

    Order: any.
    """

    VALUES = hf.BagStateSpec("values", doc="The values that wait for their batch.")
    TOTALS = hf.ValueStateSpec("totals", hf.TupleCoder([hf.VarIntCoder(), hf.VarIntCoder()]), doc="Their number and size.")
    WAITED = hf.TimerSpec("waited", hf.TimeDomain.REAL_TIME)

    def __init__(
        self,
        max_count: int | None = None,
        *,
        max_bytes: int | None = None,
        max_wait: Span | None = None,
        size_of: Callable[[object], int] = stored_size,
    ) -> None:
        super().__init__()
        check = self._arguments
        self._max_count = None if max_count is None else check.whole("max_count", max_count)
        self._max_bytes = None if max_bytes is None else check.whole("max_bytes", max_bytes)
        self._max_wait = check.optional_span("max_wait", max_wait)
        check.function("size_of", size_of)
        self._size_of = size_of
        if max_count is None and max_bytes is None and max_wait is None:
            check.problems.append("Nothing says when a batch is given: name max_count, max_bytes or max_wait.")

    def process(
        self,
        element: tuple[object, object],
        values: hf.BagState[object] = hf.DoFn.StateParam(VALUES),
        totals: hf.ValueState[tuple[int, int]] = hf.DoFn.StateParam(TOTALS),
        waited: hf.Timer = hf.DoFn.TimerParam(WAITED),
    ) -> Iterator[tuple[object, list[object]]]:
        key, given = element
        value = plain(given)
        count, size = totals.read() or (0, 0)
        added = 0 if self._max_bytes is None else self._size(value)
        if self._max_bytes is not None and count and size + added > self._max_bytes:
            yield from self._flush(key, values, totals)
            count = size = 0
        if count == 0:
            # A timer that nobody waits for fires when the window ends, or the input.
            waited.set(hf.MAX_TIMESTAMP if self._max_wait is None else hf.Timestamp.now() + self._max_wait)
        values.add(value)
        totals.write((count + 1, size + added))
        if self._is_full(count + 1, size + added):
            waited.clear()
            yield from self._flush(key, values, totals)

    @hf.on_timer(WAITED)
    def on_waited(
        self,
        key: object = hf.DoFn.KeyParam,
        values: hf.BagState[object] = hf.DoFn.StateParam(VALUES),
        totals: hf.ValueState[tuple[int, int]] = hf.DoFn.StateParam(TOTALS),
    ) -> Iterator[tuple[object, list[object]]]:
        yield from self._flush(key, values, totals)

    def _size(self, value: object) -> int:
        size = self._size_of(value)
        if isinstance(size, bool) or not isinstance(size, int) or size < 0:
            raise hf.InputError(f"size_of gave {size!r:.200} for a value; it must give its size in bytes, a whole number.")
        return size

    def _is_full(self, count: int, size: int) -> bool:
        is_long = self._max_count is not None and count >= self._max_count
        return is_long or (self._max_bytes is not None and size >= self._max_bytes)

    def _flush(
        self, key: object, values: hf.BagState[object], totals: hf.ValueState[tuple[int, int]]
    ) -> Iterator[tuple[object, list[object]]]:
        batch = list(values.read())
        values.clear()
        totals.clear()
        if batch:
            yield key, batch
