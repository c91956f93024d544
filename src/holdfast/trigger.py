"""Beam's door to triggers, as an attribute of the package: `beam.trigger.AfterAll`."""

from holdfast.transforms.trigger import *  # noqa: F403
from holdfast.transforms.trigger import __all__ as __all__
