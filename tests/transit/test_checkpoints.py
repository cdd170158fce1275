"""What an analysis has written is read by the same version of bbflow; what another one wrote is refused by name."""

import msgspec
import numpy as np
import pytest

from bbflow.configuring.config import parse_config
from bbflow.errors import ConfigError, DamagedError
from bbflow.operators.windows.calendars import Clock
from bbflow.stream.point_maps import PointMap
from bbflow.transit.chain.saved import SavedArray, SavedField, SavedState, StateWriter, read_state
from bbflow.transit.chain.taking_over import carried_on
from bbflow.transit.driver.safe import read_safe_copy
from bbflow.transit.outcome import Outcome
from bbflow.transit.output.fields import ResultField
from bbflow.transit.spans.slots import OUTER, StateSlot
from bbflow.transit.spans.timeline import Passed, Span, Timeline
from bbflow.transit.states.checkpoints import Checkpoint, ended_before, read_checkpoints
from bbflow.transit.states.written import VERSION, pack, unpack


def test_what_another_version_wrote_is_refused_by_its_name(tmp_path):
    config = {"stream": "fields", "output": str(tmp_path), "windows": ["run"], "operators": {"x": ["mean"]}}
    written = pack(Checkpoint(version=VERSION + 1, last_number=7))
    with pytest.raises(
        ConfigError, match=f"the checkpoint on BB node bb0 has version {VERSION + 1}, but this bbflow reads version"
    ):
        carried_on(parse_config(config), {"bb0": (3, written), "bb1": (-1, b"")})
    (tmp_path / ".safe").mkdir()
    (tmp_path / ".safe/latest").write_bytes(written)
    with pytest.raises(ConfigError, match=rf"\.safe/latest has version {VERSION + 1}, but this bbflow reads version"):
        read_safe_copy(tmp_path)


def test_what_is_cut_short_or_something_else_is_said_to_be_damaged():
    packed = pack(Checkpoint(last_number=7))
    for damaged in (packed[:-1], b"\xc1", b"", msgspec.msgpack.encode(["a list"]), msgspec.msgpack.encode({})):
        with pytest.raises(DamagedError, match="the file is damaged: "):
            unpack(damaged, Checkpoint, "the file")
    torn = pack(Checkpoint(last_number=7)).replace(b"\xablast_number\x07", b"\xablast_number\xa0")
    with pytest.raises(DamagedError, match=r"the file is damaged: .*last_number"):
        unpack(torn, Checkpoint, "the file")


def test_numbers_of_numpy_are_written_as_numbers():
    timeline = Timeline(numbers=Passed(np.int64(6), np.float64(12), first=np.float32(0.5)))
    again = unpack(pack(Checkpoint(timeline=timeline)), Checkpoint, "the file")
    assert again.timeline.numbers == Passed(6.0, 12.0, first=0.5)


def test_an_end_that_one_node_was_told_holds_for_all():
    outcome = Outcome(complete=False, steps=4, discarded=1, errors=("mean of x failed",))
    cursors = {
        "bb0": (3, pack(Checkpoint(last_number=3))),
        "bb1": (3, pack(Checkpoint(outcome=outcome))),
        "bb2": (-1, b""),
    }
    assert ended_before(read_checkpoints(cursors)) == outcome
    assert ended_before(read_checkpoints({"bb0": cursors["bb0"]})) is None


SLOT = StateSlot(OUTER, "month", (2001, 1))
SAVED = SavedState(
    "fields",
    Clock("days since 2000-1-1", "noleap"),
    1,
    41,
    Timeline(
        {"month": (Span((2001, 1), 366.0, 370.0, 5, 1),)},
        {"month": (2001, 1), "clim": None},
        Passed(1.0, 370.0, 2, 1, 0.0),
    ),
    {"own": "failed"},
    {"time/units": "days since 2000-1-1", "levels": [1, 2]},
    {"operators": {"tas": ["mean"]}, "windows": ["month"]},
    {
        "tas": SavedField(
            {"of": "tas"}, ResultField("tas", "<f4", (2, 3), ("lat", "lon"), {"units": "K"}, {}), "<f4", {SLOT: 64}
        ),
        "qc": SavedField(
            {"of": "qc"},
            ResultField("qc", "<f4", (6,), ("lev", "ncol"), {}, {}, PointMap("512", (2, 5), 6, "ab", "")),
            "<f4",
            {SLOT: 128},
        ),
    },
    (SavedArray("lat", "<f8", ("lat",), (2,), {"units": "degrees_north"}, 0),),
    192,
    ("tas",),
)


def test_a_state_file_comes_back_as_it_was_written(tmp_path):
    writer = StateWriter(tmp_path / "state.bbflow", SAVED)
    writer.put(0, np.arange(24.0))
    assert writer.finish() == read_state(tmp_path)


def test_a_state_that_can_not_be_read_now_is_no_wrong_path(tmp_path):
    (tmp_path / "state.bbflow").symlink_to("/proc/self/mem")
    with pytest.raises(OSError, match="Input/output error"):
        read_state(tmp_path)
    with pytest.raises(ConfigError, match="the first run of a chain has none"):
        read_state(tmp_path / "none")
