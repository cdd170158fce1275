import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest
import synthetic_run as synthetic
import xarray as xr

from bbflow.errors import ConfigError
from bbflow.host.belongings import MARK
from bbflow.report.writing import write_report

PNG = b"\x89PNG\r\n\x1a\n"


class References(HTMLParser):
    """Collects what a page would load, and checks that its elements nest."""

    def __init__(self):
        super().__init__()
        self.urls, self.tags, self.open = [], set(), []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.urls += [value for name, value in attrs if name in ("src", "href", "srcset", "action")]
        if tag not in ("meta", "img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def text_of(output):
    return (output / "report.html").read_text()


def small(months=2, operators=("mean",), calendar="noleap", variables=("tas", "pr")):
    """Few variables: drawing is what takes the time."""
    return synthetic.make_results(months, calendar, (6, 12), operators, variables)


def test_the_report_opens_without_a_network(run):
    page = References()
    page.feed(text_of(run))
    assert page.urls
    assert all(url.startswith("data:image/png;base64,") for url in page.urls)
    assert not page.tags & {"script", "link", "iframe"}
    assert not re.search(r"url\(|@import|https?:", text_of(run))
    assert page.open == []


def test_every_picture_is_a_file_too(run):
    names = {path.name for path in (run / "figures").iterdir()}
    maps = {f"maps_{variable}.png" for variable in ("tas", "pr", "psl", "ta")}
    assert names == maps | {"series.png", "timeline.png"}
    assert all((run / "figures" / name).read_bytes().startswith(PNG) for name in names)
    assert text_of(run).count("<img") == len(names)


def test_the_summary_gives_the_runs_figures(run):
    text = text_of(run)
    for figure in ("Stream climate", "Complete", "384 MiB", "96 MiB", "3 MiB", "74.2 %", "0.2 s"):
        assert figure in text


def test_captions_say_level_windows_and_what_is_the_same_everywhere(run):
    text = text_of(run)
    assert "ta at 500 hPa" in text
    assert "the last month (2001-02), right the whole run (2000-01-01 to 2001-03-01)" in text
    assert "count = 124 (2001-02), 1488 (whole run)" in text


def test_filter_tables_are_counted(run):
    assert re.search(r"tas_hot</td><td class=\"number\">1,234</td><td>tas &gt; 305 K", text_of(run))


def test_no_temporary_file_stays(run):
    assert [path.name for path in run.rglob(".*") if path.is_file()] == [MARK]


def test_an_empty_output_gives_a_report_that_says_so(tmp_path):
    text = write_report(tmp_path).read_text()
    assert "There is no results.zarr" in text
    assert "There is no events.jsonl" in text
    assert "<img" not in text


def test_a_missing_output_is_an_error_that_names_it(tmp_path):
    with pytest.raises(ConfigError, match=r"no directory .*nowhere"):
        write_report(tmp_path / "nowhere")


def test_results_without_events_are_shown(tmp_path):
    synthetic.write_store(small(), tmp_path / "results.zarr")
    text = write_report(tmp_path).read_text()
    assert "There is no events.jsonl" in text
    assert "maps_tas.png" in {path.name for path in (tmp_path / "figures").iterdir()}


def test_a_torn_last_event_is_left_out_and_told(tmp_path):
    synthetic.write_events(tmp_path / "events.jsonl", steps=16, torn=True)
    text = write_report(tmp_path).read_text()
    assert "1 line of events.jsonl can&#39;t be read" in text
    assert "has no end" in text
    assert (tmp_path / "figures" / "timeline.png").exists()


@pytest.mark.odd_stores
def test_an_unreadable_store_is_told(tmp_path):
    (tmp_path / "results.zarr").mkdir()
    (tmp_path / "results.zarr" / "zarr.json").write_text("{")
    assert "results.zarr can&#39;t be read" in write_report(tmp_path).read_text()


def test_one_broken_chunk_costs_one_statistic(tmp_path):
    store = tmp_path / "results.zarr"
    synthetic.write_store(small(), store)
    for chunk in (store / "tas_run_mean" / "c").rglob("*"):
        if chunk.is_file():
            chunk.write_bytes(b"torn")
    text = write_report(tmp_path).read_text()
    assert "tas_run_mean can&#39;t be read and is left out" in text
    assert "maps_pr.png" in {path.name for path in (tmp_path / "figures").iterdir()}


def test_only_the_first_of_many_variables_are_drawn(tmp_path):
    synthetic.write_store(small(variables=("tas", "pr", "psl", "ta")), tmp_path / "results.zarr")
    assert "Drawn are the first 2 of 4 variables" in write_report(tmp_path, most_drawn=4).read_text()
    assert len(list((tmp_path / "figures").glob("maps_*"))) == 2


def test_an_incomplete_run_is_told_from_a_complete_one(tmp_path):
    end = {"event": "end", "status": "incomplete", "waited_s": 0, "discarded": 3, "steps": 9, "ended_s": 5.0}
    (tmp_path / "events.jsonl").write_text(json.dumps(end) + "\n")
    text = write_report(tmp_path).read_text()
    assert "Incomplete: the simulation ended early" in text
    assert "3 discarded" in text


def test_names_from_the_data_are_escaped(tmp_path):
    results = small().assign_attrs(bbflow_stream="<script>alert(1)</script>")
    results["pr_run_mean"].attrs["units"] = "$not_{math$"
    results["tas_run_mean"].attrs["long_name"] = "<b>warm & $wet_{x}$ %</b>"
    synthetic.write_store(results, tmp_path / "results.zarr")
    text = write_report(tmp_path).read_text()
    assert "<script>" not in text
    assert "&lt;b&gt;warm &amp; $wet" in text


@pytest.mark.parametrize("calendar", ["standard", "360_day"])
def test_months_are_named_in_any_calendar(tmp_path, calendar):
    synthetic.write_store(small(calendar=calendar, variables=("tas",)), tmp_path / "results.zarr")
    assert "the last month (2000-02), right the whole run (2000-01-01 to 2000-03-01)" in (
        write_report(tmp_path).read_text()
    )


@pytest.mark.odd_stores
def test_fields_without_coordinates_or_without_a_place_are_drawn_as_far_as_they_can(tmp_path):
    def array(dims, shape, variable, window="month", **attrs):
        values = np.random.default_rng(1).normal(size=shape)
        names = {"bbflow_variable": variable, "bbflow_window": window, "bbflow_operator": "mean"}
        return (dims, values, names | attrs)

    results = xr.Dataset(
        {
            "a_month_mean": array(("time_month", "y", "x"), (2, 3, 4), "a"),
            "b_month_mean": array(("time_month", "cell"), (2, 50), "b", units="m s-1"),
            "c_month_mean": array(("time_month",), (2,), "c"),
            "d_run_mean": array(("time_run", "m", "k", "y", "x"), (1, 2, 3, 3, 4), "d", "run"),
            "e_run_mean": array(("time_run", "one", "x"), (1, 1, 4), "e", "run"),
            "f_none_mean": array(("time_none", "x"), (0, 4), "f", "none"),
        }
    )
    results["a_month_mean"][0, 1, 1] = results["a_month_mean"][1, 2, 2] = np.nan
    results.to_zarr(tmp_path / "results.zarr", zarr_format=3, consolidated=False)
    text = write_report(tmp_path).read_text()
    pictures = {path.name for path in (tmp_path / "figures").iterdir()}
    assert pictures == {"maps_a.png", "maps_b.png", "maps_d.png", "maps_e.png", "series.png"}
    assert "Grey cells have no value" in text
    assert "d at m 1, k 1" in text
    assert "f_none_mean can&#39;t be read and is left out: it has no window yet" in text


def test_all_missing_and_constant_fields_do_not_stop_the_report(tmp_path):
    results = small(operators=("mean", "std"))
    results["tas_month_mean"][:] = np.nan
    results["pr_run_mean"][:] = 0.0
    synthetic.write_store(results, tmp_path / "results.zarr")
    text = write_report(tmp_path).read_text()
    assert "mean = no value (2000-02)" in text
    assert "mean = 0 kg m⁻² s⁻¹ (whole run)" in text


def test_six_operators_take_two_pictures(tmp_path):
    results = small(operators=("mean", "std", "min", "max", "sum"), variables=("tas",))
    synthetic.write_store(results, tmp_path / "results.zarr")
    write_report(tmp_path)
    pictures = {path.name for path in (tmp_path / "figures").iterdir()}
    assert pictures == {"maps_tas.png", "maps_tas_2.png", "series.png"}
