"""The published scripts of docs/climate-modellers.md, against what they run themselves: CDO on the same fields."""

import importlib
import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
import yaml

from testsupport.programs import run_program

PAGE = Path(__file__).parents[2] / "docs" / "climate-modellers.md"
SCRIPTS = PAGE.read_text().partition("## Published scripts")[2]
UNITS, DAYS, MISSING = "days since 1999-12-01", 397, -999.0
LAT, LON = np.linspace(-60, 60, 16), np.arange(12) * 30.0
SHAPE = (len(LAT), len(LON))
DIMS = ("lat", "lon")
CHAINS = {
    "cwd_year_CWD": "eca_cwd -mulc,86400 -selyear,2000 -selname,pr",
    "icing_year_ID": "etccdi_id -selname,tas",
    "rx5day_year_Rx5day": "--timestat_date last yearmax -runsum,5 -mulc,86400 -selname,pr",
    "prcptot_year_sum": "yearsum -mul -selname,pr {file} -gtc,1 -mulc,86400 -selname,pr",
    "sdii_year_mean": "div -yearsum -mul -selname,pr {file} -gtc,1 -mulc,86400 -selname,pr {file} "
                      "-yearsum -gtc,1 -mulc,86400 -selname,pr",
    "winter_season_djf_mean": "mulc,86400 -timselmean,3,0,9 -monmean -selname,pr",
    "spring_season_jfma_mean": "yearmean -selmonth,1,2,3,4 -monmean -selname,tas",
    "climatology_clim_month_mean": "ymonmean -selname,ua",
    "seasons_season_mean": "seasmean -daymean -selname,tas",
    "nino34_month_mean": "monmean -sellonlatbox,-170,-120,5,-5 -selname,tas",
    "seasonal_p99_clim_season_p99": "yseaspctl,99 -selname,pr {file} -yseasmin -selname,pr {file} "
                                    "-yseasmax -selname,pr",
    "wind_month_std": "monstd -selname,ua",
    "wind_season_std": "seasstd -selname,ua",
}  # fmt: skip
"""Result to the operators of the script; monthly inputs are made of the days first, winters begin with the first.
CDO's etccdi_cwd counts a spell across two years in the later one: eca_cwd of a year alone is what is meant here. Five
days are dated by their last one, as the ETCCDI has it, and not by CDO's middle."""


def fields():
    random = np.random.default_rng(11)
    season = 285 - 15 * np.cos(2 * np.pi * np.arange(DAYS) / 365)[:, None, None] * np.sign(LAT)[:, None]
    tas = season - np.abs(LAT)[:, None] / 3 + random.normal(0, 4, (DAYS, *SHAPE))
    pr = np.where(random.random((DAYS, *SHAPE)) < 0.5, random.exponential(6 / 86400, (DAYS, *SHAPE)), 0)
    made = {"tas": tas, "pr": pr, "ua": random.normal(5, 8, (DAYS, *SHAPE))}
    for values in made.values():
        values[:, 3, 4] = np.nan  # no value at all
        values[20:29, 5, 6] = np.nan
    return {name: values.astype("f4") for name, values in made.items()}


def written(path, made):
    time = ("time", np.arange(DAYS, dtype="f8"), {"units": UNITS, "calendar": "standard", "standard_name": "time"})
    places = {"lat": ("lat", LAT, {"units": "degrees_north"}), "lon": ("lon", LON, {"units": "degrees_east"})}
    units = {"tas": "K", "pr": "mm", "ua": "m s-1"}  # CDO's indices of rain take what they get for mm
    data = {name: (("time", *DIMS), values, {"units": units[name]}) for name, values in made.items()}
    encoding = {name: {"_FillValue": np.float32(MISSING)} for name in made}
    xr.Dataset(data, {"time": time, **places}).to_netcdf(path, engine="scipy", encoding=encoding)


def cdo(folder, chain):
    command = chain.format(file=folder / "in.nc").split()
    done = subprocess.run(
        ["cdo", "-s", "-O", "-b", "F64", *command, folder / "in.nc", folder / "out.nc"],
        capture_output=True, text=True, timeout=60, env=os.environ | {"CDO_PCTL_NBINS": "30001"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    with xr.open_dataset(folder / "out.nc", engine="scipy", decode_times=False) as data:
        return next(values.values for values in data.data_vars.values() if "lat" in values.dims)


@pytest.fixture(scope="module")
def made():
    return fields()


@pytest.fixture(scope="module")
def ran(made, tmp_path_factory):
    """What the page's lines give."""
    folder = tmp_path_factory.mktemp("run")
    (block,) = re.findall(r"```yaml\n(.*?)```", SCRIPTS, re.DOTALL)
    config = yaml.safe_load(block) | {"time": {"variable": "time"}}
    assert set(re.findall(r"\| `(\w+)` \|", SCRIPTS)) == set(config["operators"])
    attributes = {f"{name}/_ARRAY_DIMENSIONS": list(DIMS) for name in made}
    attributes |= {"time/units": UNITS, "time/calendar": "standard", "tas/units": "K", "pr/units": "kg m-2 s-1"}
    attributes |= {"lat/units": "degrees_north", "lon/units": "degrees_east"}
    places = [("lat", LAT), ("lon", LON)]
    steps = [
        [*(places if day == 0 else []), ("time", float(day)), *((name, values[day]) for name, values in made.items())]
        for day in range(DAYS)
    ]
    ran = run_program(folder, [steps], config, attributes, capacity="64MiB")
    assert (ran.outcome.complete, ran.told) == (True, "")
    return ran.results


@pytest.mark.skipif(shutil.which("cdo") is None, reason="needs the program cdo (Debian's package of that name)")
def test_the_lines_of_the_page_give_what_the_scripts_give(tmp_path, made, ran):
    written(tmp_path / "in.nc", made)
    for name, chain in CHAINS.items():
        ours, theirs = ran[name].values, cdo(tmp_path, chain)
        ours = ours[-1:] if "selyear,2000" in chain else ours
        rough = 1e-3 if "pctl" in chain else 2e-5  # CDO's percentiles are those of bins
        np.testing.assert_allclose(ours[: len(theirs)], theirs, rtol=rough, atol=1e-9, err_msg=name)
        assert np.nanstd(theirs) > 0, name
    assert set(CHAINS) == {name for name in ran.data_vars if ran[name].ndim == 3} - RECIPES


RECIPES = {"january_season_j_mean", "hotspot_season_mean"}
"""Maps of ESMValTool's recipes."""


def daily(iris, values):
    """Days as a cube with the number of the month and the like, as ESMValTool's preprocessor adds them."""
    units = importlib.import_module("cf_units").Unit(UNITS, "standard")
    axes = [(np.arange(float(DAYS)), "time", units), (LAT, "latitude", "degrees"), (LON, "longitude", "degrees")]
    coords = [(iris.coords.DimCoord(own, name, units=told), at) for at, (own, name, told) in enumerate(axes)]
    cube = iris.cube.Cube(np.ma.masked_invalid(values.astype("f8")), dim_coords_and_dims=coords)
    for add in ("month_number", "year"):
        getattr(iris.coord_categorisation, f"add_{add}")(cube, "time")
    for axis in ("latitude", "longitude"):
        cube.coord(axis).guess_bounds()
    return cube


@pytest.mark.filterwarnings("ignore:You are using legacy date precision", "ignore:Using DEFAULT_SPHERICAL")
def test_the_lines_of_recipes_give_what_the_preprocessor_gives(made, ran):
    iris = pytest.importorskip("iris", reason="needs iris, with which ESMValTool works: pip install scitools-iris")
    for name in ("analysis.cartography", "coord_categorisation"):
        importlib.import_module(f"iris.{name}")
    mean, each_month = iris.analysis.MEAN, ["month_number", "year"]
    tas, pr = (daily(iris, made[name]) for name in ("tas", "pr"))
    january = tas.aggregated_by(each_month, mean).extract(iris.Constraint(month_number=1)).data
    np.testing.assert_allclose(ran.january_season_j_mean[0], january.filled(np.nan), rtol=1e-6)
    areas = iris.analysis.cartography.area_weights(tas)
    whole = tas.collapsed(["longitude", "latitude"], mean, weights=areas).aggregated_by(each_month, mean)
    np.testing.assert_allclose(ran.annual_global_year_mean, whole.aggregated_by("year", mean).data, rtol=1e-5)
    months = pr.aggregated_by(each_month, mean)
    for add in ("season", "season_year"):
        getattr(iris.coord_categorisation, f"add_{add}")(months, "time")
    seasons = months.aggregated_by(["season", "season_year"], mean).data
    np.testing.assert_allclose(ran.hotspot_season_mean, seasons.filled(np.nan), rtol=1e-6)
