"""Which application is in an I/O phase of which file system now, and when the next is expected."""

from pathlib import Path

from bbflow.phases.announcing import io_phase
from bbflow.phases.board import Announcement, Board
from bbflow.phases.observing import observe
from bbflow.phases.phase import PFS, Phase, Prediction
from bbflow.phases.phase_sources import BoardSource, PhaseSource, SourcesTogether

C_HEADER = Path(__file__).with_name("bbflow_phase.h")
"""Announces phases from C and C++: one file to include."""

__all__ = [
    "C_HEADER",
    "PFS",
    "Announcement",
    "Board",
    "BoardSource",
    "Phase",
    "PhaseSource",
    "Prediction",
    "SourcesTogether",
    "io_phase",
    "observe",
]
