"""Every space by name, and modes of whole fields: an analysis that dies between two nodes changes none of them."""

import numpy as np
import pytest
import streams
import xarray as xr

from bbflow import start_nodes
from bbflow.configuring.config import parse_config
from bbflow.net.contact import read_contact
from bbflow.operators.names.cdo import SPACES
from bbflow.view.consumers import Consumers, consumers_of, owner_of

STEPS, LEVELS, LAT, LON = 14, np.array([1000.0, 850, 500]), np.linspace(-75, 75, 6), np.arange(8) * 45.0
DIMS = ["lev", "lat", "lon"]
TAKES = {"sellevel": ("850",), "intlevel": ("700",), "ml2pl": ("60000",), "ml2plx": ("60000",), "ap2pl": ("60000",),
         "ap2plx": ("60000",), "gridboxmean": ("3", "2")}  # fmt: skip
UNNAMED = {
    "waves": {"wavenumbers": "lon"},
    "cells": {"healpix": {"zoom": 1}},
    "stations": {"points": [[-45, 90], [15, 2]]},
    "north": {"mask": "lat > 0"},
    "ends": {"isel": {"lev": [0, -1]}},
    "one": {"select": {"lev": [850]}},
    "eddies": {"anomaly": ["lon"]},
    "overturning": {"cumsum": "lat"},
    "fluxes": {"covariance": {"with": "pfull", "over": ["lon"]}},
    "alike": {"correlation": {"with": "pfull", "over": ["lat", "lon"]}},
    "column": {"levels": {"make": "mean", "pressure": {"a": "hyai", "b": "hybi", "surface": "ps"}}},
    "slope": {"levels": {"make": "derivative", "pressure": "pfull"}},
}
"""What has no name of CDO's."""
REMAPS = ("remapcon", "remapbil", "remapnn", "remapdis", "remapbic", "remaplaf")


class KilledError(Exception):
    """Stands for a signal."""


def fields():
    random = np.random.default_rng(7)
    ta = random.normal(280, 10, (STEPS, 3, 6, 8))
    ta[random.random(ta.shape) < 0.1] = np.nan
    ps = random.normal(1e5, 500, (STEPS, 6, 8))
    hyam, hybm = np.array([0.0, 5e3, 2e4]), np.array([1.0, 0.7, 0.2])
    pfull = hyam[:, None, None] + hybm[:, None, None] * ps[:, None]
    bounds = np.array([[1e3, 925], [925, 700], [700, 400]])
    steady = {"lev": LEVELS, "lev_bnds": bounds, "lat": LAT, "lon": LON, "hyam": hyam, "hybm": hybm}
    steady |= {"hyai": np.array([0.0, 2e3, 1e4, 3e4]), "hybi": np.array([1.0, 0.9, 0.5, 0.0])}
    return {"ta": ta, "ps": ps, "pfull": pfull, **steady}, tuple(steady)


ATTRIBUTES = {
    "time/units": "days since 2001-01-25", "lat/units": "degrees_north", "lon/units": "degrees_east", "ta/units": "K",
    "lev/units": "hPa", "lev/positive": "down", "lev/bounds": "lev_bnds", "ps/units": "Pa", "pfull/units": "Pa",
    "ta/_ARRAY_DIMENSIONS": DIMS, "ta/_FillValue": -9e33, "pfull/_ARRAY_DIMENSIONS": DIMS,
    "ps/_ARRAY_DIMENSIONS": DIMS[1:],
    "lev_bnds/_ARRAY_DIMENSIONS": ["lev", "bnds"],
    **{f"{name}/_ARRAY_DIMENSIONS": ["lev" if name.startswith("hy") else name]
       for name in ("lev", "lat", "lon", "hyam", "hybm")},
    **{f"{name}/_ARRAY_DIMENSIONS": ["ilev"] for name in ("hyai", "hybi")},
}  # fmt: skip


def diagnostics():
    named = {name: ",".join((name, *TAKES.get(name, takes))) for name, (_, takes, _) in SPACES.items()}
    spaces = {**named, **{name: {name: "r8x4"} for name in REMAPS}, **UNNAMED}
    made = {
        name: {"of": "ta", "space": space, "operators": ["mean", "last"], "windows": ["run"]}
        for name, space in spaces.items()
    }
    return made | {
        "gmean": {"of": "ta", "space": ["fldmean", "vertmax"], "operators": ["mean", "count"]},
        "modes": {"of": "ps", "operators": [{"eof": {"modes": 2, "rank": 3, "bound": True}}]},
        "coarse": {"of": "ta", "space": [{"levels": [850]}, {"coarsen": {"lat": 2, "lon": 2}}],
                   "operators": [{"eof": {"modes": 1}}]},
    }  # fmt: skip


def results(folder, monkeypatch, *, ranks, nodes, kills=()):
    """What a stream's analysis comes to, which dies amid commits: the nodes that come last haven't let go by then.

    `kills` has the commits before, and whether the other nodes have let go.
    """
    made, steady = fields()
    streams.store(folder, made, np.arange(STEPS), ATTRIBUTES, steady=steady, axis=-1)
    workers = {"processes": 0, "threads": 1, "batch_steps": 3}
    config = parse_config(
        {"stream": "fields", "output": str(folder / "out"), "windows": ["month", "run"], "workers": workers,
         "operators": diagnostics(), "raw": "none"}
    )  # fmt: skip
    config.output.mkdir()
    commit = Consumers.commit
    with start_nodes(nodes, "16MiB") as burst_buffer:
        told = read_contact(burst_buffer.contact)
        Consumers(told, "fields", consumers_of(config), owner_of(config.output)).close()  # nodes keep steps for it
        with streams.writing(folder, burst_buffer.contact, ranks):
            for number, others in kills:
                left = iter(range(number))

                def killed(self, consumer, step, nodes, checkpoint, last, first, left=left, others=others):
                    dies = next(left, None) is None
                    told = {node for node in nodes if node not in last and others} if dies else nodes
                    commit(self, consumer, step, told, checkpoint, last, first)
                    if dies:
                        raise KilledError

                with monkeypatch.context() as patch:
                    patch.setattr(Consumers, "commit", killed)
                    with burst_buffer.analyse(config) as analysis, pytest.raises(KilledError):
                        analysis.wait(100)
            with burst_buffer.analyse(config) as analysis:
                outcome = analysis.wait(100)
    assert (outcome.complete, outcome.errors) == (True, ())
    with xr.open_zarr(folder / "out" / "results.zarr", decode_times=False) as found:
        return found.load()


def test_every_space_by_name_and_modes_survive_analyses_that_die_between_two_nodes(tmp_path, monkeypatch):
    whole = results(tmp_path / "whole", monkeypatch, ranks=1, nodes=1)
    found = results(tmp_path / "killed", monkeypatch, ranks=2, nodes=2, kills=[(1, True), (1, False), (0, True)])
    assert {f"{name}_run_mean" for name in (*SPACES, *UNNAMED)} <= set(whole)
    for name, expected in whole.items():
        assert np.isfinite(expected).any(), name
        np.testing.assert_allclose(found[name], expected, rtol=1e-9, atol=1e-7, err_msg=name)
