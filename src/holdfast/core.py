"""Beam's door to DoFn, CombineFn and the aggregations, as an attribute of the package: `beam.core.CombineFn`."""

from holdfast.transforms.core import *  # noqa: F403
from holdfast.transforms.core import __all__ as __all__
