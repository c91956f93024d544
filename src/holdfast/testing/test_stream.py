"""Beam's door to TestStream."""

from holdfast.testing.stream import TestStream

__all__ = ["TestStream"]
