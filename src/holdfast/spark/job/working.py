"""The directory that a job names for the working files of the disk backend."""

from __future__ import annotations

import uuid

from pyspark.sql import SparkSession

from holdfast.spark.stages.working_folder import remove_run, run_folder, state_dir_property

__all__ = ["WorkingFiles"]


class WorkingFiles:
    """A folder of this job's own in a directory, if one is named. It is removed when the job ends.

    On a cluster the driver sees only its own machine: elsewhere the folder stays until the next job of this user comes.
    """

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._run = uuid.uuid4().hex

    @property
    def told(self) -> str | None:
        """What the tasks of the job are told."""
        return None if self._path is None else state_dir_property(self._path, self._run)

    def check(self, spark: SparkSession) -> None:
        """Raises HoldfastError if the workers are on this machine and cannot use the directory."""
        if self._path is not None and str(spark.sparkContext.master).startswith("local"):
            run_folder(self._path, self._run)

    def remove(self) -> None:
        if self._path is not None:
            remove_run(self._path, self._run)
