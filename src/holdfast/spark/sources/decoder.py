"""What reads records in a worker."""

from __future__ import annotations

import abc
from typing import Any

import pyarrow as pa

from holdfast.spark.sources.malformed import Malformed

__all__ = ["Decoder", "Row"]

Row = tuple[Any, ...]
"""A value for each column, as Arrow takes it."""


class Decoder(abc.ABC):
    """Reads records of one format and schema."""

    @abc.abstractmethod
    def rows(self, values: pa.Array) -> list[Row | Malformed]:
        """A row for each value, none of which is null, or why there is none. Raises nothing for any value."""
