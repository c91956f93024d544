"""Operating what runs: looking inside checkpoints, going back in time, savepoints, rescaling, export and import.

Everything here works from the checkpoint directory alone, without the job's code. The command line (`holdfast`) is a thin
layer over these functions.
"""

from holdfast.checkpoint.layout import Checkpoint, open_checkpoint
from holdfast.ops.health.advise import Advice, Goals, advise
from holdfast.ops.health.doctor import examine
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
