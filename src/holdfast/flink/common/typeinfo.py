"""Flink's inner door to types."""

from holdfast.model.flink.type_infos import Types

__all__ = ["Types"]
