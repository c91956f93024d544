"""Beam's door to side inputs and tagged outputs."""

from holdfast.model.dofn import TaggedOutput
from holdfast.model.side_inputs import AsDict, AsIter, AsList, AsSingleton

__all__ = ["AsDict", "AsIter", "AsList", "AsSingleton", "TaggedOutput"]
