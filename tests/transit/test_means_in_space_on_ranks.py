"""Ranks that fold what is remapped or averaged in space: of the sums on their grid, as nodes make it of the steps."""

import numpy as np
import pytest
from streams import analyse, store
from test_folding_on_ranks import landed_bytes
from test_remap_of_streams import ATTRIBUTES, LAT, LATS, LEVELS, LON, LONS, TARGET, basins_file, matrix, weights_file

from bbflow.configuring.config import parse_config
from bbflow.errors import ConfigError, StreamError
from bbflow.operators.library import FIELDS
from bbflow.operators.space.parse_spaces import parse_space
from bbflow.operators.space.regridding import place_space
from bbflow.operators.windows.calendars import Clock
from bbflow.stream.folded import MEAN, state_places
from bbflow.stream.records import BlockForm, Layout, Step
from bbflow.transit.folding.bookkeeping import Folding
from bbflow.view.stream import News, StreamView

HOURS = np.arange(144.0)
MEANS = ["mean", "sum", "count"]
ROOM = "128KiB"
"""Of each node: the program waits until ranks know what they fold."""
STEADY = {"lat": LAT, "lon": LON}


def fields(dtype="f4"):
    """Return fields of which the same points are missing in all steps."""
    random = np.random.default_rng(8)
    tas = random.normal(290, 10, (len(HOURS), LATS, LONS)).astype(dtype)
    tas[:, 1:4, 2:5] = -999 if np.dtype(dtype).kind == "i" else np.nan
    return {"tas": tas}


def spaces(folder):
    remap = {"remapcon": {"weights": weights_file(folder / "weights.nc"), "area_min": 0.4}}
    return {
        "coarse": remap,
        "whole": [remap, "fldmean"],
        "basins": {"regions": basins_file(folder / "basins.nc")},
        "totals": {"regions": {"file": str(folder / "basins.nc"), "how": "sum"}},
        "zonal": "zonmean",
        "global": "fldmean",
        "boxes": "gridboxsum,2,2",
    }


def config(folder, on, name="tas", **more):
    operators = {key: {"of": name, "space": item, "operators": MEANS} for key, item in spaces(folder).items()}
    own = {f"{name}": {"operators": ["mean", "std", "max"]}}
    return {
        "windows": ["day", {"running": {"days": 2}}, "run"],
        "workers": {"processes": 0, "threads": 3},
        "operators": operators | own | more,
        "fold": {"on": on} | ({} if on == "node" else {"land_states_every": 50}),
    }


def both(folder, values, *, attributes=ATTRIBUTES, ranks=2, nodes=2, axis=0, moves=(), **more):
    """Fold a stream on the ranks and on the nodes; gives the former's results, which are the latter's."""
    found = []
    for on in ("rank", "node"):
        store(folder / on, values | STEADY, HOURS, attributes, steady=[*STEADY], axis=axis, moves=moves)
        content = config(folder, on, **more)
        found.append(analyse(folder / on, content, ranks=ranks, nodes=nodes, capacity=ROOM))
    ranked, noded = found
    assert set(ranked) == set(noded)
    for key in (key for key in noded.data_vars if noded[key].dtype.kind in "fiu"):
        np.testing.assert_allclose(ranked[key].values, noded[key].values, rtol=1e-12, err_msg=key)
    assert landed_bytes(folder / "rank").count(0) > len(HOURS) / 2
    return ranked


@pytest.mark.parametrize(("ranks", "axis", "moves"), [(1, 0, ()), (2, 0, ()), (3, 1, ()), (2, 0, (60, 100))])
def test_results_are_those_of_a_fold_on_the_nodes_and_of_the_sparse_product(tmp_path, ranks, axis, moves):
    values = fields()
    results = both(tmp_path, values, ranks=ranks, nodes=min(ranks, 2), axis=axis, moves=moves)
    tas = values["tas"].astype("f8").reshape(len(HOURS), -1)
    weights = matrix() * ~np.isnan(tas[0])
    product = np.where(np.isnan(tas), 0, tas).mean(axis=0) @ weights.T
    covered = weights.sum(axis=1)
    with np.errstate(invalid="ignore"):
        wanted = np.where(covered >= 0.4, product / covered, np.nan).reshape(TARGET)
    assert 0 < np.isnan(wanted).sum() < wanted.size
    np.testing.assert_allclose(results["coarse_run_mean"][0], wanted, rtol=1e-12)
    np.testing.assert_allclose(results["coarse_run_sum"][0], wanted * len(HOURS), rtol=1e-12)
    np.testing.assert_array_equal(results["coarse_run_count"][0], np.where(np.isnan(wanted), 0, len(HOURS)))


def test_integers_with_a_fill_value(tmp_path):
    both(tmp_path, fields("i2"), attributes=ATTRIBUTES | {"tas/_FillValue": -999})


def test_levels_are_remapped_each_by_the_ranks_that_have_them(tmp_path):
    ta = np.random.default_rng(4).normal(270, 5, (len(HOURS), LEVELS, LATS, LONS))
    steady = {"plev": np.array([85000.0, 50000.0])}
    attributes = ATTRIBUTES | {"levels/_ARRAY_DIMENSIONS": ["plev", "lat", "lon"]}
    upper = {"of": "ta", "space": [{"levels": [50000]}, {"remapcon": "r4x3"}], "operators": ["mean"]}
    found = {}
    for on in ("rank", "node"):
        store(tmp_path / on, {"ta": ta} | STEADY | steady, HOURS, attributes, steady=[*STEADY, *steady])
        content = {
            "windows": ["day"],
            "operators": {"ta": {"space": {"remapcon": "r4x3"}, "operators": MEANS}, "upper": upper},
            "fold": {"on": on},
        }
        found[on] = analyse(tmp_path / on, content, ranks=2, capacity=ROOM)
    for key in ("ta_day_mean", "ta_day_sum", "ta_day_count", "upper_day_mean"):
        np.testing.assert_allclose(found["rank"][key], found["node"][key], rtol=1e-12, err_msg=key)
    assert landed_bytes(tmp_path / "rank").count(0) > len(HOURS) / 2


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("odd", ["missing", "infinite"])
def test_values_that_come_and_go_are_refused(tmp_path, ranks, odd):
    """The product of a mean would be another than the mean of the products."""
    values = fields()
    values["tas"][100, 4, 1] = np.nan if odd == "missing" else np.inf
    if odd == "infinite":
        values["tas"][104, 4, 1] = -np.inf
    store(tmp_path, values | STEADY, HOURS, ATTRIBUTES, steady=[*STEADY])
    with pytest.raises(StreamError, match=r"ranks have folded tas over .* again with fold: on: node"):
        analyse(tmp_path, config(tmp_path, "rank"), ranks=ranks, capacity=ROOM)


def test_values_that_have_come_and_gone_before_ranks_fold_are_joined_step_by_step(tmp_path):
    values = fields()
    values["tas"][0, 4, 1] = np.nan
    both(tmp_path, values)


@pytest.mark.parametrize(
    ("space", "operators", "why"),
    [
        ({"remapcon": "r4x3"}, ["mean", "max"], "mean, sum and count alone of what is remapped"),
        ("fldmean", ["std"], "mean, sum and count alone of what is remapped"),
        ({"remapbic": "r4x3"}, ["mean"], "without space"),
        ("fldmax", ["mean"], "without space"),
        ("sellonlatbox,0,90,0,90", ["mean"], "without space"),
    ],
)
def test_what_needs_each_step_in_space_is_refused(space, operators, why):
    content = {"stream": "s", "operators": {"t": {"space": space, "operators": operators}}, "fold": {"on": "rank"}}
    with pytest.raises(ConfigError, match=why):
        parse_config(content)


def test_a_batch_has_the_steps_that_landed_together_and_no_others():
    """A state that is ahead of the batch, as one of a lost node's, can't leave the steps before it out of a mean."""
    content = {"stream": "s", "operators": {"t": {"space": {"mean": "lat"}, "operators": ["mean"]}}}
    folding = Folding(parse_config(content | {"fold": {"on": "rank"}}), {"a": (-1, b"")})
    folding.place(
        {"t": place_space(parse_space({"mean": "lat"}), ("lat",), (4,), {"lat": np.arange(4.0)}, {}.__getitem__)},
        held={},
    )
    state = sum(1 << FIELDS.index(name) for name in MEAN)
    raw, waits, folded = (
        Layout.of((BlockForm("time", "double", "GlobalValue", (), (), (), 0), field))
        for field in (
            BlockForm("t", "double", "GlobalArray", (4,), (0,), (4,), 0, bytes=32),
            BlockForm("t", "double", "GlobalArray", (4,), (0,), (4,), 0, folded=-1),
            BlockForm(
                "t", "double", "GlobalArray", (4,), (0,), (4,), 0, bytes=state_places(state, 8, 4)[1], folded=state
            ),
        )
    )
    layouts = [raw, raw, waits, waits, folded, waits, folded, folded, raw, raw]
    steps = tuple(Step(number, layout, values=(float(number),)) for number, layout in enumerate(layouts))
    view, batches = StreamView(["a"], {"a": -1}), []
    view.update("a", News("open", 1, 1, steps, len(steps) - 1))
    while (batch := folding.next_batch(view, Clock.of("days since 2001-01-01", "standard"))) is not None:
        batches.append(batch.steps)
        folding.take(batch, [])
    assert batches == [(0, 1), (2, 3, 4), (5, 6), (7,), (8, 9)]
