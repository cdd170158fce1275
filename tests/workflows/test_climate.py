import os
import re
import subprocess
from pathlib import Path

import adios2
import bbflow_catalogs
import cftime
import numpy as np
import pytest
from bbflow_workflows import climate

from bbflow.cli import main
from testsupport.once import built_once

CATALOG = Path(bbflow_catalogs.__file__).parent / "adios2"
BP5 = CATALOG / "climate-bp5.xml"
FIELDS = ("tas", "pr", "psl", "ta")
FILL = np.float32(1e20)


def start(program, ranks=1, **flags):
    given = {"config": BP5, "nlat": 24, "nlon": 48, "steps": 6} | flags
    return subprocess.run(climate.command(program, ranks, **given), capture_output=True, text=True, timeout=300)


def run(program, ranks=1, **flags):
    done = start(program, ranks, **flags)
    assert done.returncode == 0, done.stderr
    return done.stdout


def read(path):
    """Return every variable with time first, and the attributes."""
    with adios2.FileReader(str(path)) as file:
        steps = int(file.available_variables()["tas"]["AvailableStepsCount"])
        attributes = {name: file.read_attribute(name) for name in file.available_attributes()}
        values = {name: file.read(name) for name in ("lat", "lon", "plev")}
        for name in ("time", *FIELDS):
            shape = file.inquire_variable(name).shape()
            values[name] = file.read(name, step_selection=[0, steps]).reshape(steps, *shape)
    return values, attributes


def area_weights(lat):
    half = 90 / lat.size
    return np.sin(np.radians(lat + half)) - np.sin(np.radians(lat - half))


@pytest.fixture(scope="session")
def month(program, tmp_path_factory):
    path = tmp_path_factory.mktemp("month") / "month.bp"
    run(program, nlat=48, nlon=96, steps=120, output=path)
    return read(path)


@pytest.fixture(scope="session")
def year(program, tmp_path_factory):
    path = tmp_path_factory.mktemp("year") / "year.bp"
    run(program, steps=720, steps_per_day=2, calendar="360_day", output=path)
    return read(path)[0]


def test_a_stream_has_coordinates_and_one_time_a_step(month):
    values, _ = month
    np.testing.assert_allclose(values["lat"], -90 + 180 / 48 * (np.arange(48) + 0.5))
    np.testing.assert_allclose(values["lon"], np.arange(96) * 3.75)
    np.testing.assert_allclose(values["plev"], [100000, 70000, 40000, 10000])
    np.testing.assert_array_equal(values["time"], np.arange(120) / 4)


def test_fields_are_single_precision_on_the_whole_grid(month):
    values, _ = month
    for name in FIELDS:
        shape = (120, 4, 48, 96) if name == "ta" else (120, 48, 96)
        assert (values[name].dtype, values[name].shape) == (np.dtype("f4"), shape)


def test_attributes_follow_cf(month):
    _, attributes = month
    assert attributes["Conventions"] == "CF-1.11"
    assert attributes["time/units"] == "days since 2000-01-01 00:00:00"
    assert list(attributes["ta/_ARRAY_DIMENSIONS"]) == ["plev", "lat", "lon"]
    units = {name: attributes[f"{name}/units"] for name in FIELDS}
    assert units == {"tas": "K", "pr": "kg m-2 s-1", "psl": "Pa", "ta": "K"}
    for name in FIELDS:
        assert attributes[f"{name}/cell_methods"] == "time: point"
        assert np.float32(attributes[f"{name}/_FillValue"]) == FILL
    for name in ("lat", "lon", "plev", "time"):
        assert attributes[f"{name}/axis"]
        assert attributes[f"{name}/standard_name"]


def test_values_are_those_of_a_climate(month):
    values, _ = month
    tas = values["tas"].astype("f8") - 273.15
    weights = area_weights(values["lat"])
    mean = np.average(tas.mean((0, 2)), weights=weights)
    rain_mm_per_day = 86400 * np.average(values["pr"].mean((0, 2), dtype="f8"), weights=weights)
    assert 10 < mean < 18
    assert 1.5 < rain_mm_per_day < 5
    assert 24 < tas[:, 23:25].mean() < 31
    assert -60 < tas[:, -2:].mean() < -20
    assert -70 < tas.min() < tas.max() < 45
    assert 94000 < values["psl"].min() < values["psl"].max() < 106000


def test_ta_is_missing_below_the_ground_only(month):
    ta = month[0]["ta"]
    missing = ta == FILL
    assert missing[:, 0].mean() > 0.1
    assert not missing[:, 2:].any()
    assert (missing[:, :-1] | ~missing[:, 1:]).all()
    assert (ta[~missing] > 150).all()
    assert (ta[~missing] < 330).all()


def test_rain_falls_in_places_and_most_of_all_in_the_tropics(year):
    rain = year["pr"].mean((0, 2), dtype="f8")
    assert (year["pr"] >= 0).all()
    assert 0.1 < (year["pr"] > 1e-6).mean() < 0.7
    assert rain[abs(year["lat"]) < 10].mean() > 2 * rain[abs(year["lat"]) > 50].mean()


def test_land_swings_more_than_sea_and_the_hemispheres_in_turn(year):
    months = year["tas"].reshape(12, 60, 24, 48).mean(1, dtype="f8")
    swing = np.ptp(months, axis=0)
    north, south = year["lat"] > 30, year["lat"] < -30
    assert (months[6] - months[0])[north].mean() > 5
    assert (months[6] - months[0])[south].mean() < -3
    siberia, pacific = swing[20, 13], swing[18, 25]
    assert siberia > 1.5 * pacific


def test_the_rows_at_the_poles_are_smooth(year):
    tas = year["tas"].astype("f8")
    for pole in (0, -1):
        assert tas[:, pole].std(axis=1).max() < 5
    # The other pole lies on a mountain.
    assert abs(tas[:, -1].mean(1) - tas[:, -2].mean(1)).max() < 10


def test_the_same_seed_gives_the_same_fields_whatever_the_number_of_ranks(program, tmp_path):
    flags, ranks = {"nlat": 25, "nlon": 50, "steps": 5, "seed": 7}, 3
    run(program, **flags, output=tmp_path / "whole.bp")
    run(program, ranks, **flags, output=tmp_path / "band-{rank}.bp")
    with adios2.FileReader(str(tmp_path / "whole.bp")) as whole:
        first = 0
        for rank in range(ranks):
            with adios2.FileReader(str(tmp_path / f"band-{rank}.bp")) as band:
                rows = 25 * (rank + 1) // ranks - first
                for name in ("lat", *FIELDS):
                    shape = whole.inquire_variable(name).shape()
                    axis = max(len(shape) - 2, 0)
                    begin, count = [0] * len(shape), list(shape)
                    begin[axis], count[axis] = first, rows
                    steps = [0, 1 if name == "lat" else 5]
                    expected = whole.read(name, begin, count, step_selection=steps)
                    found = band.read(name, begin, count, step_selection=steps)
                    assert found.tobytes() == expected.tobytes(), name
            first += rows


def test_only_rank_0_writes_what_has_no_rows(program, tmp_path):
    run(program, 2, output=tmp_path / "band-{rank}.bp")
    with adios2.FileReader(str(tmp_path / "band-1.bp")) as band:
        assert set(band.available_variables()) == {"lat", *FIELDS}


def test_another_seed_gives_another_weather(program, tmp_path):
    for seed in (1, 2):
        run(program, steps=1, seed=seed, output=tmp_path / f"{seed}.bp")
    one, two = (read(tmp_path / f"{seed}.bp")[0] for seed in (1, 2))
    assert abs(one["psl"] - two["psl"]).max() > 100


@pytest.mark.parametrize(("nlat", "nlon"), [(24, 48), (12, 400), (90, 16), (5, 9)])
def test_transport_conserves_and_makes_no_new_extremes(program, tmp_path, nlat, nlon):
    flags = {"nlat": nlat, "nlon": nlon, "steps": 40, "steps_per_day": 1, "physics": "off"}
    out = run(program, **flags, output=tmp_path / "transport.bp")
    drifts = re.search(r"heat_drift=(\S+) moisture_drift=(\S+)", out)
    assert all(float(drift) < 1e-12 for drift in drifts.groups())
    values, _ = read(tmp_path / "transport.bp")
    tas = values["tas"].reshape(40, -1)
    spacing = np.spacing(np.float32(320))
    assert (np.diff(tas.max(1)) <= spacing).all()
    assert (np.diff(tas.min(1)) >= -spacing).all()
    assert tas[-1].std() < tas[0].std()


def test_transport_keeps_its_totals_in_the_written_fields(program, tmp_path):
    run(program, steps=40, physics="off", output=tmp_path / "transport.bp")
    values, _ = read(tmp_path / "transport.bp")
    means = np.average(values["tas"].mean(2, dtype="f8"), axis=1, weights=area_weights(values["lat"]))
    # Single precision leaves about 1e-5 K of a cell, and less of a thousand cells.
    assert np.ptp(means) < 1e-5


@pytest.mark.parametrize("calendar", ["standard", "noleap", "360_day"])
def test_a_calendar_sets_the_length_of_a_year(program, tmp_path, calendar):
    run(program, nlat=8, nlon=16, steps=2, calendar=calendar, output=tmp_path / "c.bp")
    _, attributes = read(tmp_path / "c.bp")
    assert attributes["time/calendar"] == calendar
    days = {"standard": 366, "noleap": 365, "360_day": 360}[calendar]
    date = cftime.num2date(days, attributes["time/units"], attributes["time/calendar"])
    assert (date.year, date.month, date.day) == (2001, 1, 1)


def test_the_last_line_tells_what_a_run_cost(program, tmp_path):
    lines = run(program, steps=20, output=tmp_path / "run.bp").splitlines()
    cost = re.fullmatch(r"climate: steps=20 substeps=\d+ compute_s=(\S+) output_s=(\S+)", lines[-1])
    assert all(float(seconds) > 0 for seconds in cost.groups())
    assert [int(line.split()[1]) for line in lines[:-1]] == list(range(2, 21, 2))


def test_a_run_needs_nothing_from_the_environment(program, tmp_path):
    command = climate.command(program, 2, config=CATALOG / "climate-null.xml", steps=1)
    done = subprocess.run(command, env={"PATH": "/usr/bin:/bin"}, cwd=tmp_path, capture_output=True, timeout=300)
    assert done.returncode == 0


def test_without_output_only_the_xml_differs(program, tmp_path):
    run(program, config=CATALOG / "climate-null.xml", output=tmp_path / "null.bp")
    assert not list(tmp_path.iterdir())


def test_every_configuration_differs_in_its_engine_only():
    engines = {}
    for path in (climate.DEFAULT_CONFIG, BP5, CATALOG / "climate-null.xml"):
        text = re.sub(r"<!--.*?-->", "", path.read_text(), flags=re.DOTALL)
        engines[path.name] = re.search(r'<engine type="(\w+)"', text)[1]
        assert adios2.Adios(str(path)).declare_io("climate").engine_type() == engines[path.name]
    assert list(engines.values()) == ["Plugin", "BP5", "NULL"]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"nlat": 0}, "--nlat must be a whole number from 4 to 20000, not '0'"),
        ({"steps": "ten"}, "--steps must be a whole number from 1 to 1000000000, not 'ten'"),
        ({"calendar": "julian"}, "--calendar must be standard, noleap or 360_day, not 'julian'"),
        ({"physics": "maybe"}, "--physics must be 'on' or 'off', not 'maybe'"),
        ({"colour": "red"}, "unknown flag '--colour'; see --help"),
        ({"output": ""}, "--output must not be empty"),
        ({"config": "nowhere.xml"}, "--config nowhere.xml can't be read"),
        ({"nlat": 4}, "--nlat 4 is too few for 3 ranks: at least 6 are needed"),
    ],
)
def test_a_bad_flag_is_one_line_and_exit_code_2(program, tmp_path, flags, message):
    done = start(program, ranks=3, **({"output": tmp_path / "bad.bp"} | flags))
    assert done.returncode == 2
    assert done.stderr.splitlines() == [f"climate: {message}"]


def test_a_flag_without_a_value_is_refused(program):
    done = subprocess.run([program, "--steps"], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (2, "climate: --steps needs a value\n")


def test_help_names_every_flag(program):
    done = subprocess.run([program, "--help"], capture_output=True, text=True, timeout=300)
    named = set(re.findall(r"--[a-z-]+", done.stdout))
    wanted = "nlat nlon levels steps steps-per-day calendar seed config output die-at-step physics help"
    assert done.returncode == 0
    assert named >= {f"--{name}" for name in wanted.split()}


def test_an_exception_of_adios2_ends_the_run_with_an_error(program, tmp_path):
    (tmp_path / "file").touch()
    done = start(program, output=tmp_path / "file" / "below.bp")
    assert done.returncode not in (0, 2)
    assert "climate: rank 0:" in done.stderr


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        (["--steps", "-1"], "--steps must be a whole number from 1 to"),
        (["--calendar", "julian"], "--calendar must be standard, noleap or 360_day"),
        (["--nlat", "4", "--ranks", "3"], "is too few for 3 ranks"),
        (["--ranks", "0"], "--ranks 0: at least 1 must run"),
    ],
)
def test_a_demo_that_cannot_run_is_refused_first(program, tmp_path, tmp_path_factory, capsys, words, refusal):
    place = ["--output", str(tmp_path / "out"), "--build", str(program.parent)]
    with built_once(tmp_path_factory, "climate"):
        assert main(["demo", *place, *words]) == os.EX_USAGE
    said = capsys.readouterr().err
    assert refusal in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_run_told_to_die_leaves_the_step_unfinished(program, tmp_path, ranks):
    done = start(program, ranks, steps=10, output=tmp_path / "dead-{rank}.bp", die_at_step=3)
    assert done.returncode != 0
    assert [int(line.split()[1]) for line in done.stdout.splitlines() if " of 10 steps" in line] == [1, 2, 3]


def test_a_second_build_compiles_nothing(program, tmp_path_factory):
    before = program.stat().st_mtime_ns
    with built_once(tmp_path_factory, "climate"):
        assert climate.build(program.parent) == program
    assert program.stat().st_mtime_ns == before


@pytest.mark.parametrize(
    ("tool", "message"),
    [
        ("g++", "g++ is missing: apt install g++"),
        ("mpicxx", "mpich is missing: pip install 'bbflow[demo]'"),
    ],
)
def test_a_missing_tool_is_named_with_what_installs_it(monkeypatch, tmp_path, tool, message):
    found = climate.shutil.which
    monkeypatch.setattr(climate.shutil, "which", lambda name, **rest: None if name == tool else found(name, **rest))
    with pytest.raises(RuntimeError, match=re.escape(message)):
        climate.build(tmp_path)


def test_a_compiler_in_a_path_with_blanks_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(climate.shutil, "which", lambda name, **rest: str(tmp_path / "my clone" / name))
    with pytest.raises(RuntimeError, match="MPI's compilers fail in a path with blanks"):
        climate.build(tmp_path)


def test_a_build_that_fails_shows_its_last_lines_as_they_are(tmp_path, capfd):
    (tmp_path / "file").touch()
    with pytest.raises(RuntimeError, match=r"the build of climate failed \(cmake 1\): see above"):
        climate.build(tmp_path / "file")
    assert "CMake Error:" in capfd.readouterr().err
