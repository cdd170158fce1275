"""A run's output directory, made up: what the publisher and the pipeline would have written."""

import json
import warnings
from pathlib import Path

import cftime
import numpy as np
import xarray as xr
import zarr

_OPERATORS = ("mean", "std", "min", "max", "count")
_UNITS = {"tas": "K", "pr": "kg m-2 s-1", "psl": "Pa", "ta": "K"}
_NAMES = {
    "tas": "near-surface air temperature",
    "pr": "precipitation flux",
    "psl": "air pressure at mean sea level",
    "ta": "air temperature",
}


def write_run(output: Path, months=12, calendar="noleap", steps=96, shape=(48, 96), operators=_OPERATORS):
    """Write results.zarr and events.jsonl, and return the Dataset that was written."""
    output.mkdir(parents=True, exist_ok=True)
    dataset = make_results(months, calendar, shape, operators)
    write_store(dataset, output / "results.zarr")
    write_events(output / "events.jsonl", steps)
    return dataset


def write_store(dataset, path):
    dataset.to_zarr(path, zarr_format=3, consolidated=False)
    table = zarr.open_group(path, mode="a").create_group("tas_hot", attributes={"long_name": "tas > 305 K"})
    for name in ("value", "step", "time", "lat", "lon"):
        table.create_array(name, data=np.arange(1234.0), dimension_names=("point",))
    consolidate(path)


def consolidate(path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        zarr.consolidate_metadata(path)


def make_results(months, calendar, shape, operators=_OPERATORS, variables=tuple(_UNITS)):
    lat = (np.arange(shape[0]) + 0.5) * 180 / shape[0] - 90
    lon = np.arange(shape[1]) * 360 / shape[1]
    plev = np.array([85000.0, 50000.0, 25000.0])
    dataset = xr.Dataset(
        coords={
            "lat": ("lat", lat, {"units": "degrees_north"}),
            "lon": ("lon", lon, {"units": "degrees_east"}),
            "plev": ("plev", plev, {"units": "Pa", "standard_name": "air_pressure", "positive": "down"}),
        },
        attrs={"bbflow_status": "complete", "bbflow_stream": "climate"},
    )
    edges = [cftime.datetime(2000 + m // 12, m % 12 + 1, 1, calendar=calendar) for m in range(months + 1)]
    units = "days since 2000-01-01"
    numbers = cftime.date2num(edges, units, calendar=calendar).astype("f8")
    for window, bounds in (
        ("month", np.stack([numbers[:-1], numbers[1:]], axis=1)),
        ("run", np.array([[numbers[0], numbers[-1]]])),
    ):
        dim = f"time_{window}"
        attrs = {"units": units, "calendar": calendar, "bounds": f"{dim}_bnds"}
        dataset = dataset.assign_coords({dim: (dim, bounds.mean(axis=1), attrs)})
        dataset[f"{dim}_bnds"] = ((dim, "bnds"), bounds)
        for variable in variables:
            for operator in operators:
                dataset[f"{variable}_{window}_{operator}"] = _statistic(
                    dataset, variable, window, operator, len(bounds)
                )
    dataset["steps_month"] = ("time_month", np.full(months, 124))
    return dataset


def _statistic(dataset, variable, window, operator, windows):
    phase = np.arange(windows) if window == "month" else np.array([6.0])
    lat, lon = dataset["lat"].values, dataset["lon"].values
    season = np.cos(2 * np.pi * (phase - 6) / 12)[:, None, None]
    y, x = np.deg2rad(lat)[None, :, None], np.deg2rad(lon)[None, None, :]
    wave = np.sin(3 * x + 2 * y) * np.cos(y) ** 2
    field = {
        "tas": 288 + 30 * (np.cos(2 * y) - 0.4) + 12 * season * (np.sin(y) + 0.1) + 3 * wave,
        "ta": 255 + 22 * (np.cos(2 * y) - 0.4) + 8 * season * (np.sin(y) + 0.1) + 3 * wave,
        "pr": (2 + 6 * np.exp(-((y - 0.12 * season) ** 2) / 0.03) + 1.5 * np.cos(4 * y) + wave) / 86400,
        "psl": 101325 + 900 * np.cos(4 * y) + 600 * wave + 200 * season * (np.sin(y) + 0.2),
    }[variable]
    spread = {"tas": 4.0, "ta": 3.0, "pr": 1.5e-5, "psl": 500.0}[variable] * (0.3 + np.sin(y) ** 2 + 0 * x)
    values = {
        "mean": field,
        "std": np.broadcast_to(spread * (2 if window == "run" else 1), field.shape),
        "min": field - 2.5 * spread,
        "max": field + 2.5 * spread,
        "sum": field * 124,
        "count": np.full(field.shape, 124 * (1 if window == "month" else 12)),
    }[operator]
    dims = (f"time_{window}", "lat", "lon")
    if variable == "ta":
        values = (
            np.stack([values + 20, values, values - 30], axis=1)
            if operator != "count"
            else (np.stack([values] * 3, axis=1))
        )
        dims = (dims[0], "plev", *dims[1:])
    attrs = {
        "units": "1" if operator == "count" else _UNITS[variable],
        "long_name": _NAMES[variable],
        "cell_methods": f"{dims[0]}: {operator}",
        "bbflow_variable": variable,
        "bbflow_window": window,
        "bbflow_operator": operator,
    }
    return xr.DataArray(values, dims=dims, attrs=attrs)


def write_events(path, steps, nodes=("bb0", "bb1"), batch=8, start_s=1.7e9, torn=False):
    size = 4 << 20
    lines = []
    clock = start_s
    for step in range(steps):
        wait = 0.05 if step % 20 == 19 else 0.0
        lines.append(
            {
                "event": "landed",
                "step": step,
                "began_s": clock,
                "committed_s": clock + 0.02 + wait,
                "bytes": size,
            }
        )
        clock += 0.1 + wait
        if step % batch == batch - 1:
            span = {"first_step": step - batch + 1, "last_step": step}
            for number, node in enumerate(nodes):
                began = clock + 0.05 + 0.03 * number
                common = span | {"node": node, "bytes": size * batch // len(nodes)}
                lines.append({"event": "fold", "started_s": began, "ended_s": began + 0.3, **common})
                common["bytes"] //= 4
                lines.append({"event": "drain", "started_s": began + 0.3, "ended_s": began + 1.0, **common})
    for month in range(3):
        at = start_s + (clock - start_s) * (month + 1) / 3
        times = {"started_s": at, "ended_s": at + 0.15}
        lines.append(
            {
                "event": "publish",
                "window": "month",
                "label": f"2000-{month + 1:02d}",
                "bytes": 1 << 20,
                **times,
            }
        )
    lines.append(
        {
            "event": "end",
            "status": "complete",
            "waited_s": 0.2,
            "discarded": 0,
            "steps": steps,
            "ended_s": clock + 2,
        }
    )
    text = "\n".join(json.dumps(line) for line in lines)
    path.write_text(text[:-25] if torn else text + "\n")
