"""Operating jobs: inspecting checkpoints, going back in time, savepoints, rescaling, export and import.

Everything here works from the checkpoint directory alone, without the job's code. The command line (`holdfast`) is a thin
layer over these functions. They are imported on first use, so that those that need no Spark work without it.
"""

import typing as _typing

if _typing.TYPE_CHECKING:
    from holdfast.checkpoint.layout import Checkpoint, open_checkpoint
    from holdfast.ops.inspect.change_frames import read_changes, stream_changes
    from holdfast.ops.inspect.compare import Change, Diff, state_diff, state_history
    from holdfast.ops.inspect.overview import Overview, checkpoint_show
    from holdfast.ops.inspect.schema import CellSchema, StepSchema, TimerSchema, state_schema
    from holdfast.ops.inspect.showing import ShownCell, StateView, state_show
    from holdfast.ops.inspect.state_frame import read_state
    from holdfast.ops.inspect.state_reader import KeyPage, KeyState, StateReader, StepInfo
    from holdfast.ops.inspect.summary import CellSummary, StepSummary, state_ls
    from holdfast.ops.move.export import Export, state_export
    from holdfast.ops.move.importing import Imported, state_import
    from holdfast.ops.move.removing import Removed, remove_state
    from holdfast.ops.move.rescale import Rescaled, rescale
    from holdfast.ops.move.restore import Restored, savepoint_restore
    from holdfast.ops.move.savepoint import savepoint_create, savepoint_ls, savepoint_verify
    from holdfast.ops.move.stopping import stop
    from holdfast.ops.upkeep.advise import Advice, Goals, advise
    from holdfast.ops.upkeep.doctor import Check, doctor
    from holdfast.ops.upkeep.health import health
    from holdfast.ops.upkeep.repair import Repair, checkpoint_repair
    from holdfast.ops.upkeep.verify import checkpoint_verify
    from holdfast.spark.session.fetching import Jars, jars
    from holdfast.watch.health.report import Health
    from holdfast.watch.health.thresholds import Thresholds

__all__ = [
    "Advice",
    "CellSchema",
    "CellSummary",
    "Change",
    "Check",
    "Checkpoint",
    "Diff",
    "Export",
    "Goals",
    "Health",
    "Imported",
    "Jars",
    "KeyPage",
    "KeyState",
    "Overview",
    "Removed",
    "Repair",
    "Rescaled",
    "Restored",
    "ShownCell",
    "StateReader",
    "StateView",
    "StepInfo",
    "StepSchema",
    "StepSummary",
    "Thresholds",
    "TimerSchema",
    "advise",
    "checkpoint_repair",
    "checkpoint_show",
    "checkpoint_verify",
    "doctor",
    "health",
    "jars",
    "open_checkpoint",
    "read_changes",
    "read_state",
    "remove_state",
    "rescale",
    "savepoint_create",
    "savepoint_ls",
    "savepoint_restore",
    "savepoint_verify",
    "state_diff",
    "state_export",
    "state_history",
    "state_import",
    "state_ls",
    "state_schema",
    "state_show",
    "stop",
    "stream_changes",
]

_HOMES = {
    "Advice": "holdfast.ops.upkeep.advise",
    "CellSchema": "holdfast.ops.inspect.schema",
    "CellSummary": "holdfast.ops.inspect.summary",
    "Change": "holdfast.ops.inspect.compare",
    "Check": "holdfast.ops.upkeep.doctor",
    "Checkpoint": "holdfast.checkpoint.layout",
    "Diff": "holdfast.ops.inspect.compare",
    "Export": "holdfast.ops.move.export",
    "Goals": "holdfast.ops.upkeep.advise",
    "Health": "holdfast.watch.health.report",
    "Imported": "holdfast.ops.move.importing",
    "Jars": "holdfast.spark.session.fetching",
    "KeyPage": "holdfast.ops.inspect.state_reader",
    "KeyState": "holdfast.ops.inspect.state_reader",
    "Overview": "holdfast.ops.inspect.overview",
    "Removed": "holdfast.ops.move.removing",
    "Repair": "holdfast.ops.upkeep.repair",
    "Rescaled": "holdfast.ops.move.rescale",
    "Restored": "holdfast.ops.move.restore",
    "ShownCell": "holdfast.ops.inspect.showing",
    "StateReader": "holdfast.ops.inspect.state_reader",
    "StateView": "holdfast.ops.inspect.showing",
    "StepInfo": "holdfast.ops.inspect.state_reader",
    "StepSchema": "holdfast.ops.inspect.schema",
    "StepSummary": "holdfast.ops.inspect.summary",
    "Thresholds": "holdfast.watch.health.thresholds",
    "TimerSchema": "holdfast.ops.inspect.schema",
    "advise": "holdfast.ops.upkeep.advise",
    "checkpoint_repair": "holdfast.ops.upkeep.repair",
    "checkpoint_show": "holdfast.ops.inspect.overview",
    "checkpoint_verify": "holdfast.ops.upkeep.verify",
    "doctor": "holdfast.ops.upkeep.doctor",
    "health": "holdfast.ops.upkeep.health",
    "jars": "holdfast.spark.session.fetching",
    "open_checkpoint": "holdfast.checkpoint.layout",
    "read_changes": "holdfast.ops.inspect.change_frames",
    "read_state": "holdfast.ops.inspect.state_frame",
    "remove_state": "holdfast.ops.move.removing",
    "rescale": "holdfast.ops.move.rescale",
    "savepoint_create": "holdfast.ops.move.savepoint",
    "savepoint_ls": "holdfast.ops.move.savepoint",
    "savepoint_restore": "holdfast.ops.move.restore",
    "savepoint_verify": "holdfast.ops.move.savepoint",
    "state_diff": "holdfast.ops.inspect.compare",
    "state_export": "holdfast.ops.move.export",
    "state_history": "holdfast.ops.inspect.compare",
    "state_import": "holdfast.ops.move.importing",
    "state_ls": "holdfast.ops.inspect.summary",
    "state_schema": "holdfast.ops.inspect.schema",
    "state_show": "holdfast.ops.inspect.showing",
    "stop": "holdfast.ops.move.stopping",
    "stream_changes": "holdfast.ops.inspect.change_frames",
}

_WITHOUT_SPARK = {
    "holdfast.ops.upkeep.doctor",
    "holdfast.ops.upkeep.health",
    "holdfast.watch.health.report",
    "holdfast.watch.health.thresholds",
}
"""What needs no extra at all, for local checkpoints."""
_WITH_TOOLS = {
    "holdfast.checkpoint.layout",
    "holdfast.ops.upkeep.verify",
    "holdfast.ops.inspect.compare",
    "holdfast.ops.inspect.schema",
    "holdfast.ops.inspect.showing",
    "holdfast.ops.inspect.state_reader",
    "holdfast.ops.inspect.summary",
}
"""What imports no Spark: it works on local checkpoints with the extra `tools` alone."""


def __getattr__(name: str) -> _typing.Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'holdfast.ops' has no attribute {name!r}")
    import importlib

    from holdfast.model.extras import require_spark, require_tools

    if _HOMES[name] in _WITH_TOOLS:
        require_tools(f"holdfast.ops.{name}")
    elif _HOMES[name] not in _WITHOUT_SPARK:
        require_spark(f"holdfast.ops.{name}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
