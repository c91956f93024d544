"""Words for what a manifest records of a step: durations, coders, windows, triggers, limits."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from holdfast.model.state.limits import Limits

__all__ = [
    "coder_words",
    "combiner_words",
    "domain_words",
    "duration_words",
    "limit_words",
    "ttl_words",
    "window_words",
    "without_secrets",
]

_UNITS = (
    ("day", 86_400_000_000),
    ("hour", 3_600_000_000),
    ("minute", 60_000_000),
    ("second", 1_000_000),
    ("millisecond", 1_000),
    ("microsecond", 1),
)
_INNER = ("components", "element", "key", "value", "inner")
"""Where the description of a coder has those of other coders."""
_DOMAINS = {"watermark": "event time", "real_time": "processing time"}
_LOGIN = re.compile(r"//[^/@\s]*:(?!\d+/)[^@\s'\"]*@")
"""A secret may have a slash in it; what follows a port is a path."""
_PARAMETERS = re.compile(r"\?[^/\s'\"]*=[^\s'\"]*")


def duration_words(micros: int) -> str:
    """A duration in the largest unit of which it is a whole number: 90 seconds, 1 hour."""
    unit, size = next((unit, size) for unit, size in _UNITS if micros % size == 0 and (micros or size == 1_000_000))
    count = micros // size
    return f"{count:,} {unit}{'' if count == 1 else 's'}"


def coder_words(description: Mapping[str, Any]) -> str:
    """A coder by its name, with those in it. Nothing else of a user's own coder is shown."""
    name = _last(str(description.get("id", "?")))
    if "class" in description:
        return f"{name} {_last(str(description['class']))}"
    found = [description[place] for place in _INNER if place in description]
    inner = [coder for part in found for coder in (part if isinstance(part, list) else [part])]
    named = [coder_words(coder) for coder in inner if isinstance(coder, Mapping)]
    return f"{name}[{', '.join(named)}]" if named else name


def ttl_words(ttl: Mapping[str, Any]) -> str:
    """How long a cell lives after what prolongs its life."""
    since = "use" if ttl["refresh"] == "read" else "a write"
    clock = " of event time" if ttl["time"] == "event" else ""
    return f"{duration_words(int(ttl['micros']))}{clock} after {since}"


def combiner_words(name: str) -> str:
    """A combiner by its class, or what stands for a plain function."""
    own = _last(name)
    return {"BuiltinSum": "sum", "CallableCombineFn": "a function"}.get(own, own)


def domain_words(domain: str) -> str:
    return _DOMAINS.get(domain, domain)


def window_words(windowing: Mapping[str, Any]) -> str:
    """The windows of a step; nothing for the global one."""
    described = windowing["window_fn"]
    name = _last(str(described["id"]))
    if name == "GlobalWindows":
        return ""
    sizes = {key.removesuffix("_micros"): value for key, value in described.items() if key.endswith("_micros")}
    told = ", ".join(f"{key} {duration_words(value)}" for key, value in sizes.items() if value)
    lateness = int(windowing["allowed_lateness_micros"])
    late = f", late by up to {duration_words(lateness)}" if lateness else ""
    return f"{name}({told}){late}" if told else f"{name}{late}"


def limit_words(limits: Limits | None) -> str:
    """The limits of a step; nothing if it has none."""
    if limits is None:
        return ""
    given = [f"{name} {limit:,}" for name, limit in asdict(limits).items() if isinstance(limit, int)]
    return f"{', '.join(given)}: {limits.policy}"


def without_secrets(place: str) -> str:
    """A path or an address without names, passwords and signatures that some file systems take inside of it."""
    return _PARAMETERS.sub("?…", _LOGIN.sub("//…@", place))


def _last(name: str) -> str:
    """A class by its own name, without those of its module and of what it was defined in."""
    return name.rpartition("<locals>.")[2].rpartition(".")[2]
