"""Flink's way to set up checkpoints: on an environment. Here what it is told becomes options of a job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.errors import InvalidStep
from holdfast.model.time.timestamps import Duration

__all__ = ["CheckpointConfig", "EmbeddedRocksDBStateBackend", "HashMapStateBackend", "StreamExecutionEnvironment"]


class HashMapStateBackend:
    """Flink's name for the backend `heap`."""

    options: Mapping[str, str] = {"backend": "hashmap"}


class EmbeddedRocksDBStateBackend:
    """Flink's name for the backend `disk`."""

    def __init__(self, enable_incremental_checkpointing: bool | None = None) -> None:
        """Checkpoints are incremental whatever is asked for."""
        self.options = {"backend": "rocksdb"}

    def set_db_storage_path(self, path: str) -> None:
        """Where workers have their copies of the state."""
        self.options["state_dir"] = path


StateBackend = HashMapStateBackend | EmbeddedRocksDBStateBackend


class CheckpointConfig:
    """What is said about checkpoints. Spans are in milliseconds, as in Flink."""

    def __init__(self) -> None:
        self._options: dict[str, Any] = {}
        self._problems: list[str] = []

    def set_checkpoint_interval(self, checkpoint_interval: int) -> CheckpointConfig:
        return self._span("checkpoint_interval", "set_checkpoint_interval", checkpoint_interval)

    def set_min_pause_between_checkpoints(self, min_pause_between_checkpoints: int) -> CheckpointConfig:
        return self._span("min_pause", "set_min_pause_between_checkpoints", min_pause_between_checkpoints)

    def set_tolerable_checkpoint_failure_number(self, tolerable_checkpoint_failure_number: int) -> CheckpointConfig:
        self._options["tolerable_failures"] = tolerable_checkpoint_failure_number
        return self

    def set_checkpoint_storage_dir(self, checkpoint_path: str) -> CheckpointConfig:
        self._options["checkpoint"] = checkpoint_path
        return self

    def set_checkpoint_timeout(self, checkpoint_timeout: int) -> CheckpointConfig:
        self._problems.append(
            "set_checkpoint_timeout cannot be had: a micro-batch that was aborted would only begin again. Health warns of "
            "slow ones while the job runs, by its thresholds for checkpoint_ms."
        )
        return self

    def _span(self, option: str, method: str, millis: object) -> CheckpointConfig:
        if isinstance(millis, (int, float)) and not isinstance(millis, bool):
            self._options[option] = Duration.of_millis(millis)
        else:
            self._problems.append(f"{method} was given {millis!r}; give a number of milliseconds.")
        return self


class StreamExecutionEnvironment:
    """Notes what a job is told in Flink's words: `hf.Job("name", **env.job_options())`.

    There is nothing to execute: a job here is an `hf.Job`, to which sources, steps and sinks belong.
    """

    def __init__(self) -> None:
        self._config = CheckpointConfig()

    @staticmethod
    def get_execution_environment() -> StreamExecutionEnvironment:
        """A new environment, without any settings."""
        return StreamExecutionEnvironment()

    def enable_checkpointing(self, interval: int) -> StreamExecutionEnvironment:
        """Checkpoints every so many milliseconds."""
        self._config._span("checkpoint_interval", "enable_checkpointing", interval)
        return self

    def get_checkpoint_config(self) -> CheckpointConfig:
        return self._config

    def set_state_backend(self, state_backend: StateBackend) -> StreamExecutionEnvironment:
        if isinstance(state_backend, (HashMapStateBackend, EmbeddedRocksDBStateBackend)):
            self._config._options.update(state_backend.options)
        else:
            known = "HashMapStateBackend() or EmbeddedRocksDBStateBackend()"
            self._config._problems.append(f"set_state_backend was given {state_backend!r}; give {known}.")
        return self

    def job_options(self) -> dict[str, Any]:
        """The options of a job that says the same. Raises InvalidStep for all that it cannot be told."""
        if self._config._problems:
            raise InvalidStep.of("StreamExecutionEnvironment", self._config._problems)
        return dict(self._config._options)
