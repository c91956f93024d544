"""Beam's door to side inputs and tagged outputs."""

from holdfast.model.functions.dofn import TaggedOutput
from holdfast.model.functions.side_inputs import AsDict, AsIter, AsList, AsSingleton

__all__ = ["AsDict", "AsIter", "AsList", "AsSingleton", "TaggedOutput"]
