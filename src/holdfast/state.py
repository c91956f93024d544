"""The tutorial's door to state cells: `from holdfast.state import ValueStateSpec`."""

from holdfast.transforms.userstate import *  # noqa: F403
from holdfast.transforms.userstate import __all__ as __all__
