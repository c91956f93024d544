"""Beam's door to the coders: `from holdfast.coders import VarIntCoder`."""

from holdfast.model.coders import *  # noqa: F403
from holdfast.model.coders import __all__ as __all__
