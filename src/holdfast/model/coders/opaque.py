"""The coder for what cannot be decoded here: values stay bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.model.coders.base import Coder, Encoded

__all__ = ["OpaqueCoder"]


class OpaqueCoder(Coder[Any]):
    """Stands in for a user's own coder, or one that pickles, where its code is not available or not trusted.

    Such coders store each value as one byte string, so values can be kept, moved and counted without decoding.
    """

    def __init__(self, description: Mapping[str, Any]) -> None:
        self._description = dict(description)

    @property
    def identifier(self) -> str:
        return str(self._description.get("id", "?"))

    def describe(self) -> dict[str, object]:
        return self._description

    def encode(self, value: Any) -> bytes:
        return bytes(value)

    def decode(self, data: bytes) -> bytes:
        return Encoded(data)
