import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "bbflow"
LAYERS = [
    {"errors"},
    {"units", "records", "cf", "events", "leftovers", "growing"},
    {"operators", "store"},
    {"landing", "config"},
    {"drain"},
    {"transit"},
    {"api", "report", "progress", "supervise"},
    {"cli"},
]
MODULES = sorted(PACKAGE.rglob("*.py"))


def imports(path):
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module


def layer_of(name):
    return next(number for number, names in enumerate(LAYERS) if name in names)


def part_of(path):
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def importers(library):
    return {
        str(path.relative_to(PACKAGE))
        for path in MODULES
        if any(name.split(".")[0] == library for name in imports(path))
    }


@pytest.mark.parametrize("path", [p for p in MODULES if part_of(p) not in ("__init__", "__main__")], ids=str)
def test_imports_go_one_way(path):
    own = part_of(path)
    for name in imports(path):
        package, *rest = name.split(".")
        if package == "bbflow" and rest and rest[0] != own:
            assert layer_of(rest[0]) < layer_of(own), f"{path} imports {name}"


def test_dask_is_imported_in_transit_and_to_shut_a_cluster_down_only():
    assert {name.split("/")[0] for name in importers("distributed") | importers("dask")} == {"transit", "cli"}
    assert importers("distributed") & {"cli/down.py"}


def test_matplotlib_is_imported_in_one_module():
    assert len(importers("matplotlib")) == 1


def test_only_the_command_line_knows_the_plugins():
    plugins = importers("bbflow_adios2") | importers("bbflow_workflows") | importers("bbflow_catalogs")
    assert {name.split("/")[0] for name in plugins} == {"cli"}


def test_a_node_loads_neither_dask_nor_xarray():
    seen, todo = set(), [PACKAGE / "cli" / "node.py"]
    while todo:
        for name in imports(todo.pop()):
            assert name.split(".")[0] not in ("dask", "distributed", "xarray", "zarr", "matplotlib")
            if name.startswith("bbflow.") and name not in seen:
                seen.add(name)
                path = ROOT / name.replace(".", "/")
                todo.append(path / "__init__.py" if path.is_dir() else path.with_suffix(".py"))


@pytest.mark.parametrize("path", MODULES, ids=str)
def test_a_file_holds_one_thing(path):
    assert len(path.read_text().splitlines()) <= 400
