"""openPMD's three iteration encodings: the same statistics, equal to those of what BP5 has of the same program."""

import os
import subprocess
import sys

import adios2
import bbflow_adios2
import numpy as np
import pytest

from bbflow import start_nodes
from bbflow.configuring.step_time import TimeConfig
from bbflow.schemas.openpmd import OpenPmd, unit_of
from bbflow.schemas.testing import SchemaTests
from bbflow.stream.attributes import DIMENSIONS
from bbflow.stream.layouts import BlockForm, Layout
from bbflow.stream.records import Step
from bbflow.transit.output.decoding import open_results
from bbflow.view.adapting import Adapting, StreamConfig
from bbflow.view.numbering import Numbering
from bbflow.view.stream import News, StreamView

PROGRAM = """
import sys
import adios2
import numpy as np

encoding, xml, target = sys.argv[1:]
io = adios2.Adios(xml).declare_io("series")
with adios2.Stream(io, target, "w") as stream:
    if encoding != "bare":
        stream.write_attribute("/openPMD", "1.1.0")
        stream.write_attribute("/basePath", "/data/%T/")
        stream.write_attribute("/meshesPath", "meshes/")
    for n in range(10):
        base = "/data" if encoding == "variable" else f"/data/{n * 100}"
        stream.begin_step()
        for number, component in enumerate("xy"):
            values = np.full((4, 6), 280.0 + n + 5 * number)
            stream.write(f"{base}/meshes/E/{component}", values, [4, 6], [0, 0], [4, 6])
            if encoding != "bare" and (n == 0 or encoding == "group"):
                stream.write_attribute(f"{base}/meshes/E/{component}/unitSI", 1e-6)
        if encoding != "bare" and (n == 0 or encoding == "group"):
            stream.write_attribute(f"{base}/meshes/E/axisLabels", ["lat", "lon"])
            stream.write_attribute(f"{base}/meshes/E/unitDimension", np.array([1.0, 1, -3, -1, 0, 0, 0]))
            stream.write_attribute(f"__openPMD_groups{base}", np.uint64(n))
        if encoding == "group":
            stream.write_attribute(f"{base}/time", 0.5 * n)
            stream.write_attribute(f"{base}/timeUnitSI", 86400.0)
        stream.end_step()
"""


def run(folder, encoding, **more):
    """Return the results of the program, and what its BP5 file has of the components, step by step."""
    (folder / "program.py").write_text(PROGRAM)
    (folder / "bp5.xml").write_text("<adios-config/>")
    words = [sys.executable, folder / "program.py", encoding]
    subprocess.run([*words, folder / "bp5.xml", folder / "series.bp"], check=True, timeout=300)
    (folder / "engine.xml").write_text(bbflow_adios2.engine_xml("series"))
    base = "/data" if encoding == "variable" else "/data/{iteration}"
    config = {"stream": "series", "operators": {f"{base}/meshes/E/x": ["mean", "count"], f"{base}/meshes/E/y": ["max"]},
              "windows": ["run"], "output": str(folder / "out"), "workers": {"processes": 0, "threads": 1}}  # fmt: skip
    with start_nodes(1, "64MiB") as buffer, buffer.analyse(config | more) as analysis:
        environment = os.environ | bbflow_adios2.environment(buffer.contact)
        subprocess.run([*words, folder / "engine.xml", "series"], check=True, timeout=300, env=environment)
        outcome = analysis.wait(300)
    assert outcome is not None
    assert outcome.complete
    with open_results(folder / "out" / "results.zarr") as found:
        results = {name: item.load() for name, item in found.items()}
    names = [f"/data{'' if encoding == 'variable' else f'/{n * 100}'}/meshes/E/" for n in range(10)]
    with adios2.FileReader(str(folder / "series.bp")) as file:
        steps = {
            component: np.stack([
                file.read(f"{name}{component}", step_selection=[n if encoding == "variable" else 0, 1]).reshape(4, 6)
                for n, name in enumerate(names)
            ])
            for component in "xy"
        }  # fmt: skip
    return results, steps


def of(results, ending):
    (found,) = (item for name, item in results.items() if name.endswith(ending))
    return found


@pytest.mark.parametrize("encoding", ["bare", "group", "variable"])
def test_every_iteration_is_folded(tmp_path, encoding):
    results, steps = run(tmp_path, encoding)
    mean = of(results, "E_x2F_x_run_mean")
    np.testing.assert_allclose(mean.values.reshape(4, 6), steps["x"].mean(0))
    np.testing.assert_array_equal(of(results, "E_x2F_y_run_max").values.reshape(4, 6), steps["y"].max(0))
    np.testing.assert_array_equal(of(results, "E_x2F_x_run_count").values, 10)
    if encoding != "bare":
        assert mean.dims[-2:] == ("lat", "lon")
        assert mean.attrs["units"] == "1e-06 m kg s-3 A-1"


def test_the_time_of_iterations_can_be_dated(tmp_path):
    time = {"variable": "time", "units": "seconds since 2000-01-30"}
    results, steps = run(tmp_path, "group", time=time, windows=["month"])
    mean = of(results, "E_x2F_x_month_mean")
    np.testing.assert_allclose(mean.values[:, 0, 0], [steps["x"][:4].mean(), steps["x"][4:].mean()])


def test_a_component_that_comes_later_has_what_its_record_was_told_before():
    """Also where the step that told it is gone, or its own steps lie on another node."""
    told = {"/openPMD": "1.1.0", "/data/meshes/B/axisLabels": ["lat", "lon"]}
    told["/data/meshes/B/unitDimension"] = [0, 1, -2, -1, 0, 0, 0]
    adapting = Adapting(["a", "b"], {"a": 4, "b": 4}, StreamConfig(TimeConfig(by="steps")), no_values, Numbering())
    view = StreamView(["a", "b"], {"a": 4, "b": 4})

    def step(number, name):
        form = BlockForm(f"/data/meshes/{name}", "double", "GlobalArray", (4, 2), (0, 0), (4, 2), 0, 0, 0, 64)
        return Step(number, Layout.of((form,)), (4096).to_bytes(8, "little"), ranks=1)

    for number, name in ((5, "E/x"), (6, "B/z")):
        for node, base in (("a", told), ("b", {})):
            own = step(number, name if node == "b" else "E/x")
            news = News("open", 2, 1, (own,), number, base=base, attributes=base)
            for whose, adapted in adapting.take(node, news):
                view.update(whose, adapted)
    assert view.attributes[f"/data/meshes/B/z/{DIMENSIONS}"] == ["lat", "lon"]
    assert view.attributes["/data/meshes/B/z/units"] == "kg s-2 A-1"
    assert view.changes == []


def no_values(node, number, block):
    raise AssertionError("nothing is read")


def test_units_are_those_of_values_as_they_are_written():
    assert unit_of([1, 1, -3, -1, 0, 0, 0], 1.0) == "m kg s-3 A-1"
    assert unit_of([1, 0, 0, 0, 0, 0, 0], 0.001) == "0.001 m"
    assert unit_of([0] * 7, 1.0) == "1"


class TestOpenPmd(SchemaTests):
    """What holds for all schemas."""

    def make(self):
        return OpenPmd()

    def landed(self):
        def step(n):
            form = BlockForm(f"/data/{n}/meshes/E/x", "double", "GlobalArray", (3,), (0,), (3,), 0, 0, 0, 24)
            return Step(n, Layout.of((form,)), (4096).to_bytes(8, "little"))

        return [{"a": step(n)} for n in range(3)]

    def read(self, node, number, block):
        raise AssertionError("nothing is read")

    def attributes(self):
        return {"/openPMD": "1.1.0", "/data/0/time": 1.0, "/data/0/meshes/E/axisLabels": ["x"], "/data/0/dt": 0.5}
