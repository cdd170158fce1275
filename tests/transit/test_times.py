"""Time as programs tell it: text, characters, arrays of one, attributes, names of files, or nothing at all."""

import os
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import replace

import bbflow_adios2
import numpy as np
import pytest
import xarray as xr

from bbflow import start_nodes
from bbflow.configuring.config import parse_config
from bbflow.configuring.step_time import TimeConfig, read_time, written_time
from bbflow.drain.rescuing import Rescue
from bbflow.errors import ConfigError
from bbflow.net.contact import read_contact
from bbflow.operators.windows.calendars import Clock
from bbflow.operators.windows.date_texts import date_in, read_date, read_digits
from bbflow.reading.wire_types import Attribute
from bbflow.stream.cf import StreamAttributes
from bbflow.stream.records import BlockForm, Layout, Step
from bbflow.transit.driver.first_step import make_clock
from bbflow.transit.output.decoding import open_results
from bbflow.view.consumers import RESCUE, Consumers
from bbflow.view.stream import News
from bbflow.view.times import StepTimes, TimeTelling, told_by
from testsupport.programs import write_program

STEPS = 40
FIRST = "2000-02-20"
PROGRAM = """
import sys
import adios2
import cftime
import numpy as np
from datetime import timedelta

streams = {}
for name in sys.argv[1:]:
    io = adios2.Adios().declare_io(name)
    io.set_engine("Plugin")
    io.set_parameters({"PluginName": "bbflow", "PluginLibrary": "bbflow_adios2"})
    streams[name] = io, adios2.Stream(io, name, "w")
for n in range(40):
    dates = {
        calendar: cftime.datetime(2000, 2, 20, calendar=calendar) + n * timedelta(hours=12)
        for calendar in ("standard", "noleap", "360_day")
    }
    for name, (io, stream) in streams.items():
        kind, _, calendar = name.partition("-")
        date = dates[calendar or "standard"]
        text = date.strftime("%Y-%m-%d_%H:%M:%S")
        letters = np.array(list(text.encode()), "u1")
        stream.begin_step()
        if kind == "wrf":
            stream.write("Times", text)
        elif kind == "iso":
            stream.write("time", date.strftime("%Y-%m-%dT%H:%M:%SZ"))
        elif kind == "letters":
            stream.write("time", letters, [19], [0], [19])
        elif kind == "rows":
            stream.write("when", letters.astype("i1").reshape(1, 19), [1, 19], [0, 0], [1, 19])
        elif kind == "one":
            stream.write("time", np.array([50 + n / 2]), [1], [0], [1])
            if n == 0:
                stream.write_attribute("time/units", "days since 2000-01-01")
        elif kind == "digits":
            stream.write("time", float(date.strftime("%Y%m%d")) + date.hour / 24)
            if n == 0:
                stream.write_attribute("time/units", "day as %Y%m%d.%f")
        elif kind == "attribute":
            if n:
                io.remove_attribute("date")
            stream.write_attribute("date", text)
        stream.write("t", np.full((2, 3), 280.0 + n, "f4"), [2, 3], [0, 0], [2, 3])
        stream.end_step()
for _, stream in streams.values():
    stream.close()
"""
CASES = {
    "wrf": {"variable": "Times"},
    "iso": {},
    "iso-noleap": {"calendar": "noleap"},
    "letters-360_day": {"calendar": "360_day"},
    "rows": {"variable": "when", "units": "hours since 2000-01-01"},
    "one": {},
    "digits": {},
    "digits-360_day": {"calendar": "360_day"},
    "attribute": {"attribute": "date"},
    "nothing": {"start": FIRST, "interval": "12h"},
    "nothing-noleap": {"start": FIRST, "interval": 0.5, "units": "days since 1999-01-01", "calendar": "noleap"},
}


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    """What is made of each case, by its name."""
    folder = tmp_path_factory.mktemp("times")
    with start_nodes(1, "8MiB") as buffer, ExitStack() as stack:
        (folder / "program.py").write_text(PROGRAM)
        analyses = [stack.enter_context(buffer.analyse(config_of(name, folder))) for name in CASES]
        words = [sys.executable, folder / "program.py", *CASES]
        subprocess.run(words, check=True, timeout=300, env=os.environ | bbflow_adios2.environment(buffer.contact))
        outcomes = [analysis.wait(300) for analysis in analyses]
    assert all(outcome is not None and outcome.complete and outcome.steps == STEPS for outcome in outcomes)
    return {name: folder / name for name in CASES}


def config_of(name, folder):
    return {
        "stream": name, "operators": {"t": ["mean"]}, "windows": ["month"], "raw": "all", "output": str(folder / name),
        "time": CASES[name], "workers": {"processes": 0, "threads": 1},
    }  # fmt: skip


def expected(name):
    """The field of a case with the dates of its steps, as xarray has them."""
    calendar = name.partition("-")[2] or "standard"
    times = xr.date_range(FIRST, periods=STEPS, freq="12h", calendar=calendar, use_cftime=calendar != "standard")
    return xr.DataArray(280.0 + np.arange(STEPS), coords={"time": times}, dims="time")


@pytest.mark.parametrize("name", CASES)
def test_months_are_those_of_the_dates_that_the_program_tells(outputs, name):
    months = expected(name).resample(time="MS").mean()
    with open_results(outputs[name] / "results.zarr") as results:
        np.testing.assert_array_equal(results.t_month_mean[:, 1, 2], months)
        assert [str(start)[:7] for start in results.time_month_bnds.values[:, 0]] == [
            str(start)[:7] for start in months.time.values
        ]


@pytest.mark.parametrize("name", CASES)
def test_raw_steps_have_their_dates(outputs, name):
    with xr.open_zarr(outputs[name] / "raw.zarr") as raw:
        axis = raw.t.dims[0]
        np.testing.assert_array_equal(raw[axis], expected(name).time)


def test_a_rescue_keeps_dates_that_are_text(tmp_path):
    with start_nodes(1, "16MiB") as buffer:
        (tmp_path / "program.py").write_text(PROGRAM)
        Consumers(read_contact(buffer.contact), "wrf", [RESCUE]).close()
        words = [sys.executable, tmp_path / "program.py", "wrf"]
        subprocess.run(words, check=True, timeout=300, env=os.environ | bbflow_adios2.environment(buffer.contact))
        time = read_time(written_time(parse_config(config_of("wrf", tmp_path)).time))
        rescued = Rescue(buffer.contact, "wrf", tmp_path / "out", time).run()
    assert rescued.left_out == ()
    with xr.open_zarr(rescued.store) as raw:
        np.testing.assert_array_equal(raw.Times, expected("wrf").time)


# Without programs: what one rank's steps say


def steps_of(*attributes, value=None, kind="double"):
    """Steps of a rank with the attributes that came with each, and perhaps a single value `time`."""
    forms = (BlockForm("time", kind, "GlobalValue", (), (), (), 0),) if value is not None else ()
    layout = Layout.of(forms)
    values = (value,) if value is not None else ()
    told = [tuple(Attribute(name, "string", text) for name, text in own.items()) for own in attributes]
    return tuple(Step(number, layout, values=values, attributes=own) for number, own in enumerate(told))


def times_of(time, steps, *, is_dated=True, base=None, file_since=None):
    """The dates of steps, as the configuration has them told; None without a clock."""
    config = parse_config({"stream": "s", "operators": {"t": ["mean"]}, "windows": ["run"], "time": time})
    telling = TimeTelling(config.time, lambda number, block: None, is_dated=is_dated)
    told = telling.told(News("open", 1, 1, steps, len(steps) - 1, base=base or {}, file_since=file_since)).steps
    clock = make_clock(config, StreamAttributes({}), told_by({"a": told[0]}, config.time.variable))
    times = StepTimes(config.time, clock)
    return None if clock.by_steps else [str(clock.date(times.of(step.number, {"a": step}))) for step in told]


FILES = [{"bbflow_file": f"out/h0.2000-{month:02d}.nc"} for month in (1, 2, 3)]


def test_each_file_tells_the_date_of_its_step():
    months = [f"2000-{month:02d}-01 00:00:00" for month in (1, 2, 3)]
    assert times_of({"by": "file"}, steps_of(*FILES)) == months
    assert times_of({}, steps_of(*FILES)) == months
    assert times_of({}, steps_of(*FILES), is_dated=False) is None


def test_further_steps_of_a_file_need_an_interval():
    steps = steps_of(FILES[0], {}, FILES[1])
    with pytest.raises(ConfigError, match=r"step 1 isn't the first one of the file .* '2000-01': set time: interval"):
        times_of({"by": "file"}, steps)
    dates = times_of({"by": "file", "interval": "15 days"}, steps)
    assert dates == ["2000-01-01 00:00:00", "2000-01-16 00:00:00", "2000-02-01 00:00:00"]


def test_an_analysis_that_goes_on_knows_where_a_file_began():
    """The step that told its name is gone, or the name was told to a node that is lost."""
    time, (first, second) = {"by": "file", "interval": "6h"}, steps_of({}, {})
    later = [replace(step, number=step.number + 8) for step in (first, second)]
    dates = ["2000-01-03 00:00:00", "2000-01-03 06:00:00"]
    assert times_of(time, later, base=FILES[0], file_since=0) == dates
    retold = Attribute("bbflow_file", "string", FILES[0]["bbflow_file"], 0)
    assert times_of(time, [replace(later[0], attributes=(retold,)), later[1]]) == dates


class DiedError(Exception):
    """Stands for a signal."""


def test_steps_of_a_file_keep_their_dates_after_a_kill(tmp_path, monkeypatch):
    """The step that has told the file's name is gone then."""
    config = {"stream": "model", "operators": {"x": ["mean", "count"]}, "windows": ["month"], "raw": "none"}
    config |= {"time": {"by": "file", "interval": "1 day"}, "output": str(tmp_path / "out")}
    config |= {"workers": {"processes": 0, "threads": 1, "batch_steps": 1}}
    commit = Consumers.commit

    def killed(self, *told):
        commit(self, *told)
        raise DiedError

    with start_nodes(1, "4MiB") as buffer:
        steps = [[("x", np.full(3, float(step)))] for step in range(6)]
        write_program(tmp_path, [steps], buffer.contact, {"bbflow_file": "out/h0.2000-01-30.nc"})
        with monkeypatch.context() as patch:
            patch.setattr(Consumers, "commit", killed)
            with buffer.analyse(config) as analysis, pytest.raises(DiedError):
                analysis.wait(100)
        with buffer.analyse(config) as analysis:
            assert analysis.wait(100).complete
    with open_results(tmp_path / "out" / "results.zarr") as results:
        assert results.x_month_count.values[:, 0].tolist() == [2, 4]
        assert results.x_month_mean.values[:, 0].tolist() == [0.5, 3.5]


def test_where_a_file_began_must_be_known():
    with pytest.raises(ConfigError, match="step 0 isn't the first one of the file"):
        times_of({"by": "file", "interval": "6h"}, steps_of({}), base=FILES[0])


def test_an_attribute_that_stays_tells_the_time_of_all_steps_until_it_changes():
    steps = steps_of({}, {"date": "2000-01-02"})
    assert times_of({"attribute": "date"}, steps, base={"date": "2000-01-01"}) == [
        "2000-01-01 00:00:00", "2000-01-02 00:00:00",
    ]  # fmt: skip


def test_a_variable_of_several_texts_is_refused_with_the_way_to_count_steps():
    letters = np.frombuffer(b"2000-01-012000-01-02", "u1").reshape(2, 10)
    layout = Layout.of((BlockForm("time", "uint8_t", "GlobalArray", (2, 10), (0, 0), (2, 10), 0, 0, 0, 20),))
    step = Step(0, layout, sources=bytes(8))
    telling = TimeTelling(TimeConfig(), lambda number, block: letters)
    with pytest.raises(ConfigError, match=r"from '2000-01-01' to '2000-01-02'.* count steps \(time: steps"):
        telling.told(News("open", 1, 1, (step,), 0, base={}))


def test_text_that_is_no_date_is_refused_and_says_which():
    with pytest.raises(ConfigError, match="step 0: its time is told by its variable: 'noon' isn't a date"):
        times_of({}, steps_of({}, value="noon", kind="string"))
    with pytest.raises(ConfigError, match=r"'2001-02-29' isn't a date of the calendar 'noleap' .* set time: calendar"):
        times_of({"calendar": "noleap"}, steps_of({}, value="2001-02-29", kind="string"))


@pytest.mark.parametrize(
    ("text", "date"),
    [
        ("2018-06-17_06:30:00", "2018-06-17 06:30:00"),
        ("2018-06-17T06:30:00.25Z", "2018-06-17 06:30:00.250000"),
        ("2018-06-17 06:30+02:00", "2018-06-17 04:30:00"),
        ("20180617T063000", "2018-06-17 06:30:00"),
        ("0001-01-01-43200", "0001-01-01 12:00:00"),
        ("2018-06\0\0\0", "2018-06-01 00:00:00"),
    ],
)
def test_dates_are_read_in_the_forms_that_programs_write(text, date):
    clock = Clock("seconds since 1970-01-01")
    assert str(clock.date(read_date(text).number(clock))) == date


@pytest.mark.parametrize("text", ["", "2018", "T2", "2018-13-01", "2018-06-17T25:00", "12", "2018-06-17 noon"])
def test_what_is_no_date_is_none(text):
    assert read_date(text) is None


def test_the_digits_of_a_number_are_the_date_that_cdo_and_icon_mean():
    clock = Clock("seconds since 1970-01-01")
    for day, year in (("20180617", 2018), ("00010131", 1), ("99991231", 9999)):
        for minute in range(0, 1440, 7):
            date = read_digits(float(day) + minute / 1440).number(clock)
            assert str(clock.date(date)) == f"{year:04d}-{day[4:6]}-{day[6:]} {minute // 60:02d}:{minute % 60:02d}:00"


@pytest.mark.parametrize("value", [np.nan, np.inf, -20180617.0, 0.0, 20181301.0, 20180600.5, 123456789.0, 9.96921e36])
def test_digits_that_are_no_date_are_none(value):
    assert read_digits(value) is None


def test_dates_of_digits_need_double_precision():
    base = {"time/units": "day as %Y%m%d.%f"}
    assert times_of({}, steps_of({}, value=20180617.25), base=base) == ["2018-06-17 06:00:00"]
    with pytest.raises(ConfigError, match=r"step 0: its time is a float in 'day as %Y%m%d\.%f', whose digits are off"):
        times_of({}, steps_of({}, value=20180616.0, kind="float"), base=base)
    with pytest.raises(ConfigError, match="step 0: '20180230' isn't a date of the calendar 'standard'"):
        times_of({}, steps_of({}, value=20180230.0), base=base)


def test_the_units_are_those_that_rank_0_tells_whichever_node_tells_the_time():
    told, parts = {"time/units": "day as %Y%m%d.%f"}, {}
    config = parse_config({"stream": "s", "operators": {"t": ["mean"]}, "windows": ["run"]})
    for node, base in (("other", {}), ("of rank 0", told)):
        telling = TimeTelling(config.time, lambda number, block: None)
        (parts[node],) = telling.told(News("open", 2, 1, steps_of({}, value=20180617.25), 0, base=base)).steps
    clock = make_clock(config, StreamAttributes(told), told_by(parts, config.time.variable))
    assert str(clock.date(StepTimes(config.time, clock).of(0, parts))) == "2018-06-17 06:00:00"


def test_a_file_with_two_dates_in_its_name_tells_none():
    assert date_in("tas_20000101-20001231.nc") is None
    assert date_in("2000-01/wrfout_d01_2018-06-17_00:00:00").text == "2018-06-17_00:00:00"


@pytest.mark.parametrize(
    ("time", "says"),
    [
        ({"start": "2000-01-01"}, "time: start needs an interval too"),
        ({"start": "2000-01-01", "interval": 6}, "time: interval: 6 has no unit: write it as 6h"),
        ({"start": "soon", "interval": "6h"}, "time: start: 'soon' isn't a date"),
        ({"start": "2001-02-29", "interval": "6h", "calendar": "noleap"}, "isn't a date of the calendar 'noleap'"),
        ({"start": "2000-01-01", "interval": "6h", "variable": "t"}, "variable and start would both tell the time"),
        ({"by": "file", "attribute": "date"}, "attribute and by: file would both tell the time"),
        ({"interval": "6h"}, "time: interval: it must be a number in the stream's units, or set time: units too"),
    ],
)
def test_a_configuration_that_tells_no_time_or_two_is_refused(time, says):
    with pytest.raises(ConfigError, match=says):
        parse_config({"stream": "s", "operators": {"t": ["mean"]}, "time": time})


@pytest.mark.parametrize("time", [*CASES.values(), {"by": "file", "interval": "6h"}, "steps"])
def test_what_tells_the_time_can_be_handed_on_in_a_line(time):
    parsed = parse_config({"stream": "s", "operators": {"t": ["mean"]}, "windows": ["run"], "time": time}).time
    assert read_time(written_time(parsed)) == parsed


def test_a_single_word_is_the_variable():
    assert read_time("Times") == TimeConfig(variable="Times")
