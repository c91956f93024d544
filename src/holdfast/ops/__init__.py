"""Operating jobs: inspecting checkpoints, going back in time, savepoints, rescaling, export and import.

Everything here works from the checkpoint directory alone, without the job's code. The command line (`holdfast`) is a thin
layer over these functions. They are imported on first use, so that those that need no Spark work without it.
"""

import typing as _typing

if _typing.TYPE_CHECKING:
    from holdfast.checkpoint.layout import Checkpoint, open_checkpoint
    from holdfast.ops.health.advise import Advice, Goals, advise
    from holdfast.ops.health.doctor import Check, doctor
    from holdfast.ops.health.repair import Repair, checkpoint_repair
    from holdfast.ops.health.verify import checkpoint_verify
    from holdfast.ops.inspect.compare import Change, Diff, state_diff, state_history
    from holdfast.ops.inspect.overview import Overview, checkpoint_show
    from holdfast.ops.inspect.showing import ShownCell, StateView, state_show
    from holdfast.ops.inspect.state_frame import read_state
    from holdfast.ops.inspect.summary import CellSummary, StepSummary, state_ls
    from holdfast.ops.move.export import Export, state_export
    from holdfast.ops.move.importing import Imported, state_import
    from holdfast.ops.move.rescale import Rescaled, rescale
    from holdfast.ops.move.restore import Restored, savepoint_restore
    from holdfast.ops.move.savepoint import savepoint_create, savepoint_ls, savepoint_verify
    from holdfast.ops.move.stopping import stop
    from holdfast.spark.session.fetching import Jars, jars

__all__ = [
    "Advice",
    "CellSummary",
    "Change",
    "Check",
    "Checkpoint",
    "Diff",
    "Export",
    "Goals",
    "Imported",
    "Jars",
    "Overview",
    "Repair",
    "Rescaled",
    "Restored",
    "ShownCell",
    "StateView",
    "StepSummary",
    "advise",
    "checkpoint_repair",
    "checkpoint_show",
    "checkpoint_verify",
    "doctor",
    "jars",
    "open_checkpoint",
    "read_state",
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
    "state_show",
    "stop",
]

_HOMES = {
    "Advice": "holdfast.ops.health.advise",
    "CellSummary": "holdfast.ops.inspect.summary",
    "Change": "holdfast.ops.inspect.compare",
    "Check": "holdfast.ops.health.doctor",
    "Checkpoint": "holdfast.checkpoint.layout",
    "Diff": "holdfast.ops.inspect.compare",
    "Export": "holdfast.ops.move.export",
    "Goals": "holdfast.ops.health.advise",
    "Imported": "holdfast.ops.move.importing",
    "Jars": "holdfast.spark.session.fetching",
    "Overview": "holdfast.ops.inspect.overview",
    "Repair": "holdfast.ops.health.repair",
    "Rescaled": "holdfast.ops.move.rescale",
    "Restored": "holdfast.ops.move.restore",
    "ShownCell": "holdfast.ops.inspect.showing",
    "StateView": "holdfast.ops.inspect.showing",
    "StepSummary": "holdfast.ops.inspect.summary",
    "advise": "holdfast.ops.health.advise",
    "checkpoint_repair": "holdfast.ops.health.repair",
    "checkpoint_show": "holdfast.ops.inspect.overview",
    "checkpoint_verify": "holdfast.ops.health.verify",
    "doctor": "holdfast.ops.health.doctor",
    "jars": "holdfast.spark.session.fetching",
    "open_checkpoint": "holdfast.checkpoint.layout",
    "read_state": "holdfast.ops.inspect.state_frame",
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
    "state_show": "holdfast.ops.inspect.showing",
    "stop": "holdfast.ops.move.stopping",
}


def __getattr__(name: str) -> _typing.Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'holdfast.ops' has no attribute {name!r}")
    import importlib

    from holdfast.model.extras import require_spark

    if _HOMES[name] != "holdfast.ops.health.doctor":
        require_spark(f"holdfast.ops.{name}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
