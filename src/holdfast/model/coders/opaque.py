"""The coder of what cannot be decoded here: values stay the bytes that they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.model.coders.base import Coder, Encoded

__all__ = ["OpaqueCoder"]


class OpaqueCoder(Coder[Any]):
    """Stands for a coder of a user's own, or one that pickles, where its code is not at hand or not trusted.

    Such coders store each value as one piece of bytes, so that values can be kept, moved and counted without decoding.
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
