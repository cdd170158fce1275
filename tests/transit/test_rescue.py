"""A rescue that is killed goes on where it was, whatever the nodes have let go of; each stream has its own store."""

from contextlib import contextmanager

import numpy as np
import pytest
import streams
import xarray as xr

from bbflow import start_nodes
from bbflow.drain import rescuing
from bbflow.drain.rescuing import Rescue
from bbflow.drain.stores import rescued_stores
from bbflow.landing.contact import read_contact
from bbflow.view.consumers import RESCUE, Consumers

STEPS, LATS, LONS = 6, 4, 3
TIMES = 6.0 * np.arange(STEPS)
ATTRIBUTES = {"time/units": "hours since 2001-01-01", "tas/_ARRAY_DIMENSIONS": ["lat", "lon"]}


class KilledError(Exception):
    """Stands for a signal."""


@pytest.fixture
def tas():
    return np.random.default_rng(3).random((STEPS, LATS, LONS), "f4")


@pytest.fixture
def contact(tas, tmp_path):
    """Two nodes that hold all steps of a stream, which has ended."""
    streams.store(tmp_path, {"tas": tas}, TIMES, ATTRIBUTES)
    with start_nodes(2, "4MiB") as nodes, held(tmp_path, nodes.contact):
        yield nodes.contact


@contextmanager
def held(folder, contact):
    Consumers(read_contact(contact), "fields", [RESCUE]).close()  # else nobody is to come, and they let go
    with streams.writing(folder, contact, ranks=2):
        yield


def rescue(contact, folder):
    return Rescue(contact, "fields", folder, "time").run()


@pytest.mark.parametrize("told", ["bb0", "bb1"])
def test_it_is_killed_when_one_node_has_let_go_of_steps_and_another_has_not(contact, tas, tmp_path, monkeypatch, told):
    commit = Consumers.commit

    def killed(self, consumer, through, nodes, checkpoint):
        commit(self, consumer, through, [told], checkpoint)
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(rescuing, "BATCH_STEPS", 2)
        patch.setattr(Consumers, "commit", killed)
        with pytest.raises(KilledError):
            rescue(contact, tmp_path)
    rescued = rescue(contact, tmp_path)
    assert (rescued.steps, rescued.complete) == (STEPS, True)
    assert_is_there(rescued.store, tas)


def test_another_stream_of_the_same_name_gets_a_store_of_its_own(contact, tas, tmp_path, monkeypatch):
    first = rescue(contact, tmp_path / "out")
    streams.store(tmp_path / "next", {"tas": tas + 1}, TIMES, ATTRIBUTES)
    with held(tmp_path / "next", contact):
        with monkeypatch.context() as patch:
            patch.setattr(rescuing, "BATCH_STEPS", 2)
            patch.setattr(Consumers, "drop", interrupted)
            with pytest.raises(KilledError):
                rescue(contact, tmp_path / "out")
        second = rescue(contact, tmp_path / "out")
    assert (first.steps, second.steps) == (STEPS, STEPS)
    assert [first.store, second.store] == [tmp_path / "out" / name for name in ("raw.zarr", "raw_2.zarr")]
    assert rescued_stores(tmp_path / "out") == [first.store, second.store]
    assert_is_there(first.store, tas)
    assert_is_there(second.store, tas + 1)


def interrupted(*_):
    raise KilledError


def assert_is_there(store, tas):
    with xr.open_zarr(store, decode_times=False) as raw:
        assert raw.tas.dims == ("time", "lat", "lon")
        np.testing.assert_array_equal(raw.tas, tas)
        np.testing.assert_array_equal(raw.time, TIMES)
        np.testing.assert_array_equal(raw.bbflow_step, range(STEPS))
