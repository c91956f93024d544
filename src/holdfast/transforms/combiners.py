"""Beam's door to the ready combiners."""

from holdfast.model.aggregate.combiners import *  # noqa: F403
from holdfast.model.aggregate.combiners import __all__ as __all__
