"""The formats by name."""

from __future__ import annotations

from typing import Literal, get_args

from holdfast.errors import InputError
from holdfast.ops.move.formats.avro_rows import AvroFormat
from holdfast.ops.move.formats.base import ExportFormat
from holdfast.ops.move.formats.json_rows import JsonFormat
from holdfast.ops.move.formats.parquet_rows import ParquetFormat

__all__ = ["FormatName", "format_of"]

FormatName = Literal["parquet", "avro", "json"]

_FORMATS: dict[str, type[ExportFormat]] = {form.name: form for form in (ParquetFormat, AvroFormat, JsonFormat)}


def format_of(name: str) -> ExportFormat:
    """The format of this name. Raises InputError if there is none, and MissingExtra if what it needs is not installed."""
    if name not in _FORMATS:
        raise InputError(f"{name!r} is not a format of an export.", todo=f"use one of: {', '.join(get_args(FormatName))}")
    form = _FORMATS[name]()
    form.check()
    return form
