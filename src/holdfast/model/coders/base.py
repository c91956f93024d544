"""Coder: how values of one kind become bytes and come back."""

from __future__ import annotations

import json
import reprlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Generic, TypeVar

from holdfast.errors import CoderError
from holdfast.model.coders import blocks

__all__ = ["BuiltinCoder", "Coder", "Encoded", "shortened"]

T = TypeVar("T")

_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 120


class Encoded(bytes):
    """The encoded form of one value, as the engine keeps it in memory.

    It has its own type so that it is never mistaken for a value of type bytes. It never leaves the engine.
    """

    __slots__ = ()


class Coder(ABC, Generic[T]):
    """How values of one kind become bytes and come back.

    A coder of your own defines `encode` and `decode`, and may say more about its values:

        class CelsiusCoder(Coder[Celsius]):
            def encode(self, value): return struct.pack(">d", value.degrees)
            def decode(self, data): return Celsius(*struct.unpack(">d", data))
            def is_deterministic(self): return True   # same value, same bytes: usable for keys
            def is_immutable(self): return True       # the engine may keep values instead of bytes

    Contract:

    - `decode(encode(value))` equals `value`. Both may raise anything: the engine raises a CoderError with
      that exception as its cause.
    - Change `version` when older bytes can no longer be read. `identifier` and `version` are stored.
    - A coder with parameters adds them to `describe()`: coders with equal descriptions are equal.
    - Coders are sent to other processes: they must be picklable.

    In memory the engine keeps *stored* values: an immutable value itself, any other as an `Encoded`. `freeze`
    and `thaw` convert to and from them. Changing a value after `freeze`, or one that came from `thaw`, never
    changes what is stored. `encode_block` and `decode_block` take many stored values at once; a value that
    goes into a block as itself may come back as an Encoded, and vice versa.
    """

    version: int = 1
    direct_types: frozenset[type] = frozenset()
    """Exact types whose values are stored as they are, unchecked."""

    @abstractmethod
    def encode(self, value: T) -> bytes: ...

    @abstractmethod
    def decode(self, data: bytes) -> T: ...

    def is_deterministic(self) -> bool:
        """Does the same value always have the same bytes?

        Equal but distinguishable values may differ: 1 and 1.0, 0.0 and -0.0, Decimal("1") and Decimal("1.0").
        """
        return False

    def is_immutable(self) -> bool:
        """Are all its values immutable, so that the engine may keep them decoded?"""
        return False

    @property
    def identifier(self) -> str:
        """The stable name by which stored data refers to this coder."""
        return f"{type(self).__module__}.{type(self).__qualname__}"

    def describe(self) -> dict[str, object]:
        """What a manifest records about this coder: JSON values only."""
        return {"id": self.identifier, "version": self.version}

    def freeze(self, value: T) -> object:
        """The stored form of a value. Raises a CoderError when the value does not fit."""
        data = self.encode_checked(value)
        return value if self.is_immutable() else Encoded(data)

    def thaw(self, stored: object) -> T:
        """The value of a stored form; if it is mutable, a new one each time."""
        return self.decode_checked(stored) if type(stored) is Encoded else stored  # type: ignore[return-value]

    def encode_block(self, stored: Sequence[object]) -> bytes:
        """One block of bytes for many stored values. `blocks` describes the layouts."""
        try:
            return self._write_block(stored if type(stored) is list else list(stored))
        except CoderError:
            raise
        except Exception as error:
            raise CoderError(
                f"The coder {self.identifier!r} cannot encode a block of {len(stored)} values.",
                detail=f"{type(error).__name__}: {error}",
                todo="Give it only what freeze() or decode_block() of this coder returned.",
            ) from error

    def decode_block(self, block: bytes) -> list[object]:
        """The stored values of a block. Raises a CoderError, and nothing else, on a damaged one."""
        try:
            if not block:
                raise blocks.Damaged("it is empty")
            return self._read_block(bytes(block))
        except CoderError:
            raise
        except Exception as error:
            raise CoderError(
                f"The coder {self.identifier!r} cannot read a block of {len(block)} bytes.",
                detail=f"{type(error).__name__}: {error}",
                todo="The bytes are damaged, or another coder wrote them.",
            ) from error

    def _write_block(self, stored: list[Any]) -> bytes:
        parts = [item if type(item) is Encoded else self.encode_checked(item) for item in stored]
        return blocks.write_slices(parts)

    def _read_block(self, block: bytes) -> list[Any]:
        if block[0] != blocks.SLICES:
            raise blocks.Damaged(f"unknown layout {block[0]:#04x}")
        return blocks.read_slices(block, Encoded)

    def encode_checked(self, value: T) -> bytes:
        """encode(), with every failure turned into a CoderError that names coder and value."""
        try:
            data = self.encode(value)
        except CoderError:
            raise
        except Exception as error:
            raise self.misfit(value, f"{type(error).__name__}: {error}") from error
        if not isinstance(data, bytes | bytearray | memoryview):
            raise self.misfit(value, f"encode() returned {shortened(data)} instead of bytes")
        return bytes(data)

    def decode_checked(self, data: bytes) -> T:
        """decode() of plain bytes, with every failure turned into a CoderError that names coder and bytes."""
        try:
            return self.decode(bytes(data))
        except CoderError:
            raise
        except Exception as error:
            raise self.damaged(data, error) from error

    def misfit(self, value: object, why: str, todo: str = "") -> CoderError:
        """The error for a value that this coder does not take."""
        kind = type(value).__qualname__
        what = f"The coder {self.identifier!r} cannot encode {shortened(value)} of type {kind}."
        return CoderError(what, detail=why, todo=todo)

    def damaged(self, data: bytes, error: Exception) -> CoderError:
        """The error for bytes that this coder cannot read."""
        return CoderError(
            f"The coder {self.identifier!r} cannot decode {len(data)} bytes: {shortened(bytes(data[:64]))}.",
            detail=f"{type(error).__name__}: {error}",
            todo="The bytes are damaged, or another coder or version wrote them.",
        )

    def _arguments(self) -> tuple[Any, ...]:
        return ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self._arguments()))})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Coder) and self.describe() == other.describe()

    def __hash__(self) -> int:
        return hash(json.dumps(self.describe(), sort_keys=True, default=str))


class BuiltinCoder(Coder[T]):
    """A coder of this package: it has a short name and its own block layouts.

    Closed to subclasses elsewhere: blocks do not go through encode() and decode(), so a subclass that
    overrides these (say, to encrypt) would be silently bypassed.
    """

    short_name: ClassVar[str]

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        if not cls.__module__.startswith(__name__.rpartition(".")[0] + "."):
            raise TypeError(
                f"{cls.__qualname__} cannot be a subclass of {cls.__mro__[1].__qualname__}: "
                "derive it from Coder, and wrap the other coder in it."
            )

    @property
    def identifier(self) -> str:
        return self.short_name


def shortened(value: object) -> str:
    """A repr of bounded length that never fails."""
    try:
        text = _SHORT.repr(value)
    except Exception:
        return f"<{type(value).__qualname__}>"
    return text if len(text) <= 200 else text[:197] + "..."
