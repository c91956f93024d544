"""Beam's inner door to the coders."""

from holdfast.model.coders import *  # noqa: F403
from holdfast.model.coders import __all__ as __all__
