"""Windows: over which spans of time the statistics run, in every calendar."""

from bbflow.operators.windows.parse_windows import parse_window, parse_windows
from bbflow.operators.windows.window import Window

__all__ = ["Window", "parse_window", "parse_windows"]
