"""Flink's descriptors of state: specs of cells, with Flink's names and arguments.

The live cells are Holdfast's own: what Flink calls `value()` and `update(...)` of a value is `read()` and `write(...)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from holdfast.model.aggregate.combine import CombineFn
from holdfast.model.coders import Coder
from holdfast.model.state.specs import BagStateSpec, CombiningStateSpec, MapStateSpec, State, StateSpec, ValueStateSpec
from holdfast.model.state.ttl import Ttl

__all__ = [
    "AggregatingStateDescriptor",
    "ListStateDescriptor",
    "MapStateDescriptor",
    "ReducingStateDescriptor",
    "StateDescriptor",
    "ValueStateDescriptor",
]


class StateDescriptor(StateSpec[State]):
    """What all of Flink's descriptors have."""

    def enable_time_to_live(self, ttl_config: Ttl) -> None:
        """Gives the cell a time to live. Call it where the cell is declared, before a step is built with it.

        A cell expires as a whole, also a list or a map, of which Flink expires each entry by itself.
        """
        if isinstance(ttl_config, Ttl):
            self.ttl = ttl_config
        else:
            self._made_wrong.append(
                f"enable_time_to_live was given {ttl_config!r}; give a Ttl, such as StateTtlConfig.new_builder(...).build()."
            )


class ValueStateDescriptor(StateDescriptor, ValueStateSpec[Any]):
    """Declares a value cell."""

    def __init__(self, name: str, value_type_info: Coder[Any]) -> None:
        super().__init__(name, value_type_info)


class ListStateDescriptor(StateDescriptor, BagStateSpec[Any]):
    """Declares a bag cell: its values stay in the order in which they were added."""

    def __init__(self, name: str, elem_type_info: Coder[Any]) -> None:
        super().__init__(name, elem_type_info)


class MapStateDescriptor(StateDescriptor, MapStateSpec[Any, Any]):
    """Declares a map cell."""

    def __init__(self, name: str, key_type_info: Coder[Any], value_type_info: Coder[Any]) -> None:
        # The base class of all descriptors has no key coder, so this goes past it.
        MapStateSpec.__init__(self, name, key_type_info, value_type_info)


class ReduceFunction(Protocol):
    """Flink's function object of two values."""

    def reduce(self, value1: Any, value2: Any) -> Any: ...


class AggregateFunction(Protocol):
    """Flink's function object of an aggregation."""

    def create_accumulator(self) -> Any: ...

    def add(self, value: Any, accumulator: Any) -> Any: ...

    def get_result(self, accumulator: Any) -> Any: ...

    def merge(self, acc_a: Any, acc_b: Any) -> Any: ...


class Reducing(CombineFn[Any, Any, Any]):
    """Reduces values two by two. As in Flink, the result of no values is None."""

    def __init__(self, reduce: Callable[[Any, Any], Any]) -> None:
        self._reduce = reduce

    def create_accumulator(self) -> Any:
        return None

    def add_input(self, mutable_accumulator: Any, element: Any) -> Any:
        return element if mutable_accumulator is None else self._reduce(mutable_accumulator, element)

    def merge_accumulators(self, accumulators: Iterable[Any]) -> Any:
        merged = None
        for accumulator in accumulators:
            merged = merged if accumulator is None else self.add_input(merged, accumulator)
        return merged

    def extract_output(self, accumulator: Any) -> Any:
        return accumulator


class Aggregating(CombineFn[Any, Any, Any]):
    """Calls Flink's function object. As in Flink, the result of no values is None."""

    def __init__(self, function: AggregateFunction) -> None:
        self._function = function

    def create_accumulator(self) -> Any:
        return None

    def add_input(self, mutable_accumulator: Any, element: Any) -> Any:
        accumulator = self._function.create_accumulator() if mutable_accumulator is None else mutable_accumulator
        return self._function.add(element, accumulator)

    def merge_accumulators(self, accumulators: Iterable[Any]) -> Any:
        merged = None
        for accumulator in accumulators:
            if merged is None:
                merged = accumulator
            elif accumulator is not None:
                merged = self._function.merge(merged, accumulator)
        return merged

    def extract_output(self, accumulator: Any) -> Any:
        return None if accumulator is None else self._function.get_result(accumulator)


class _CombiningDescriptor(StateDescriptor, CombiningStateSpec[Any, Any]):
    """A combining cell whose function comes in Flink's form."""

    def __init__(self, name: str, coder: Coder[Any], combine_fn: CombineFn[Any, Any, Any], missing: list[str]) -> None:
        CombiningStateSpec.__init__(self, name, coder, combine_fn)
        self._missing = missing

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        if self._missing:
            yield f"The function of the cell {self.name!r} lacks {' and '.join(self._missing)}."


class ReducingStateDescriptor(_CombiningDescriptor):
    """Declares a combining cell that reduces values two by two: a function of two values, or an object with `reduce`."""

    def __init__(
        self, name: str, reduce_function: Callable[[Any, Any], Any] | ReduceFunction, type_info: Coder[Any]
    ) -> None:
        reduce: Any = getattr(reduce_function, "reduce", reduce_function)
        missing = [] if callable(reduce) else ["reduce(value1, value2)"]
        super().__init__(name, type_info, Reducing(reduce), missing)


class AggregatingStateDescriptor(_CombiningDescriptor):
    """Declares a combining cell by an object with `create_accumulator`, `add(value, accumulator)`, `get_result`, `merge`."""

    def __init__(self, name: str, agg_function: AggregateFunction, state_type_info: Coder[Any]) -> None:
        methods = ("create_accumulator", "add", "get_result", "merge")
        missing = [method for method in methods if not callable(getattr(agg_function, method, None))]
        super().__init__(name, state_type_info, Aggregating(agg_function), missing)
