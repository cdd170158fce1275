"""Imports go one way, optional parts stay in their place, and files stay short."""

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from setuptools.config.setupcfg import read_configuration
from structure import longest_chain, rings, structure_of

ROOT = Path(__file__).parents[1]
LAYERS = (
    {"errors"},
    {"units", "events", "host", "reading"},
    {"stream", "net"},
    {"schemas", "stores", "zarr_store"},
    {"operators", "store", "phases", "models"},
    {"functions"},
    {"configuring"},
    {"landing", "lending"},
    {"staging", "view"},
    {"drain", "files"},
    {"transit", "registered", "simulate"},
    {"ensemble"},
    {"report"},
    {"run"},
    {"api", "metrics", "mount"},
    {"cli"},
)
RANKS = {part: rank for rank, layer in enumerate(LAYERS) for part in layer}
ENTRIES = {"__init__.py", "__main__.py"}
"""`__init__.py` names the public interface, and `python -m bbflow` the command line."""
MAX_LINES = 600
LONG_FILES: dict[str, str] = {}
"""Files above the limit, each with its reason."""

SHARED_NAMES: dict[str, str] = {}
"""Names that several public classes have since they mean the same, each with its reason."""

LONGEST_CHAIN = 16
"""Modules of bbflow and its plugins that import each the next one."""

PAIR = frozenset({"bbflow.files.client.opened", "bbflow.files.client.session"})
"""A session has open files, and each its session."""

FILES = sorted((ROOT / "bbflow").rglob("*.py"))
PLUGINS = {
    "bbflow_adios2": ROOT / "adios2-engine/bbflow_adios2",
    "bbflow_parsl": ROOT / "parsl-executor/bbflow_parsl",
    "bbflow_pegasus": ROOT / "pegasus-plugin/bbflow_pegasus",
    "bbflow_slurm": ROOT / "slurm-plugin/bbflow_slurm",
    "bbflow_snakemake": ROOT / "snakemake-plugin/bbflow_snakemake",
    "bbflow_spark": ROOT / "spark-plugin/bbflow_spark",
}
PLUGIN_FILES = sorted(path for folder in PLUGINS.values() for path in folder.rglob("*.py"))


@cache
def parsed(path):
    """Return full names of all modules that a file imports anywhere, also inside functions, and its docstring."""
    names, tree = set(), ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names, ast.get_docstring(tree)


def imports_of(path):
    return parsed(path)[0]


@cache
def imports():
    """Return what each file of bbflow imports."""
    return {path.relative_to(ROOT / "bbflow").as_posix(): imports_of(path) for path in FILES}


@pytest.fixture(scope="module")
def structure():
    return structure_of(ROOT)


def part_of(file):
    return file.partition("/")[0].removesuffix(".py")


def importers_of(*packages):
    return {file for file, names in imports().items() if any(name.partition(".")[0] in packages for name in names)}


def test_every_package_is_installed():
    """A wheel has only what setup.cfg names; a checkout has all, so no other test misses what isn't named."""
    options = read_configuration(ROOT / "setup.cfg", find_others=True)["options"]
    folders = {name: ROOT / folder for name, folder in options["package_dir"].items()}
    there = {
        ".".join([name, *path.parent.relative_to(folder).parts])
        for name, folder in folders.items()
        for path in folder.rglob("__init__.py")
    }
    assert there == set(options["packages"])


def test_every_part_has_its_layer():
    assert {part_of(file) for file in imports() if file not in ENTRIES} == set(RANKS)


def test_imports_go_one_way():
    upwards = [
        f"{file} imports {name} from its own layer or one above"
        for file in sorted(imports().keys() - ENTRIES)
        for name in imports()[file]
        if is_upwards(part_of(file), name)
    ]
    assert not upwards


def is_upwards(own, name):
    package, _, rest = name.partition(".")
    other = rest.partition(".")[0]
    return package == "bbflow" and other in RANKS and other != own and RANKS[other] >= RANKS[own]


def test_the_fold_knows_nothing_of_what_outlives_its_run():
    rooms = tuple(f"transit/{room}/" for room in ("spans", "states", "folding", "publication"))
    folding = {name for file, names in imports().items() if file.startswith(rooms) for name in names}
    assert not any(name.startswith("bbflow.transit.chain.") for name in folding)


def test_what_tests_share_knows_no_benchmark():
    shared = {name for path in (ROOT / "testsupport").glob("*.py") for name in imports_of(path)}
    assert not [name for name in shared if name.partition(".")[0] == "benchmarks"]


def test_dask_is_imported_where_the_cluster_is():
    """Stages know tasks and hosts; `api.py` names the type of a client that is given to it."""
    own = {"dask_calls", "dask_cluster", "dask_settings", "lasting_worker", "no_http", "security", "service"}
    xarray_writes = "transit/output/netcdf.py"  # by way of dask, in chunks
    allowed = {f"transit/clusters/{name}.py" for name in own} | {"cli/down.py", "api.py", xarray_writes}
    assert importers_of("dask", "distributed") <= allowed


@pytest.mark.parametrize(
    "package",
    ["prometheus_client", "matplotlib", "jinja2", "tornado", "yaml", "rich", "fsspec", "obstore", "scipy", "healpix"],
)
def test_each_part_that_draws_or_parses_is_imported_in_few_places(package):
    places = {
        "prometheus_client": {"metrics.py"},
        "matplotlib": {"report/canvas.py"},
        "jinja2": {"report/page.py"},
        "tornado": {"report/dashboard.py"},
        "fsspec": {"stores/remote.py", "files/client/filesystem.py"},
        "obstore": {"stores/objects.py"},
        "scipy": {"operators/space/making.py"},
        "healpix": {"operators/space/targets.py"},
        "yaml": {"reading/yaml_files.py", "cli/demo.py"},
        "rich": {
            "run/progress.py",
            "cli/status.py",
            "cli/ensemble.py",
            "cli/stage.py",
            "cli/phase.py",
            "cli/operators.py",
            "cli/scenarios.py",
        },
    }
    assert importers_of(package) == places[package]


def test_the_command_line_alone_knows_the_plugins_and_the_examples_and_a_run_the_engine():
    plugins = importers_of("bbflow_workflows", "bbflow_catalogs", *(PLUGINS.keys() - {"bbflow_adios2"}))
    assert all(file.startswith("cli/") for file in plugins)
    assert all(file.startswith(("cli/", "run/")) for file in importers_of("bbflow_adios2"))


@pytest.mark.parametrize("plugin", PLUGINS)
def test_plugins_never_import_each_other(plugin):
    imported = {name.partition(".")[0] for path in PLUGINS[plugin].rglob("*.py") for name in imports_of(path)}
    assert not imported & (PLUGINS.keys() - {plugin})


@pytest.mark.parametrize("package", ["Pegasus", "ruamel"])
def test_each_library_of_the_pegasus_plugin_is_imported_in_one_module(package):
    folder = PLUGINS["bbflow_pegasus"]
    importers = {
        path.name for path in folder.rglob("*.py") if any(n.startswith(f"{package}.") for n in imports_of(path))
    }
    assert importers <= {"Pegasus": {"objects.py", "settings.py"}, "ruamel": {"catalogs.py"}}[package]


def test_a_node_agent_loads_neither_dask_nor_zarr():
    needed = {"cli/node.py"}
    while True:
        found = {
            file
            for name in set().union(*(imports()[file] for file in needed))
            for file in imports()
            if (name + ".").startswith(f"bbflow.{file.removesuffix('.py').replace('/', '.')}.")
        }
        if found <= needed:
            break
        needed |= found
    assert not needed & importers_of("dask", "distributed", "zarr", "xarray", "matplotlib")


@pytest.mark.cold
def test_what_has_no_arrays_starts_without_numpy():
    """Which takes half of the start of an agent, of servers of files, and of each command of a workflow's tasks."""
    commands = ("node", "files", "stage", "status", "up", "down", "mount")
    modules = [*(f"bbflow.cli.{name}" for name in commands), "bbflow.files.processes", "bbflow.lending.lender"]
    program = f"import sys, {', '.join(modules)}; sys.exit('numpy' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_files_are_short_or_have_a_reason():
    lengths = {path.relative_to(ROOT).as_posix(): len(path.read_text().splitlines()) for path in FILES + PLUGIN_FILES}
    assert {name for name, lines in lengths.items() if lines > MAX_LINES} == LONG_FILES.keys()


def test_every_module_says_what_it_is():
    modules = [path for path in FILES + PLUGIN_FILES if path.name != "__main__.py"]
    assert not [path for path in modules if not parsed(path)[1]]


def test_a_word_has_one_meaning(structure):
    """Who reads one part after another meets one `Task`, and one `Site` (docs/glossary.md)."""
    assert structure.shared_names().keys() == SHARED_NAMES.keys()


def test_chains_of_imports_are_no_longer_than_they_were(structure):
    """Who adds to it looks for one to spare."""
    assert len(longest_chain(structure)) <= LONGEST_CHAIN


def test_no_modules_import_each_other_but_a_pair_that_hold_each_other(structure):
    assert {frozenset(ring) for ring in rings(structure)} == {PAIR}


def test_sub_packages_import_one_way():
    graph = {}
    for file, names in imports().items():
        part, _, own = file.rpartition("/")[0].partition("/")
        others = {name.split(".")[2] for name in names if name.startswith(f"bbflow.{part}.")} if own else set()
        graph.setdefault((part, own), set()).update(others - {own})
    both_ways = [
        (part, own, other)
        for (part, own), others in graph.items()
        for other in others
        if own in graph.get((part, other), ())
    ]
    assert not both_ways
