"""Beam's door to DoFn, CombineFn and the aggregations."""

from holdfast.model.aggregate.combine import CombineFn
from holdfast.model.functions.dofn import DoFn, TaggedOutput
from holdfast.model.functions.grouping import CombinePerKey, GroupByKey

__all__ = ["CombineFn", "CombinePerKey", "DoFn", "GroupByKey", "TaggedOutput"]
