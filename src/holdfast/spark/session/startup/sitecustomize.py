"""Runs before anything else in the Python processes of a local Spark; imports nothing that costs time.

At each start of a query, Spark runs a process that prints what it does, line by line, on the user's terminal.
"""

import os
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec

if any("transform_with_state_driver_worker" in word for word in sys.orig_argv):
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115

# This file hides one that the user may have.
_others = [entry for entry in sys.path if os.path.realpath(entry) != os.path.dirname(os.path.realpath(__file__))]
_next = PathFinder.find_spec("sitecustomize", _others)
if _next is not None and _next.loader is not None:
    _next.loader.exec_module(module_from_spec(_next))
