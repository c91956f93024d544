"""Beam's door to windowed values and panes."""

from holdfast.model.windows.values import PANE_INFO_UNKNOWN, PaneInfo, PaneInfoTiming, WindowedValue

__all__ = ["PANE_INFO_UNKNOWN", "PaneInfo", "PaneInfoTiming", "WindowedValue"]
