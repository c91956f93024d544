"""The door to what keeps state: the backends there are, and what one's own must do. See docs/backends.md.

`StateBackend` is the contract; the order of its calls and the rules are in `holdfast.engine.backends.protocol`.
`holdfast.testing.check_backend` checks them.
"""

from holdfast.engine.backends.disk import DiskBackend
from holdfast.engine.backends.heap import HeapBackend
from holdfast.engine.backends.key_value import KeyValueBackend
from holdfast.engine.backends.protocol import BackendFactory, Commit, Due, Part, Place, Schedule, StateBackend
from holdfast.engine.log.chain import SnapshotOptions
from holdfast.engine.log.store import BlobStore
from holdfast.engine.state.key_group import KeyGroupState, Layout, WindowState
from holdfast.engine.state.keys import key_of, slot_from_bytes, slot_of, slot_to_bytes
from holdfast.engine.state.sweeping import sweep_budget
from holdfast.engine.tables import Slot
from holdfast.model.present import BundleClocks

__all__ = [
    "BackendFactory",
    "BlobStore",
    "BundleClocks",
    "Commit",
    "DiskBackend",
    "Due",
    "HeapBackend",
    "KeyGroupState",
    "KeyValueBackend",
    "Layout",
    "Part",
    "Place",
    "Schedule",
    "Slot",
    "SnapshotOptions",
    "StateBackend",
    "WindowState",
    "key_of",
    "slot_from_bytes",
    "slot_of",
    "slot_to_bytes",
    "sweep_budget",
]
