"""`holdfast run -s`: a job that begins from a savepoint, or goes on if it has.

The checkpoint of the job must not exist; it is made from the savepoint before the job takes it. Once it is there, the same
command goes on with it: `restored.json` in it says which savepoint it was made from. Any other checkpoint is refused.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from holdfast.checkpoint.files.choice import files_of
from holdfast.checkpoint.layout import Checkpoint
from holdfast.engine.stored.readable import counted
from holdfast.errors import CheckpointError
from holdfast.ops.move.restore import restored_from, savepoint_restore
from holdfast.ops.move.savepoint_file import read_savepoint, savepoint_identity
from holdfast.spark.session.settings import session_lacks, with_settings

__all__ = ["BeginFrom"]


class BeginFrom:
    """Makes the checkpoint of a job from a savepoint, in this many partitions, if it is not there yet."""

    def __init__(self, savepoint: str, partitions: int | None = None) -> None:
        self._savepoint = savepoint.rstrip("/") or savepoint
        self._partitions = partitions
        self.used = False
        """Whether a job has begun from the savepoint."""

    def __call__(self, spark: SparkSession, job: str, checkpoint: str) -> str | None:
        """What was done, in words. Raises CheckpointError if the job must not start."""
        files = files_of(spark, self._savepoint)
        saved = read_savepoint(files, self._savepoint)
        if saved.job not in (None, job):
            if self.used:
                # Another job of the script.
                return None
            raise CheckpointError(
                f"The savepoint {self._savepoint!r} is of the job {saved.job!r}, and the script starts the job {job!r}.",
                todo="give a savepoint of that job; or restore it yourself and run the script without -s: holdfast "
                f"savepoint restore {self._savepoint} {checkpoint}",
            )
        target = files_of(spark, checkpoint)
        if target.info(checkpoint) is None or target.entries(checkpoint) == []:
            return self._restore(spark, checkpoint)
        made_from = restored_from(target, checkpoint)
        if made_from is None or made_from != savepoint_identity(files, self._savepoint):
            raise CheckpointError(
                f"The checkpoint {checkpoint!r} is there already, and was not made from the savepoint {self._savepoint!r}.",
                todo="leave out -s to go on with it; or give the job another checkpoint, to begin from the savepoint",
            )
        self._check_partitions(Checkpoint(target, checkpoint))
        self.used = True
        return None

    def _restore(self, spark: SparkSession, checkpoint: str) -> str:
        with with_settings(spark, session_lacks(spark)):
            made = savepoint_restore(spark, self._savepoint, checkpoint, partitions=self._partitions)
        self.used = True
        spread = "" if made.partitions is None else f" in {counted(made.partitions, 'partition')}"
        return f"made the checkpoint from {self._savepoint}{spread}; it resumes after micro-batch {made.batch}"

    def _check_partitions(self, checkpoint: Checkpoint) -> None:
        committed = checkpoint.committed()
        if self._partitions is None or not committed:
            return
        counts = {len(checkpoint.partitions_at(operator, committed[-1])) for operator in checkpoint.operators()}
        if counts and counts != {self._partitions}:
            raise CheckpointError(
                f"The checkpoint {checkpoint.path!r} has been made from the savepoint already, and has "
                f"{counted(max(counts), 'partition')}, not {self._partitions}.",
                todo=f"leave out -p; or change it first: holdfast rescale {checkpoint.path} --partitions {self._partitions}",
            )
