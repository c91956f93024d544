"""Beam's door to DoFn, CombineFn and the aggregations."""

from holdfast.model.aggregate.combine import CombineFn
from holdfast.model.functions.dofn import DoFn, TaggedOutput
from holdfast.model.functions.grouping import CombinePerKey, GroupByKey
from holdfast.model.functions.stateless import Filter, FlatMap, Map

__all__ = ["CombineFn", "CombinePerKey", "DoFn", "Filter", "FlatMap", "GroupByKey", "Map", "TaggedOutput"]
