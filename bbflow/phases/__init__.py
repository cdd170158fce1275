"""Which application is in an I/O phase of which file system now, and when the next is expected."""

from bbflow.phases.announcing import io_phase
from bbflow.phases.board import Announcement, Board
from bbflow.phases.phase import PFS, Phase, Prediction
from bbflow.phases.sources import BoardSource

__all__ = ["PFS", "Announcement", "Board", "BoardSource", "Phase", "Prediction", "io_phase"]
