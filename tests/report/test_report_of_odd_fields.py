"""Whatever results are, there is a report of them; what can't be drawn is left out with a line."""

import numpy as np
import pytest
import synthetic_run

from bbflow.report.page import render_page
from bbflow.report.picture import Picture, attempt
from bbflow.report.writing import page_of


def odd(tmp_path, change, **kept):
    """Write a run whose results were changed; gives its report's page, which can be written, too."""
    dataset = synthetic_run.make_results(3, "noleap", (4, 6), ("mean", "std"), **kept)
    dataset = change(dataset.load().copy(deep=True))
    tmp_path.mkdir(parents=True, exist_ok=True)
    synthetic_run.write_store(dataset, tmp_path / "results.zarr")
    synthetic_run.write_events(tmp_path / "events.jsonl", 12)
    page = page_of(tmp_path)
    assert render_page(page)
    return page


@pytest.mark.slow
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 9.969209968386869e36])
def test_a_map_on_a_coordinate_that_is_none_is_left_out(tmp_path, bad):
    def change(dataset):
        lat = dataset.lat.values.copy()
        lat[2] = bad
        return dataset.assign_coords(lat=("lat", lat, dataset.lat.attrs))

    page = odd(tmp_path, change)
    assert page.maps == []
    said = [note for note in page.notes if "the coordinate lat has values that are" in note]
    assert said
    assert all(note.startswith("The map of ") and note.endswith(".") for note in said)
    assert [picture.name for picture in page.series] == ["series"]


def everywhere(value):
    def change(dataset):
        for name in dataset.data_vars:
            if name.startswith("tas_"):
                dataset[name].values[...] = value
        return dataset

    return change


@pytest.mark.slow
@pytest.mark.parametrize("value", [np.nan, np.inf, 0.0, 1.7e308, -1.7e308])
def test_a_field_of_one_value_costs_no_other_picture(tmp_path, value):
    page = odd(tmp_path, everywhere(value))
    assert {"maps_pr", "maps_psl"} <= {picture.name for picture in page.maps}


@pytest.mark.slow
def test_huge_values_of_both_signs_leave_their_pictures_out(tmp_path):
    def change(dataset):
        for name in dataset.data_vars:
            if name.startswith("tas_"):
                dataset[name].values[...] = (
                    np.where(np.arange(dataset[name].size).reshape(dataset[name].shape) % 2, 1, -1) * 1.7e308
                )
        return dataset

    page = odd(tmp_path, change)
    assert {"maps_pr", "maps_psl"} <= {picture.name for picture in page.maps}


@pytest.mark.parametrize("spread", [0.0, 1e-300])
def test_a_coordinate_that_is_constant_is_no_reason_to_fail(tmp_path, spread):
    page = odd(tmp_path, lambda dataset: dataset.assign_coords(
        lon=("lon", 5.0 + spread * np.arange(6), dataset.lon.attrs), lat=("lat", np.full(4, 5.0), dataset.lat.attrs)
    ), variables=("tas",))  # fmt: skip
    assert page.series


def test_whatever_drawing_meets_costs_one_picture_and_is_said():
    said = []

    def broken(word):
        raise MemoryError(word)

    assert attempt(said, "the map of x", broken, "no\nroom.") == []
    assert said == ["The map of x can't be drawn and is left out: no room."]
    picture = Picture("a", "A", "", b"")
    assert attempt(said, "the map of x", lambda: picture) == [picture]
    assert attempt(said, "the map of x", lambda: None) == []
    assert len(said) == 1
