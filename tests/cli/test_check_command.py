"""What `bbflow check` finds, and the first lines of `bbflow run`."""

import os
import re
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path

import bbflow_adios2
import numpy as np
import pytest
import xarray as xr
import yaml

from bbflow import start_nodes
from bbflow.cli import main
from bbflow.configuring.config import load_config, parse_config
from bbflow.errors import CapacityError, ConfigError
from bbflow.landing.embedded import EmbeddedNodes
from bbflow.net.contact import read_contact
from bbflow.run.checks.before import tell_before
from bbflow.run.checks.transport import check_transport
from bbflow.run.checks.window_ends import check_ends
from bbflow.transit.clusters import dask_cluster

BP5 = {"AsyncWrite": "true", "NumAggregators": "2"}


@pytest.fixture
def bbflow(capsys):
    """Run a command in this process; gives what it said."""

    def run(*words, code=0):
        ended = main([str(word) for word in words])
        said = "".join(capsys.readouterr())
        assert ended == code, said
        return said

    return run


@pytest.fixture
def written(tmp_path):
    """Write a configuration and an XML, with changes; gives their paths."""

    def write(xml=None, **changes):
        small = {"nodes": {"capacity": "1MiB", "state_capacity": "1MiB"}}
        content = {"stream": "weather", "output": str(tmp_path / "out"), "operators": {"tas": ["mean"]}, **small}
        (tmp_path / "analysis.yml").write_text(yaml.safe_dump(content | changes))
        (tmp_path / "model.xml").write_text(xml or bbflow_adios2.engine_xml("weather"))
        return tmp_path / "analysis.yml", "--xml", tmp_path / "model.xml"

    return write


def test_a_run_that_can_go_well_has_nothing_wrong(bbflow, written):
    said = bbflow("check", *written())
    assert "wrong" not in said
    assert "selects bbflow for stream 'weather'" in said
    assert "pools 1 MiB, states up to 1 MiB, processes up to 1.25 GiB; /dev/shm has " in said
    assert "for each point (of float32): tas " in said
    assert "must tell a date: the variable or attribute time, a text or a number with time/units" in said


def test_a_run_does_not_begin_with_what_its_stream_has_yet_to_tell(written, capsys):
    config, *_ = written()
    tell_before(load_config(config), ["true"], None, None)
    said = capsys.readouterr().err
    assert "memory:" in said
    assert "time:" not in said


def test_pools_that_are_there_already_need_no_room_once_more(written):
    place = Path(tempfile.mkdtemp())  # short, as a socket's path must be
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=10m", "none", place], check=False).returncode:
        pytest.skip("a file system of its own needs root")
    try:
        config, *_ = written(nodes={"capacity": "6MiB", "directory": str(place)})
        with EmbeddedNodes(capacity=6 << 20, directory=place) as nodes:
            tell_before(load_config(config), ["true"], None, None, nodes.free_bytes)
            with pytest.raises(CapacityError, match="pools and states need 6 MiB"):
                tell_before(load_config(config), ["true"], None, None)
    finally:
        subprocess.run(["umount", place], check=True)
        place.rmdir()


def test_what_weights_take_is_told(bbflow, written, tmp_path):
    matrix = (("num_links", "num_wgts"), np.ones((1000, 1)))
    xr.Dataset({"remap_matrix": matrix}).to_netcdf(tmp_path / "weights.nc")
    operators = {"tas": {"space": {"remap": str(tmp_path / "weights.nc")}, "operators": ["mean"]}}
    said = bbflow("check", *written(operators=operators))
    assert f"{tmp_path / 'weights.nc'}: 11.7 KiB in the analysis, 17.6 KiB at most in the workers" in said
    operators["tas"]["space"]["remap"] = str(tmp_path / "none.nc")
    config, *xml = written(operators=operators)
    assert "can't read the weights" in bbflow("check", config, *xml, code=os.EX_USAGE)
    begun = tmp_path / "begun"
    assert "can't read the weights" in bbflow("run", config, "--", "touch", begun, code=os.EX_USAGE)
    assert not begun.exists()


@pytest.mark.parametrize(
    ("xml", "says"),
    [
        (bbflow_adios2.engine_xml("weather", Writer="2"), "unknown parameter Writer: did you mean Writers?"),
        (bbflow_adios2.engine_xml("wether"), "its streams are wether, but the configuration's is 'weather'"),
        (bbflow_adios2.engine_xml("a", stream="weather-{open}"), "its streams are weather-{open}"),
        (bbflow_adios2.engine_xml("weather").replace('"bbflow"', '"bbflov"'), "PluginName is 'bbflov'"),
        (bbflow_adios2.engine_xml("weather").replace('Plugin"', 'BP5"'), "type is 'BP5', but must be 'Plugin'"),
        ('<adios-config><io name="weather"><engine type="BP5"/></io></adios-config>', "for no IO (weather has BP5)"),
        ("<adios-config><io></adios-config>", "is not valid XML"),
        (bbflow_adios2.engine_xml("weather", QueueFullPolicy="Spill"), "Spill needs a SpillDirectory"),
    ],
)
def test_what_is_wrong_with_an_xml_is_named(bbflow, written, xml, says):
    assert says in bbflow("check", *written(xml), code=os.EX_USAGE)


def test_parameters_of_other_engines_are_none_of_our_business(bbflow, written):
    assert "wrong" not in bbflow("check", *written(bbflow_adios2.engine_xml("weather", **BP5, DataTransport="WAN")))


def test_an_xml_with_a_stream_for_each_open_fits_one_of_them(bbflow, written):
    xml = bbflow_adios2.engine_xml("a", stream="weather-{open}")
    assert "wrong" not in bbflow("check", *written(xml, stream="weather-2"))


def test_pools_that_the_host_has_no_room_for_are_refused_before_anything_starts(bbflow, written, tmp_path):
    config, *_ = written(nodes={"capacity": "900GiB"})
    assert "pools and states need 900 GiB" in bbflow("check", config, code=os.EX_USAGE)
    said = bbflow("run", config, "--", "touch", tmp_path / "started", code=os.EX_TEMPFAIL)
    assert "pools and states need 900 GiB" in said
    assert not (tmp_path / "started").exists()


def test_windows_that_need_dates_are_refused_where_steps_are_counted(bbflow, written):
    config, *_ = written(time="steps", windows=["month"])
    assert "the window month needs dates" in bbflow("check", config, code=os.EX_USAGE)


def test_a_policy_or_a_state_that_a_run_would_refuse_is_named(bbflow, written, tmp_path):
    config, *_ = written(raw={"policy": "full-dely"})
    assert "did you mean 'full-delay'?" in bbflow("check", config, code=os.EX_USAGE)
    config, *_ = written(**{"continue": str(tmp_path / "none")})
    assert f"can't read the state {tmp_path / 'none'}" in bbflow("check", config, code=os.EX_USAGE)
    config, *_ = written()
    assert "can't read the state" in bbflow("check", config, "--continue", tmp_path, code=os.EX_USAGE)


def test_nodes_and_dask_that_are_there_are_asked(bbflow, written, tmp_path, monkeypatch):
    config, *_ = written()
    monkeypatch.setattr(dask_cluster, "CONNECT_TIMEOUT_S", 0.1)
    with start_nodes(1, "1MiB") as buffer:
        said = bbflow(
            "check", config, "--contact", buffer.contact, "--scheduler", "tcp://127.0.0.1:1", code=os.EX_USAGE
        )
    assert "bb0 1 MiB of 1 MiB free" in said
    assert "no Dask scheduler answers at tcp://127.0.0.1:1" in said
    gone = bbflow("check", config, "--contact", tmp_path / "contact.json", code=os.EX_USAGE)
    assert "there is no contact file" in gone


def test_the_parameters_that_a_check_knows_are_the_engines_own():
    source = (bbflow_adios2.library_path().parents[1] / "src" / "Parameters.cpp").read_text()
    from bbflow_adios2.selection import PARAMETERS

    assert all(f'"{name}"' in source for name in PARAMETERS)
    assert source.count("    set(") + 3 == len(PARAMETERS)


def test_what_states_and_results_will_cost_is_foretold(bbflow, written):
    config, *_ = written()
    told = r"a page takes (.*) us to be there.*states take (.*) s once, and the .* MiB of each window's end"
    found = re.search(told, bbflow("check", config))
    assert found
    assert 0 < float(found[1]) < 1e4
    assert float(found[2]) > 0


@pytest.mark.parametrize(
    ("windows", "said"),
    [
        (
            ["day", {"running": {"days": 5}}, "month"],
            r"each end of day and running5day takes 3\.1 ms .* 4 results, .* 0\.8",
        ),
        (["month", "run"], r"each end of month takes 2\.9 ms .* to publish 2 results"),
        (["run", "clim_month"], None),
    ],
)
def test_what_ends_of_windows_cost_is_foretold(said, windows):
    config = parse_config({"stream": "s", "windows": windows, "operators": {"tas": ["mean", "max"]}})
    found = check_ends(config)
    assert len(found) == (said is not None)
    assert all(re.search(said, finding.text) for finding in found)


def test_an_ensemble_is_told_what_members_times_times_come_to_and_what_makes_less(bbflow, written, tmp_path):
    scored = {"operators": ["mean"], "scores": {"reference": str(tmp_path / "era5.nc"), "variable": "t2m"}}
    config, *_ = written(ensemble={"members": 50}, operators={"tas": scored})
    with pytest.raises(ConfigError):
        load_config(config)
    missing = bbflow("check", config, code=os.EX_USAGE)
    assert f"wrong scores: scores: there is no {tmp_path / 'era5.nc'}" in missing
    grid = {"lat": np.linspace(-75, 75, 6), "lon": np.arange(0, 360, 30.0)}
    values = np.zeros((1, 6, 12), "f4")
    xr.Dataset({"t2m": (("time", "lat", "lon"), values)}, grid).to_netcdf(tmp_path / "era5.nc")
    said = bbflow("check", config)
    assert "ok    ensemble: for each million points (of float32) the states across 50 members take" in said
    assert "open times fit into states: capacity (1 GiB), more go to disk" in said
    assert "scores with quantiles: 100" in said
    xr.Dataset({"tas": (("time", "lat", "lon"), values)}, grid).to_netcdf(tmp_path / "like.nc")
    said = bbflow("check", config, "--like", tmp_path / "like.nc", "--times", "1000000")
    planned = bbflow("ensemble", "plan", config, "--points", "72", "--times", "1000000")
    assert "for 1000000 times that are open at once" in planned
    for line in planned.splitlines():
        assert f"ok    ensemble: {line}" in said
    said = bbflow("check", *written()[:1], "--times", "3", code=os.EX_USAGE)
    assert "--times is for an ensemble" in said


def test_it_says_by_which_way_blocks_would_go(bbflow, written, tmp_path):
    assert "transport: shared memory" in bbflow("check", *written())
    with start_nodes(capacity="1MiB") as buffer:
        text = buffer.contact.read_text()
        here = f'"host": "{os.uname().nodename}"'
        assert "transport: bb0: shared memory" in bbflow("check", *written(), "--contact", buffer.contact)
        contact = tmp_path / "elsewhere.json"
        contact.write_text(text.replace(here, '"host": "n017"'))
        (node,) = read_contact(contact)
        assert "bb0: TCP; this host has no faster network" in str(*check_transport([node], list))
        assert "bb0: not from this host" in str(*check_transport([replace(node, tcp="")]))
        both = [node, replace(node, name="bb1", tls="authority.pem")]
        fast, encrypted = check_transport(both, lambda: ["cxi"], gpu_devices=())[::-1]
        assert "bb0: libfabric (cxi) if they have it too, else TCP; each extent of a pool is registered" in str(fast)
        assert str(encrypted).endswith("bb1: TCP with TLS")
        assert "of a GPU" not in str(fast)
        with_gpu = str(*check_transport([node], lambda: ["cxi"], gpu_devices=[os.devnull]))
        assert "blocks of a GPU go through the host's memory: FabricGpu=yes" in with_gpu
