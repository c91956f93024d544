"""What a BatchDoFn may have, checked when its step is built."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.model.functions.batches import BatchDoFn, ColumnState
from holdfast.model.functions.dofn import DoFn
from holdfast.model.functions.options import StepOptions
from holdfast.model.functions.params import ParamKind
from holdfast.model.functions.signature import MethodSignature, read_signature
from holdfast.model.time.timers import timers_of

__all__ = ["batch_problems", "batch_signature"]

_ALLOWED = frozenset({ParamKind.ELEMENT, ParamKind.WINDOW, ParamKind.STATE, ParamKind.SIDE_INPUT})


def batch_signature(fn: BatchDoFn) -> MethodSignature:
    """What process_batch asks for."""
    if type(fn).process_batch is BatchDoFn.process_batch:
        problem = f"{type(fn).__name__} has no process_batch method."
        return MethodSignature("process_batch", fn.process_batch, problems=[problem])
    signature = read_signature(fn.process_batch, "process_batch", allowed=_ALLOWED, element_first=True, cells_as=ColumnState)
    for argument in signature.arguments:
        kind = getattr(argument.spec, "kind", "value")
        if argument.kind is ParamKind.STATE and kind != "value":
            signature.problems.append(
                f"process_batch has the {kind} cell {argument.spec.name!r}; it can only have value cells "
                "(ValueStateSpec). Write a DoFn for the others."
            )
    return signature


def batch_problems(fn: DoFn, options: StepOptions) -> Iterator[str]:
    """What a BatchDoFn and its options have that such a function cannot have, in sentences."""
    if not isinstance(fn, BatchDoFn):
        return
    for method in ("process", "on_window_expiration"):
        if getattr(type(fn), method) is not getattr(DoFn, method):
            yield f"A BatchDoFn has process_batch, and no {method}."
    for name in dir(type(fn)):
        if timers_of(getattr(type(fn), name, None)):
            yield f"{name} is the callback of a timer, which a BatchDoFn cannot have. Write a DoFn, or use a TTL."
    if options.on_error == "dead_letter":
        yield "on_error='dead_letter' puts aside single elements, but process_batch takes many at once. Write a DoFn."
    if options.limits is not None:
        yield "limits are kept element by element, but process_batch takes many at once. Write a DoFn."
    if options.requires_time_sorted_input:
        yield "requires_time_sorted_input is for functions that take one element at a time; sort the rows by batch.times."
