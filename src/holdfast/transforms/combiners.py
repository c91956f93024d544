"""Beam's door to the ready combiners."""

from holdfast.model.combiners import *  # noqa: F403
from holdfast.model.combiners import __all__ as __all__
