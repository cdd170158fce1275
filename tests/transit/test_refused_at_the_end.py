"""What a program is refused when its stream has ended, but isn't forgotten yet, is heard."""

import numpy as np
import streams
import xarray as xr

from bbflow import start_nodes
from bbflow.landing.client import tell_node
from bbflow.landing.requests import RefuseRequest
from bbflow.net.contact import read_contact
from bbflow.transit import pipeline
from bbflow.transit.driver.finishing import write_others


def test_what_is_refused_while_results_are_finished_makes_them_incomplete(tmp_path, monkeypatch):
    """A program that opens its file again after it has closed it: the analysis has taken its last look by then.

    Copies and files of the results are made already, and say so too.
    """
    streams.store(tmp_path, {"v": np.arange(4.0).reshape(2, 2)}, [0.0, 1.0], {})

    def refuse_first(path, config):
        monkeypatch.undo()
        for node in read_contact(nodes.contact):
            tell_node(node, RefuseRequest(stream="fields", rank=0, why="stream 'fields' was closed"))
        write_others(path, config)

    monkeypatch.setattr(pipeline, "write_others", refuse_first)
    config = {"stream": "fields", "output": str(tmp_path / "out"), "operators": {"v": ["mean"]}, "windows": ["run"]}
    config |= {"copy_to": f"file://{tmp_path}/copy", "netcdf": True}
    with (
        start_nodes(1, "1MiB") as nodes,
        nodes.analyse(config) as analysis,
        streams.writing(tmp_path, nodes.contact, 1),
    ):
        outcome = analysis.wait(100)
    said = "the program was refused a part of it (stream 'fields' was closed)"
    assert (outcome.complete, outcome.errors) == (False, (said,))
    for store in ("out/results.zarr", "copy/results.zarr", "out/results_run.nc"):
        with xr.open_dataset(tmp_path / store) as told:
            assert (told.bbflow_status, told.bbflow_failure) == ("incomplete", said)
    with xr.open_zarr(tmp_path / "out/results.zarr") as results:
        np.testing.assert_allclose(results.v_run_mean, [[1.0, 2.0]])
