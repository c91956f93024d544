"""Beam's door to DoFn and CombineFn."""

from holdfast.model.combine import CombineFn
from holdfast.model.dofn import DoFn, TaggedOutput

__all__ = ["CombineFn", "DoFn", "TaggedOutput"]
