"""Without any extra bbflow can be imported and runs, and who uses what an extra brings is told its name."""

import json
import re
import subprocess
import sys

EXTRAS = ("adios2", "metrics", "netcdf", "parsl", "pegasus", "remap", "s3", "snakemake", "spark")
"""The others bring what runs beside bbflow, or what examples import."""
BARE = '''
import importlib, importlib.metadata, json, os, pkgutil, re, sys
from importlib.machinery import PathFinder
from pathlib import Path

requires = importlib.metadata.requires("bbflow")
base, todo = set(), ["bbflow"]
while todo:  # all that the base package brings, and what that brings
    name = todo.pop()
    for line in importlib.metadata.requires(name) or () if name not in base else ():
        found = re.match(r"[\\w.-]+", line)[0]
        if "extra ==" not in line and any(True for _ in importlib.metadata.distributions(name=found)):
            todo.append(found)
    base.add(name)
distributions = importlib.metadata.packages_distributions()
canonical = lambda name: re.sub("[-_.]+", "-", name).lower()
base = {canonical(name) for name in base} | {"setuptools", "pip"}
OPTIONAL = {package for package, names in distributions.items() if not base & {canonical(name) for name in names}}

class Others:
    """Finds what isn't optional."""

    find_distributions = staticmethod(PathFinder.find_distributions)
    invalidate_caches = staticmethod(PathFinder.invalidate_caches)

    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in OPTIONAL else PathFinder.find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Others()
failed = {}
for root in "bbflow bbflow_adios2 bbflow_slurm bbflow_parsl bbflow_pegasus bbflow_snakemake bbflow_spark".split():
    try:
        package = importlib.import_module(root)
    except Exception as error:
        failed[root] = f"{type(error).__name__}: {error}"
        continue
    for module in pkgutil.walk_packages(package.__path__, root + ".", onerror=lambda name: None):
        if "__main__" in module.name or ".lib" in module.name:
            continue
        try:
            importlib.import_module(module.name)
        except Exception as error:
            failed[module.name] = f"{type(error).__name__}: {error}"

from bbflow import metrics
from bbflow.operators.space.installed import check_installed
from bbflow.run.stop_stream import open_stop_stream
from bbflow.stores.objects import ObjectStore
from bbflow.stream.adios import load_adios2
from bbflow.transit.output.netcdf import check_netcdf
from bbflow_spark.classes import find_spark

USES = {
    "adios2": lambda: load_adios2("writing"),
    "adios2, beside a run": lambda: open_stop_stream("s", Path("contact.json"), {}).__enter__(),
    "metrics": lambda: metrics.exposition([]),
    "netcdf": check_netcdf,
    "remap": lambda: check_installed("scipy", "weights"),
    "s3": lambda: ObjectStore({}),
    "spark": lambda: find_spark(None, {}),
}
told = {}
for extra, use in USES.items():
    try:
        told[extra] = repr(use())
    except Exception as error:
        told[extra] = f"{type(error).__name__}: {error}"
print(json.dumps([sorted(OPTIONAL), failed, told]))
'''


def test_without_extras_all_can_be_imported_and_each_extra_is_named_where_it_is_missing():
    words = [sys.executable, "-W", "ignore", "-c", BARE]
    done = subprocess.run(words, text=True, capture_output=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr
    optional, failed, told = json.loads(done.stdout.splitlines()[-1])
    assert {"adios2", "netCDF4", "obstore", "parsl", "scipy"} <= set(optional)
    told |= {module.partition(".")[0].removeprefix("bbflow_"): text for module, text in failed.items()}
    for use, text in told.items():
        extra = use.partition(",")[0]
        assert re.fullmatch(rf"(MissingTool|Config)Error: .*pip install 'bbflow\[{extra}\]'.*", text), (use, text)
    assert {use.partition(",")[0] for use in told} == set(EXTRAS)
    assert {module.partition(".")[0] for module in failed} <= {"bbflow_parsl", "bbflow_pegasus", "bbflow_snakemake"}
