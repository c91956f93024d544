"""For tests of users' functions: a scripted stream, and a way to run a function over it in milliseconds."""

from holdfast.testing.results import Results
from holdfast.testing.run import run
from holdfast.testing.stream import TestStream

__all__ = ["Results", "TestStream", "run"]
