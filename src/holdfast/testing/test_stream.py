"""TestStream under Beam's module name."""

from holdfast.testing.stream import TestStream

__all__ = ["TestStream"]
