"""Secrets: said where they are, and looked up by Kafka's own client when it connects. So they are in no plan of Spark, which
shows all options, and in no text that we make."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from holdfast.errors import InvalidStep

__all__ = ["FromEnv", "FromFile", "provider_options", "references"]

_PROVIDERS = {
    "env": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
    "directory": "org.apache.kafka.common.config.provider.DirectoryConfigProvider",
}
_REFERENCE = re.compile(r"\$\{(env|directory):(?:([^:}]*):)?([^:}]+)\}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class FromEnv:
    """What an environment variable holds, wherever Spark runs: it must be set before Spark starts, on a cluster on all
    machines. As a text it is a reference, which can be a part of an option: `f'… password="{FromEnv("PASSWORD")}";'`."""

    variable: str

    def __post_init__(self) -> None:
        if not isinstance(self.variable, str) or not _VARIABLE.fullmatch(self.variable):
            raise InvalidStep.of("FromEnv", ["Give the name of an environment variable, not what it holds."])

    def __str__(self) -> str:
        return f"${{env:{self.variable}}}"


@dataclass(frozen=True)
class FromFile:
    """What a file holds, to its last byte: there must be no line end. On a cluster it must be on all machines. As a text it
    is a reference, which can be a part of an option."""

    path: str | Path

    def __post_init__(self) -> None:
        if not Path(self.path).is_absolute() or any(sign in str(self.path) for sign in ":}"):
            raise InvalidStep.of("FromFile", ["Give the whole path of a file, in which there is no ':' and no '}'."])

    def __str__(self) -> str:
        return f"${{directory:{Path(self.path).parent}:{Path(self.path).name}}}"


def references(options: Mapping[str, str]) -> Iterator[FromEnv | FromFile]:
    """The secrets that options refer to."""
    for value in options.values():
        for provider, folder, name in _REFERENCE.findall(value):
            yield FromEnv(name) if provider == "env" else FromFile(Path(folder, name))


def provider_options(options: Mapping[str, str]) -> dict[str, str]:
    """The options with which Kafka's client looks up the secrets of others; none if there are no secrets."""
    if not any(True for _ in references(options)):
        return {}
    classes = {f"kafka.config.providers.{name}.class": provider for name, provider in _PROVIDERS.items()}
    return {"kafka.config.providers": ",".join(_PROVIDERS), **classes}
