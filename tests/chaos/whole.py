"""Runs with all that is made of a step's space: other grids, levels, pyramids, chunks, and users' functions."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import xarray as xr

from bbflow.stores.sources import Sources
from chaos.harm import kill_at_random
from chaos.lines import Line
from chaos.runs import OPERATORS, Run, Setting, Shape
from chaos.verdict import Judge, unharmed

FUNCTIONS = '''
import xarray as xr

from bbflow.functions import Answer


def deepest(dataset):
    """Rows of the points with the lowest pressure, and a word for some steps."""
    low = dataset["psl"].stack(low=("lat", "lon"))
    rows = low[(low <= low.quantile(0.01)).values].reset_index("low").drop_vars(["time", "bbflow_step"])
    found = rows.drop_vars("quantile", errors="ignore").rename("psl").to_dataset()
    found.encoding["unlimited_dims"] = {"low"}
    return Answer(found, keep=int(dataset["bbflow_step"]) % 7 == 3)


def zonal(dataset):
    return dataset.mean("lon")
'''
KEYS: dict[str, Any] = {
    "operators": OPERATORS
    | {
        "pixels": {"of": "tas", "space": {"healpix": {"zoom": 2}, "pyramid": True}, "operators": ["mean", "max"]},
        "upper": {"of": "ta", "space": [{"levels": {"to": [70000]}}, {"remapnn": "r12x6"}], "operators": ["mean"]},
    },
    "results": {"chunks": {"time": 4, "lat": 8, "lon": 8, "cell": "4^2"}, "shard": "64KiB"},
    "functions": {
        "deepest": {"call": "whole_functions:deepest", "of": "psl"},
        "zonal": {"call": "whole_functions:zonal", "results": ["tas_day_mean", "tas_day_max"]},
    },
    "raw": {"variables": ["tas"], "asked_by": "deepest", "before": 1},
}
STORES = "results.zarr", "raw.zarr", "functions/deepest.zarr", "functions/zonal.zarr"
PYRAMIDS = "pyramids/day_hp2.zarr", "pyramids/month_hp2.zarr", "pyramids/run_hp2.zarr"


def whole_line(reference: Path, shape: Shape) -> Line:
    """Return a run in which anything is killed at random, and that is to leave what the reference has."""
    return Line("whole", kill_at_random, shape, judge=_equal_to(reference), keys=_keys())


def whole_run(folder: Path, program: Path) -> Path:
    """Run it without any harm; gives its output."""
    keys = {key: value(folder) for key, value in _keys().items()}
    run = Run(folder, program, Shape(1, 1, workers=0), Setting(), tells_code=True, **keys)
    code = run.finish()
    assert code == 0, f"the reference ended with {code}: {run.said}"
    return run.output


def random_lines(reference: Path, seeds: range, *, bucket: bool = False) -> Iterator[tuple[Line, int]]:
    """Yield runs of any shape, which may have their output in a bucket."""
    for seed in seeds:
        shape = Shape.random(Random(seed))
        yield (bucket_line if bucket else whole_line)(reference, shape), seed


def bucket_line(reference: Path, shape: Shape) -> Line:
    """Return the same with the output in the bucket ``bucket`` of the server that the environment names."""
    places = {"output": _url_of, "work": lambda folder: str(folder / "out")}
    return Line("bucket", kill_at_random, shape, judge=_fetched(_equal_to(reference)), keys=_keys() | places)


def _url_of(folder: Path) -> str:
    return f"s3://bucket/{folder.name}"


def _fetched(judge: Judge) -> Judge:
    """Judge what is in the bucket, and what else the run has left in its work directory."""

    def fetch(run: Run, code: int, truth: Any) -> str:
        work, run.output = run.output, run.folder / "fetched"
        if (work / "rescued").exists():
            shutil.copytree(work / "rescued", run.output / "rescued")
        sources = Sources()
        for file in sources.tree(_url_of(run.folder)):
            path = run.output / file.name
            path.parent.mkdir(parents=True, exist_ok=True)
            with sources.open(file.url, sources.facts(file.url)) as reader:
                path.write_bytes(reader.read(0, file.size_bytes or 0))
        return judge(run, code, truth)

    return fetch


def _keys() -> dict[str, Callable[[Path], Any]]:
    def written(folder: Path) -> Any:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "whole_functions.py").write_text(FUNCTIONS)
        return KEYS["functions"]

    return {key: (lambda folder, value=value: value) for key, value in KEYS.items()} | {"functions": written}


def _equal_to(reference: Path) -> Callable[[Run, int, Any], str]:
    def judge(run: Run, code: int, truth: Any) -> str:
        outcome = unharmed(run, code, truth)
        if outcome == "complete":
            for name in STORES:
                _assert_same(name, xr.open_zarr(run.output / name), xr.open_zarr(reference / name))
            for name in PYRAMIDS:
                for zoom in "012":
                    one, other = (
                        xr.open_zarr(path / name, group=zoom, consolidated=False) for path in (run.output, reference)
                    )
                    _assert_same(f"{name}/{zoom}", one, other)
        return outcome

    return judge


def _assert_same(store: str, found: xr.Dataset, wanted: xr.Dataset) -> None:
    """See that two stores have the same; sums over ranks may be rounded in another order."""
    assert set(found.variables) == set(wanted.variables), f"{store} has other variables"
    for name in wanted.variables:
        one, other = found[name].values, wanted[name].values
        assert one.shape == other.shape, f"{store}: {name} has the shape {one.shape}, not {other.shape}"
        if one.dtype.kind == "f":
            np.testing.assert_allclose(one, other, rtol=1e-10, err_msg=f"{store}: {name}")
        else:
            np.testing.assert_array_equal(one, other, err_msg=f"{store}: {name}")
