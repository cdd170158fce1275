"""The drain gives way to others, and says when it works itself."""

import threading

import mainjob
import pytest
import xarray as xr

from bbflow.configuring.settings import RawConfig
from bbflow.errors import ConfigError
from bbflow.phases import Board, BoardSource, io_phase
from bbflow.staging import Share, parse_policy
from bbflow.transit.driver.drain_gate import APPLICATION, giving_way
from bbflow.transit.driver.policy import writing
from testsupport.gates import gates_made, is_waiting
from testsupport.waiting import until


def test_the_drain_waits_for_others_and_announces_itself_only_while_it_writes(tmp_path, monkeypatch):
    passed, gates = [], gates_made(monkeypatch)

    def drain():
        with giving_way(parse_policy("full-delay"), tmp_path) as gate:
            for number in range(3):
                with gate(100):
                    passed.append((number, [phase.application for phase in BoardSource(tmp_path).now()]))

    with io_phase("ocean-model", tmp_path):
        draining = threading.Thread(target=drain)
        draining.start()
        until(lambda: is_waiting(gates) or passed)
        assert passed == []
        assert [item.phase.application for item in Board(tmp_path).read()] == ["ocean-model"]
    draining.join(300)
    assert passed == [(number, [APPLICATION]) for number in range(3)]
    assert Board(tmp_path).read() == []


def test_tasks_that_drain_side_by_side_share_what_is_allowed(tmp_path):
    passed = []

    def drain(number):
        share = Share(policy=parse_policy("scale-down:fetchers=1"), number=number, fetchers=2, nodes=1)
        with giving_way(share, tmp_path) as gate, gate(100):
            passed.append(number)

    with io_phase("ocean-model", tmp_path):
        second, first = (threading.Thread(target=drain, args=[number]) for number in (1, 0))
        second.start()
        first.start()
        first.join(300)
        assert passed == [0]
    second.join(300)
    assert passed == [0, 1]


def test_a_policy_needs_a_place_to_see_phases_and_a_name_that_is_known(tmp_path):
    with pytest.raises(ConfigError, match="needs 'phases'"):
        writing(RawConfig(policy="full-delay"))
    with pytest.raises(ConfigError, match="did you mean 'full-delay'"):
        writing(RawConfig(policy="full-dely", phases=tmp_path))


@pytest.mark.slow
def test_raw_steps_of_a_run_wait_for_the_end_of_a_phase_while_folds_go_on(program, tmp_path):
    raw = {"variables": ["tas"], "policy": "full-delay", "phases": str(tmp_path / "phases")}
    nodes, workers = {"capacity": "8MiB"}, {"threads": 1}
    config = mainjob.write_config(tmp_path, raw=raw, nodes=nodes, workers=workers)
    with io_phase("ocean-model", tmp_path / "phases"):
        process = mainjob.start_run(config, mainjob.simulation(program, 1, 130))
        until(lambda: months(tmp_path) == [124])
        drained = list((tmp_path / "out" / "raw.zarr").glob("tas/c*"))
        assert drained == []
    said, _ = process.communicate(timeout=300)
    assert process.returncode == 0, said
    assert xr.open_zarr(tmp_path / "out" / "raw.zarr").sizes["time"] == 130
    assert {phase.application for phase in Board(tmp_path / "phases").past()} == {"ocean-model", APPLICATION}


def months(directory):
    """Return the steps of each month that is published."""
    try:
        return xr.open_zarr(directory / "out" / "results.zarr").steps_month.values.tolist()
    except (FileNotFoundError, AttributeError):
        return []
