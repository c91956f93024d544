"""Beam's door to DoFn, CombineFn and the aggregations."""

from holdfast.model.combine import CombineFn
from holdfast.model.dofn import DoFn, TaggedOutput
from holdfast.model.grouping import CombinePerKey, GroupByKey

__all__ = ["CombineFn", "CombinePerKey", "DoFn", "GroupByKey", "TaggedOutput"]
