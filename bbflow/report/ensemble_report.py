"""The report of an ensemble: plumes, scores, maps, and how its members are."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from glob import escape
from pathlib import Path

import numpy as np
import xarray as xr

from bbflow.ensemble.places import STORE
from bbflow.ensemble.status import EnsembleStatus, read_status
from bbflow.host.atomic import write_whole
from bbflow.host.belongings import claim
from bbflow.report import REPORT_FILES
from bbflow.report.canvas import BLUE, GREY, ORANGE, Array, figure, to_png
from bbflow.report.drawn_fields import Statistic
from bbflow.report.maps import draw_maps
from bbflow.report.page import Figure, fill
from bbflow.report.picture import Picture, attempt, describe_failure
from bbflow.report.results_reader import read_results, statistic_of
from bbflow.zarr_store.growing import shown_shapes


def write_ensemble_report(output: Path) -> Path:
    """Write the report of an ensemble, also of one whose members run.

    Parameters
    ----------
    output
        The ensemble's directory.

    Returns
    -------
    Path
        Of ``report.html``.

    Raises
    ------
    ConfigError
        If there is no ensemble in it.
    """
    status = read_status(output)
    results = read_results(output / STORE)
    undrawn = list[str]()
    scores = _scores(output / STORE)
    parts: list[tuple[str, Sequence[Picture]]] = [
        ("Plumes", [one for own in _plumes(results.statistics) for one in attempt(undrawn, "a plume", _plume, *own)]),
        ("Ranks of the reference", attempt(undrawn, "the rank histogram", _ranks, scores)),
        ("Spread and error", attempt(undrawn, "spread and error", _spread_and_error, scores)),
        ("Maps", draw_maps([*results.statistics, *spread_skill_maps(output / STORE, undrawn)], undrawn)),
    ]
    notes = (*(note.replace("results.zarr", STORE) for note in results.notes), *undrawn)
    text = fill(
        Path(__file__).with_name("ensemble.html"), status=status, figures=_figures(status), notes=notes, parts=parts
    )
    pictures = [picture for _, own in parts for picture in own]
    claim(output, *REPORT_FILES, *(escape(f"figures/{picture.name}.png") for picture in pictures))
    (output / "figures").mkdir(exist_ok=True)
    for picture in pictures:
        write_whole(output / "figures" / f"{picture.name}.png", picture.png)
    write_whole(output / "report.html", text.encode())
    return output / "report.html"


def _figures(status: EnsembleStatus) -> list[Figure]:
    counted = Counter(member.standing for member in status.members)
    how = ", ".join(f"{number} {standing}" for standing, number in counted.items())
    shown = [Figure(f"Complete times, {window}", f"{number:,}") for window, number in status.shown.items()]
    times = sum(member.times for member in status.members)
    return [Figure("Members", f"{len(status.members):,}", how), Figure("Their times folded", f"{times:,}"), *shown]


def _scores(store: Path) -> dict[str, Array]:
    """Return the scores that pictures are made of, by name; those of forecasts as means over the starts."""
    wanted = ("_rank_histogram", "_mse", "_variance")
    names = _names_of_scores(store)
    if not any(name.endswith(wanted) for name in names):
        return {}
    with xr.open_zarr(store, group="scores", decode_times=False, chunks=None) as found:
        kept = (found[name] for name in sorted(names) if name.endswith(wanted))
        return {str(own.name): np.asarray(own.mean([dim for dim in own.dims if dim == "start"]).values) for own in kept}


def _names_of_scores(store: Path) -> list[str]:
    """Return the scores of all points, without those of regions."""
    paths = [name.partition("/") for name in shown_shapes(store)]
    return [name for group, _, name in paths if group == "scores" and name and "/" not in name]


def spread_skill_maps(store: Path, undrawn: list[str]) -> Iterator[Statistic]:
    """Iterate over the maps of spread over error, of means over all times, where there are maps of both.

    Parameters
    ----------
    store
        ``ensemble.zarr``.
    undrawn
        Gets a sentence for each that can't be had.
    """
    for name in _names_of_scores(store):
        if name.endswith("_mse_map"):
            own = name.removesuffix("_mse_map")
            try:
                yield _spread_skill_map(store, own)
            except Exception as error:  # as with pictures: one that can't be had costs itself alone
                undrawn.append(f"The map of spread over error of {own} can't be drawn: {describe_failure(error)}.")


def _spread_skill_map(store: Path, own: str) -> Statistic:
    variable, _, window = own.rpartition("_")
    with (
        xr.open_zarr(store, decode_times=False, chunks=None) as root,
        xr.open_zarr(store, group="scores", decode_times=False, chunks=None) as scores,
    ):
        members = int(root[f"members_{window}"].max())
        mse, spread = scores[f"{own}_mse_map"], scores[f"{own}_variance_map"]
        past = [dim for dim in mse.dims if dim in root[f"members_{window}"].dims]
        sums = [np.zeros([mse.sizes[dim] for dim in mse.dims if dim not in past]) for _ in range(2)]
        for at in np.ndindex(*(mse.sizes[dim] for dim in past)):  # one field at a time
            fields = [np.asarray(item[at].values, "f8") for item in (spread, mse)]
            there = np.isfinite(fields[0]) & np.isfinite(fields[1])
            for total, field in zip(sums, fields, strict=True):
                total += np.where(there, field, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.sqrt((members + 1) / members * sums[0] / sums[1])
        told = {"bbflow_variable": variable, "bbflow_window": "run", "bbflow_operator": "spread_skill", "units": "1"}
        dims = ("times", *(dim for dim in mse.dims if dim not in past))
        whole = root.assign({own: (dims, np.where(np.isfinite(ratio), ratio, np.nan)[np.newaxis], told)})
        return statistic_of(whole, own)


def _plumes(statistics: Sequence[Statistic]) -> Iterator[tuple[str, Mapping[str, Statistic]]]:
    """Iterate over the variables and windows that have a mean and a spread."""
    for variable, window in dict.fromkeys((item.variable, item.window) for item in statistics):
        own = {item.operator: item for item in statistics if (item.variable, item.window) == (variable, window)}
        if {"mean", "std"} <= own.keys() and len(own["mean"].labels) > 1:
            yield f"{variable}_{window}", own


def _plume(name: str, own: Mapping[str, Statistic]) -> Picture:
    mean, spread = own["mean"].means, own["std"].means
    along = np.arange(len(mean))
    with figure(2.2) as drawing:
        axes = drawing.subplots()
        for low, high in (("min", "max"), ("p10", "p90"), ("p5", "p95")):
            if {low, high} <= own.keys():
                between = own[low].means, own[high].means
                axes.fill_between(along, *between, color=GREY, alpha=0.25, label=f"{low} to {high}")
        axes.fill_between(along, mean - spread, mean + spread, color=BLUE, alpha=0.3, label="mean ± standard deviation")
        axes.plot(along, mean, color=BLUE, label="mean")
        stride = -(-len(along) // 5)
        axes.set_xticks(along[::stride], list(own["mean"].labels)[::stride])
        axes.set_ylabel(own["mean"].units)
        axes.legend(fontsize=6)
        png = to_png(drawing)
    caption = "Means over all cells of each statistic across members; the spread is that of members in each cell."
    return Picture(f"plume_{name}", f"{own['mean'].variable}, each {own['mean'].window}", caption, png)


def _ranks(scores: Mapping[str, Array]) -> Picture | None:
    own = {name.removesuffix("_rank_histogram"): v for name, v in scores.items() if name.endswith("_rank_histogram")}
    if not own:
        return None
    with figure(2.0) as drawing:
        grid = drawing.subplots(1, len(own), squeeze=False)[0]
        for axes, (name, values) in zip(grid, own.items(), strict=True):
            shares = np.nanmean(values, axis=0)
            axes.bar(np.arange(len(shares)), shares, width=0.9, color=BLUE)
            axes.axhline(1 / len(shares), color=ORANGE, linewidth=0.8)
            axes.set_title(name)
            axes.set_xlabel("members below the reference")
        png = to_png(drawing)
    caption = "Share of points, mean over all times; the line is where the reference is like any member."
    return Picture("ranks", "Rank histogram", caption, png)


def _spread_and_error(scores: Mapping[str, Array]) -> Picture | None:
    own = [name.removesuffix("_mse") for name in scores if name.endswith("_mse")]
    if not own:
        return None
    with figure(2.0) as drawing:
        grid = drawing.subplots(1, len(own), squeeze=False)[0]
        for axes, name in zip(grid, own, strict=True):
            axes.plot(np.sqrt(scores[f"{name}_mse"]), color=ORANGE, label="RMSE of the mean")
            axes.plot(np.sqrt(scores[f"{name}_variance"]), color=BLUE, label="spread of members")
            axes.set_title(name)
            axes.set_xlabel("time")
            axes.legend(fontsize=6)
        png = to_png(drawing)
    return Picture("spread_error", "Spread and error", "Of a reliable ensemble both are nearly the same.", png)
