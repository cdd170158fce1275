"""Files for archives: names and attributes from a table, over a real stream."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import streams
import xarray as xr

from bbflow.configuring.config import parse_config
from bbflow.configuring.publication import time_format
from bbflow.errors import ConfigError

STEPS, LATS, LONS = 130, 6, 10
ATTRIBUTES = {
    "time/units": "hours since 2001-01-01",
    "time/calendar": "noleap",
    "tas/units": "K",
    "tas/standard_name": "air_temperature",
    "tas/long_name": "near-surface air temperature",
    "lat/units": "degrees_north",
    "lon/units": "degrees_east",
    **{f"{name}/_ARRAY_DIMENSIONS": [name] for name in ("lat", "lon")},
    "tas/_ARRAY_DIMENSIONS": ["lat", "lon"],
}
GLOBAL = {
    "mip_era": "CMIP6",
    "institution": "an institute",
    "institution_id": "INST",
    "source_id": "MODEL-1-0",
    "experiment_id": "historical",
    "variant_label": "r1i1p1f1",
    "grid_label": "gn",
    "tracking_prefix": "hdl:21.14100/",
    "references": "none",
}
VARIABLES = {
    "tas_month_mean": {
        "variable_id": "tas",
        "table_id": "Amon",
        "frequency": "mon",
        "realm": "atmos",
        "comment": "2 m",
    },
    "tas_day_max": {"variable_id": "tasmax", "table_id": "day", "frequency": "day", "units": "K"},
    "mean_year_mean": {"variable_id": "tasg", "table_id": "Ayr", "frequency": "yr"},
    "coarse_month_mean": {"variable_id": "tas", "table_id": "Amon", "frequency": "mon", "grid_label": "gr"},
    "hp_month_mean": {"variable_id": "tas", "table_id": "Amon", "frequency": "mon", "grid_label": "gr1"},
}
CONFIG = {
    "operators": {
        "tas": {"operators": ["mean", "max"], "windows": ["day", "month"]},
        "mean": {"of": "tas", "space": "fldmean", "operators": ["mean"], "windows": ["year"]},
        "coarse": {"of": "tas", "space": {"remapcon": "r4x2"}, "operators": ["mean"], "windows": ["month"]},
        "hp": {"of": "tas", "space": {"healpix": 0}, "operators": ["mean"], "windows": ["month"]},
    },
    "netcdf": True,
    "publication": {"attributes": GLOBAL, "variables": VARIABLES},
}


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    folder = tmp_path_factory.mktemp("published")
    fields = {
        "tas": np.random.default_rng(3).normal(280, 9, (STEPS, LATS, LONS)).astype("f4"),
        "lat": np.linspace(-75, 75, LATS),
        "lon": np.arange(LONS) * 36.0,
    }
    streams.store(folder, fields, 12.0 * np.arange(STEPS) + 6, ATTRIBUTES, steady=("lat", "lon"))
    return streams.analyse(folder, CONFIG), folder / "out" / "published"


def test_each_variable_has_a_file_with_the_name_that_its_archive_wants(published):
    _, folder = published
    assert sorted(path.name for path in folder.iterdir()) == [
        "tas_Amon_MODEL-1-0_historical_r1i1p1f1_gn_200101-200103.nc",
        "tas_Amon_MODEL-1-0_historical_r1i1p1f1_gr1_200101-200103.nc",
        "tas_Amon_MODEL-1-0_historical_r1i1p1f1_gr_200101-200103.nc",
        "tasg_Ayr_MODEL-1-0_historical_r1i1p1f1_gn_2001-2001.nc",
        "tasmax_day_MODEL-1-0_historical_r1i1p1f1_gn_20010101-20010306.nc",
    ]


def test_files_have_the_values_of_the_results_and_what_the_table_says(published):
    results, folder = published
    assert (folder.parent / ".bbflow").read_text().count("published/") >= 1
    with xr.open_dataset(next(folder.glob("tas_*_gn_*")), engine="netcdf4", decode_times=False) as data:
        np.testing.assert_array_equal(data["tas"].values, results["tas_month_mean"].values)
        assert data["tas"].attrs["comment"] == "2 m"
        assert data["tas"].attrs["standard_name"] == "air_temperature"
        assert data["tas"].attrs["cell_methods"] == results["tas_month_mean"].attrs["cell_methods"]
        assert data.attrs["variable_id"] == "tas"
        assert (data.attrs["table_id"], data.attrs["frequency"], data.attrs["realm"]) == ("Amon", "mon", "atmos")
        assert data.attrs["source_id"] == "MODEL-1-0"
        assert data.attrs["tracking_id"].startswith("hdl:21.14100/")
        assert "tracking_prefix" not in data.attrs
        assert set(data.coords) == {"time", "lat", "lon"}
        assert [data[name].attrs["standard_name"] for name in ("lat", "lon")] == ["latitude", "longitude"]
        assert [data[name].attrs["axis"] for name in ("lat", "lon")] == ["Y", "X"]
        assert data["time"].attrs["bounds"] == "time_bnds"
        assert set(data.data_vars) == {"tas", "time_bnds"}
    with xr.open_dataset(next(folder.glob("tasmax_*")), engine="netcdf4", decode_times=False) as data:
        np.testing.assert_array_equal(data["tasmax"].values, results["tas_day_max"].values)


def test_a_remapped_field_has_its_grid_under_the_grids_own_names(published):
    results, folder = published
    with xr.open_dataset(next(folder.glob("tas_*_gr_*")), engine="netcdf4", decode_coords="all") as data:
        assert data["tas"].dims == ("time", "lat", "lon")
        assert set(data.coords) == {"time", "time_bnds", "lat", "lat_bnds", "lon", "lon_bnds", "cell_area"}
        np.testing.assert_array_equal(data["tas"], results["coarse_month_mean"])
    with xr.open_dataset(next(folder.glob("tas_*_gr1_*")), engine="netcdf4", decode_coords="all") as data:
        assert data["tas"].dims == ("time", "cell")
        assert data["crs"].attrs["refinement_level"] == 0
    with xr.open_dataset(folder.parent / "results_month.nc", engine="netcdf4", decode_coords="all") as data:
        assert {"hp_crs", "coarse_cell_area"} <= set(data.variables), "several diagnostics keep their names"


@pytest.mark.readers
def test_the_checker_of_ioos_has_no_errors(published):
    """It is the newest that there is, and knows CF up to 1.11."""
    own = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    if not (checker := shutil.which("compliance-checker", path=own)):
        pytest.skip("compliance-checker isn't there: 'make readers-suite' installs it")
    for path in set(published[1].iterdir()) - set(published[1].glob("*_gr1_*")):  # CF 1.11 has no HEALPix yet
        words = [checker, "--test", "cf:1.11", "--criteria", "normal", path]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout


def changed(variables=None, **publication):
    told = CONFIG["publication"] | publication | ({"variables": variables} if variables is not None else {})
    return {"stream": "s", **CONFIG, "publication": told}


ONE = VARIABLES["tas_month_mean"]


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (changed({"tas_month_men": ONE}), "no result 'tas_month_men'.*'tas_month_mean'"),
        (changed({"tas_month_mean": {"variable_id": "tas"}}), "say its frequency"),
        (changed({"tas_month_mean": ONE | {"frequency": "monthly"}}), "frequency 'monthly'"),
        (changed({"tas_month_mean": ONE | {"variable_id": "t-2"}}), "letters, digits and _"),
        (changed({"tas_month_mean": ONE, "tas_month_max": ONE}), "would have one file"),
        (changed(attributes={"source_id": "M"}), "needs 'experiment_id'"),
        (changed(attributes=GLOBAL | {"source_id": "MODEL 1"}), "no blanks"),
        (changed(file="{variable_id}"), "ends with .nc"),
        (changed(file="{variable_id.nc"), "file"),
        (changed({"tas_month_mean": ONE | {"branding_suffix": "tavg-h2m"}}), "four labels, such as tavg-h2m-hxy-u"),
        (changed({"tas_month_mean": ONE}, attributes=GLOBAL | {"mip_era": "CMIP7"}), "needs 'branding_suffix'"),
        (changed({}), "must be a map with 'variables'"),
        (changed(name="x"), "unknown key 'name'"),
    ],
)
def test_what_is_wrong_in_a_table_is_told_before_the_run(config, message):
    with pytest.raises(ConfigError, match=message):
        parse_config(config)


def test_files_of_cmip7_are_named_by_the_branded_variable_and_tell_its_labels():
    entry = ONE | {"branding_suffix": "tavg-h2m-hxy-u", "region": "glb"}
    config = parse_config(changed({"tas_month_mean": entry}, attributes=GLOBAL | {"mip_era": "CMIP7"}))
    assert config.publication is not None
    (variable,) = config.publication.variables
    expected = "tas_tavg-h2m-hxy-u_mon_glb_gn_MODEL-1-0_historical_r1i1p1f1_200101-200103.nc"
    assert config.publication.file_name(variable, "200101-200103") == expected
    labels = {"temporal_label": "tavg", "vertical_label": "h2m", "horizontal_label": "hxy", "area_label": "u"}
    assert labels.items() <= variable.of_file.items()
    assert variable.of_file["branded_variable"] == "tas_tavg-h2m-hxy-u"
    assert "branding_suffix" not in variable.attributes


@pytest.mark.parametrize(
    ("frequency", "form"),
    [
        ("mon", "%Y%m"),
        ("monC", "%Y%m"),
        ("3hr", "%Y%m%d%H%M"),
        ("6hrPt", "%Y%m%d%H%M"),
        ("1hrCM", "%Y%m%d%H%M"),
        ("fx", None),
    ],
)
def test_times_in_names_of_files_are_those_of_the_frequency(frequency, form):
    assert time_format(frequency) == form
