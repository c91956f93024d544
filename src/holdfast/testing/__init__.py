"""For testing your functions: a scripted stream, and a way to run a function over it in milliseconds.

And for testing your own backends: `check_backend`.
"""

from holdfast.testing.backend_checks import BackendCheck, BrokenBackend, backend_checks, check_backend
from holdfast.testing.results import Results
from holdfast.testing.run import run
from holdfast.testing.stream import SideStream, TestStream

__all__ = [
    "BackendCheck",
    "BrokenBackend",
    "Results",
    "SideStream",
    "TestStream",
    "backend_checks",
    "check_backend",
    "run",
]
