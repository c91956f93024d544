"""Operating what runs: looking inside checkpoints, going back in time, savepoints, rescaling, export and import.

Everything here works from the checkpoint directory alone, without the job's code. The command line (`holdfast`) is a thin
layer over these functions. They are looked up when they are first used, so that whatever needs no Spark can do without.
"""

import typing as _typing

if _typing.TYPE_CHECKING:
    from holdfast.checkpoint.layout import Checkpoint, open_checkpoint
    from holdfast.ops.health.advise import Advice, Goals, advise
    from holdfast.ops.health.doctor import Check, examine
    from holdfast.ops.health.repair import Repair, plan_repair, repair_checkpoint
    from holdfast.ops.health.verify import verify_checkpoint
    from holdfast.ops.inspect.compare import Change, Diff, diff_state, state_history
    from holdfast.ops.inspect.overview import Overview, overview
    from holdfast.ops.inspect.showing import ShownCell, StateView, show_state
    from holdfast.ops.inspect.state_frame import read_state
    from holdfast.ops.inspect.summary import CellSummary, StepSummary, summarise
    from holdfast.ops.move.export import Export, export_state
    from holdfast.ops.move.importing import Imported, import_state
    from holdfast.ops.move.rescale import Rescaled, rescale
    from holdfast.ops.move.restore import Restored, restore_savepoint
    from holdfast.ops.move.savepoint import create_savepoint, list_savepoints, verify_savepoint
    from holdfast.ops.move.stopping import stop_job

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
    "Overview",
    "Repair",
    "Rescaled",
    "Restored",
    "ShownCell",
    "StateView",
    "StepSummary",
    "advise",
    "create_savepoint",
    "diff_state",
    "examine",
    "export_state",
    "import_state",
    "list_savepoints",
    "open_checkpoint",
    "overview",
    "plan_repair",
    "read_state",
    "repair_checkpoint",
    "rescale",
    "restore_savepoint",
    "show_state",
    "state_history",
    "stop_job",
    "summarise",
    "verify_checkpoint",
    "verify_savepoint",
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
    "Overview": "holdfast.ops.inspect.overview",
    "Repair": "holdfast.ops.health.repair",
    "Rescaled": "holdfast.ops.move.rescale",
    "Restored": "holdfast.ops.move.restore",
    "ShownCell": "holdfast.ops.inspect.showing",
    "StateView": "holdfast.ops.inspect.showing",
    "StepSummary": "holdfast.ops.inspect.summary",
    "advise": "holdfast.ops.health.advise",
    "create_savepoint": "holdfast.ops.move.savepoint",
    "diff_state": "holdfast.ops.inspect.compare",
    "examine": "holdfast.ops.health.doctor",
    "export_state": "holdfast.ops.move.export",
    "import_state": "holdfast.ops.move.importing",
    "list_savepoints": "holdfast.ops.move.savepoint",
    "open_checkpoint": "holdfast.checkpoint.layout",
    "overview": "holdfast.ops.inspect.overview",
    "plan_repair": "holdfast.ops.health.repair",
    "read_state": "holdfast.ops.inspect.state_frame",
    "repair_checkpoint": "holdfast.ops.health.repair",
    "rescale": "holdfast.ops.move.rescale",
    "restore_savepoint": "holdfast.ops.move.restore",
    "show_state": "holdfast.ops.inspect.showing",
    "state_history": "holdfast.ops.inspect.compare",
    "stop_job": "holdfast.ops.move.stopping",
    "summarise": "holdfast.ops.inspect.summary",
    "verify_checkpoint": "holdfast.ops.health.verify",
    "verify_savepoint": "holdfast.ops.move.savepoint",
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
