"""Beam's doors to the transforms: names lead to `holdfast.model`."""

from holdfast.transforms import combiners, core, timeutil, trigger, userstate, window

__all__ = ["combiners", "core", "timeutil", "trigger", "userstate", "window"]
