"""Operating what runs: looking inside checkpoints, going back in time, savepoints, rescaling, export and import.

Everything here works from the checkpoint directory alone, without the job's code. The command line (`holdfast`) is a thin
layer over these functions.
"""

from holdfast.ops.advise import Advice, Goals, advise
from holdfast.ops.compare import Change, Diff, diff_state, state_history
from holdfast.ops.doctor import examine
from holdfast.ops.export import Export, export_state
from holdfast.ops.importing import Imported, import_state
from holdfast.ops.layout import Checkpoint, open_checkpoint
from holdfast.ops.overview import Overview, overview
from holdfast.ops.repair import Repair, plan_repair, repair_checkpoint
from holdfast.ops.rescale import Rescaled, rescale
from holdfast.ops.restore import Restored, restore_savepoint
from holdfast.ops.savepoint import create_savepoint, list_savepoints, verify_savepoint
from holdfast.ops.showing import ShownCell, StateView, show_state
from holdfast.ops.state_frame import read_state
from holdfast.ops.stopping import stop_job
from holdfast.ops.summary import CellSummary, StepSummary, summarise
from holdfast.ops.verify import verify_checkpoint

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
