"""Programs that read no XML, and set their engine in code: what a run selects from outside, and what a check sees."""

import errno
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import adios2
import numpy as np
import pytest
import xarray as xr
import yaml

from bbflow.cli import main
from bbflow.run.checks.program import check_program, programs_of, read_elf
from bbflow.run.selecting import noted_opens

IN_CODE = """
import adios2
import numpy as np

adios = adios2.Adios()
for name in ("history", "restart"):
    io = adios.declare_io(name)
    io.set_engine("BP5")
    io.set_parameter("StatsLevel", "0")
    io.define_attribute("time/units", "days since 2000-01-01")
    with adios2.Stream(io, name + ".bp", "w") as stream:
        for step in stream.steps(40):
            n = step.current_step()
            stream.write("time", np.float64(n))
            stream.write("tas", np.full((4, 6), 280.0 + n), [4, 6], [0, 0], [4, 6])
"""
"""Selects BP5 in its code and reads no XML, as SCORPIO, adios4dolfinx and ADIOS2's smaller examples do."""


FILES = 200
MANY_FILES = """
import sys
import adios2
import numpy as np

adios = adios2.Adios()

def write(io, name, first, days, mode="w"):
    with adios2.Stream(io, name, mode) as stream:
        for day in range(first, first + days):
            stream.begin_step()
            stream.write("time", np.float64(day))
            stream.write("tas", np.arange(24.0).reshape(4, 6) + np.sin(day), [4, 6], [0, 0], [4, 6])
            stream.end_step()

def declare(name):
    io = adios.declare_io(name)
    io.set_engine("BP5")
    io.set_parameter("NumAggregators", "0")
    io.define_attribute("time/units", "days since 2000-01-01")
    return io

for n in range(FILES):
    name = f"h0.{n:03}.nc"
    io = declare(name + str(n))
    write(io, name, 2 * n, 2)
write(io, name, 2 * FILES, 3, "a")
restarts = declare("restarts")
write(restarts, "r.nc", 0, 1)
write(declare("again"), "h0.again.nc", 2 * FILES - 2, 7)
""".replace("FILES", str(FILES))
"""Opens an IO for each file, as SCORPIO, WRF and LAMMPS do; appends to the last, and repeats days as a restart does."""


@pytest.fixture
def bbflow(capsys, monkeypatch, tmp_path):
    """Run a command in this process, in a folder of its own; gives what it said."""
    monkeypatch.chdir(tmp_path)
    content = {"stream": "climate", "operators": {"tas": ["mean"]}, "nodes": {"capacity": "4MiB"}, "output": "out"}
    (tmp_path / "analysis.yml").write_text(yaml.safe_dump(content))
    (tmp_path / "model.py").write_text(IN_CODE)

    def run(*words, code=0):
        ended = main([str(word) for word in words])
        said = "".join(capsys.readouterr())
        assert ended == code, said
        return said

    return run


def test_a_program_that_sets_its_engine_in_code_lands_what_is_selected_and_keeps_the_rest(bbflow, tmp_path):
    command = [sys.executable, "-m", "bbflow", "run", "analysis.yml", "--no-report", "--select-file", "hist*.bp"]
    done = subprocess.run([*command, "--", sys.executable, "model.py"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    with xr.open_zarr(tmp_path / "out/results.zarr") as results:
        assert [float(month.mean()) for month in results.tas_month_mean] == [280.0 + 15, 280.0 + 35]
    assert [path.name for path in (tmp_path / "history.bp").iterdir()] == ["bbflow-stream.txt"]
    with adios2.FileReader(str(tmp_path / "restart.bp")) as file:
        assert file.num_steps() == 40


def test_many_files_and_opens_are_one_stream(bbflow, tmp_path):
    (tmp_path / "model.py").write_text(MANY_FILES)
    content = yaml.safe_load((tmp_path / "analysis.yml").read_text()) | {"time": {"late": "skip"}}
    (tmp_path / "analysis.yml").write_text(yaml.safe_dump(content))
    command = [sys.executable, "-m", "bbflow", "run", "analysis.yml", "--no-report", "--select-file", "h0.*"]
    done = subprocess.run([*command, "--", sys.executable, "model.py"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    written = [path for path in tmp_path.glob("*.nc") if not (path / "bbflow-stream.txt").exists()]
    assert written == [tmp_path / "r.nc"]  # what no pattern fits is written as ever
    subprocess.run([sys.executable, "model.py"], check=True, timeout=300, cwd=tmp_path, capture_output=True)
    written = xr.concat([read_bp5(path) for path in sorted(tmp_path.glob("h0.*.nc"))], "time")
    assert written.time.size == 2 * FILES + 10
    seen, late = written.drop_duplicates("time").sortby("time"), 5
    with xr.open_zarr(tmp_path / "out/results.zarr") as results:
        expected = seen.resample(time="MS").mean()
        assert results.bbflow_late_steps == late
        assert results.steps_month.sum() == 2 * FILES + 5
        np.testing.assert_allclose(results.tas_month_mean, expected.tas, rtol=1e-6)


@pytest.mark.parametrize("says", ["command", "configuration"])
def test_a_stream_ends_with_the_file_that_is_said_and_the_program_goes_on(bbflow, tmp_path, says):
    (tmp_path / "model.py").write_text(re.sub(rf"\b{FILES}\b", "9", MANY_FILES))
    content = yaml.safe_load((tmp_path / "analysis.yml").read_text()) | {"windows": ["run"]}
    words = ["--select-file", "h0.*", "--until", "h0.005.*"] if says == "command" else []
    content["select"] = [] if says == "command" else [{"io": "none"}, {"file": "h0.*", "until": "h0.005.*"}]
    (tmp_path / "analysis.yml").write_text(yaml.safe_dump(content))
    command = [sys.executable, "-m", "bbflow", "run", "analysis.yml", "--no-report", *words, "--", sys.executable]
    done = subprocess.run([*command, "model.py"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    written = sorted(path.name for path in tmp_path.glob("*.nc") if (path / "md.idx").exists())
    assert written == ["h0.006.nc", "h0.007.nc", "h0.008.nc", "h0.again.nc", "r.nc"]
    with xr.open_zarr(tmp_path / "out/results.zarr") as results:
        assert results.bbflow_status == "complete"
        assert results.steps_run.values.tolist() == [12]


def test_an_end_needs_a_rule(bbflow):
    said = bbflow("run", "analysis.yml", "--until", "h0.005.*", "--", "true", code=os.EX_USAGE)
    assert "--until is about files that are selected" in said


def test_what_goes_to_another_stream_is_named_if_nobody_folds_it(bbflow, tmp_path):
    content = yaml.safe_load((tmp_path / "analysis.yml").read_text())
    content["select"] = [{"io": "hist*"}, {"file": "rest*.bp", "stream": "again", "parameters": {"Transport": "shm"}}]
    (tmp_path / "analysis.yml").write_text(yaml.safe_dump(content))
    command = [sys.executable, "-m", "bbflow", "run", "analysis.yml", "--no-report", "--", sys.executable, "model.py"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 3, done.stdout + done.stderr
    assert "NOTHING FOLDED, DRAINED OR READ STREAM 'again', 40 steps" in done.stdout
    with xr.open_zarr(tmp_path / "out/results.zarr") as results:
        assert results.steps_month.values.tolist() == [31, 9]


def read_bp5(path):
    with adios2.FileReader(str(path)) as file:
        steps = [0, file.num_steps()]
        days = np.atleast_1d(file.read("time", step_selection=steps)).ravel()
        tas = file.read("tas", step_selection=steps).reshape(days.size, 4, 6)
    dates = np.datetime64("2000-01-01", "ns") + days.astype("timedelta64[D]")
    return xr.Dataset({"tas": (("time", "y", "x"), tas)}, {"time": dates})


def test_what_a_killed_run_noted_goes_with_the_next_and_a_living_ones_stays(tmp_path):
    contact, left = tmp_path / "contact.json", tmp_path / "contact.json.opens-killed"
    left.touch()
    with noted_opens(contact, ["model"], selects=True) as first, noted_opens(contact, ["model"], selects=True) as other:
        assert sorted(tmp_path.iterdir()) == sorted([first.path, other.path])
    assert list(tmp_path.iterdir()) == []


def test_a_program_that_lands_nothing_is_told_what_it_opened(bbflow, tmp_path):
    command = [sys.executable, "-m", "bbflow", "run", "analysis.yml", "--no-report", "--select-io", "hist?"]
    done = subprocess.run([*command, "--", sys.executable, "model.py"], capture_output=True, text=True, timeout=300)
    assert done.returncode == os.EX_DATAERR
    opened = "it opened IO 'history' with file 'history.bp', IO 'restart' with file 'restart.bp'"
    assert f"{opened}, which no rule of 'select' fits" in done.stderr


C_PROGRAM = "int main() { return 0; }"
CORE_WITHIN = 'const char name[] __attribute__((used)) = "N6adios24core6EngineE"; int main() { return name[0] == 0; }'
"""Has what a program has that ADIOS2 is linked into: the name of a type of its core."""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """Compile a C program; gives its path."""
    folder = tmp_path_factory.mktemp("programs")

    def compile_it(name, text, *options):
        (folder / f"{name}.c").write_text(text)
        subprocess.run(["gcc", folder / f"{name}.c", "-o", folder / name, *options], check=True, timeout=120)
        return folder / name

    return compile_it


def test_a_check_finds_what_keeps_the_engine_out_of_a_program(bbflow, compiled):
    def said(*command, code=0):
        return bbflow("check", "analysis.yml", "--", *command, code=code)

    plain, static = compiled("plain", C_PROGRAM), compiled("static", C_PROGRAM, "-static")
    assert "plain isn't linked with ADIOS2's shared libraries; it can be reached if it opens them later" in said(plain)
    assert "static is linked statically: nothing can be selected in it" in said("mpiexec", "-n", "4", static)
    within = said(compiled("within", CORE_WITHIN, "-static", "-s"), code=os.EX_USAGE)
    assert "within has ADIOS2 linked statically, which loads no plugin" in within
    assert "within has ADIOS2 linked statically" in said(compiled("within", CORE_WITHIN, "-s"), code=os.EX_USAGE)
    privileged = compiled("privileged", C_PROGRAM)
    privileged.chmod(0o4755)
    assert "privileged runs with another user's rights" in said(privileged, code=os.EX_USAGE)
    python = said("mpiexec", "-n", 2, sys.executable, "model.py")
    assert f"runs Python, which has the package adios2 {adios2.__version__}: what it imports can't be told" in python
    assert "sh is a shell: what it starts can't be told" in said("sh", "run.sh")
    assert "'./none' names no program that can be started here" in said("./none", code=os.EX_USAGE)


def test_a_check_names_a_package_with_an_adios2_of_its_own(bbflow, compiled, tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python3").symlink_to(sys.executable)
    package = tmp_path / "lib/python3.11/site-packages/openpmd_api"
    package.mkdir(parents=True)
    shutil.copy(compiled("within.so", CORE_WITHIN, "-shared", "-fPIC"), package / "openpmd_api_cxx.so")
    said = bbflow("check", "analysis.yml", "--", tmp_path / "bin/python3", "model.py")
    assert f"{package}/openpmd_api_cxx.so has ADIOS2 linked statically, which loads no plugin" in said


def test_a_check_tells_the_adios2_that_a_program_loads(bbflow, compiled):
    package = os.path.dirname(adios2.__file__)
    folders = [f"-Wl,-rpath,{package}", f"-Wl,-rpath,{os.path.dirname(package)}/adios2.libs"]
    text = "int adios2_finalize(void *); int main() { return adios2_finalize(0) == 0; }"
    program = compiled("model", text, f"-L{package}", "-l:libadios2_c.so", *folders, "-Wl,--allow-shlib-undefined")
    said = bbflow("check", "analysis.yml", "--", program)
    version = ".".join(adios2.__version__.split(".")[:2])
    assert f"ok    program: {program} loads ADIOS2 {version}" in said


@pytest.mark.parametrize(
    "content", [b"", b"\x7fELF", b"\x7fELF\x02\x01" + bytes(20), b"\x7fELF\x02\x01" + bytes(26) + b"\xff" * 40]
)
def test_a_damaged_program_is_no_elf_file(tmp_path, content):
    (tmp_path / "program").write_bytes(content)
    assert read_elf(tmp_path / "program") is None


def test_of_a_program_that_may_not_be_read_nothing_is_told(tmp_path, monkeypatch):
    program = tmp_path / "program"
    program.touch(0o755)

    def refused(path, mode="r"):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(Path, "open", refused)  # root may read all, so a mode of 0711 tells nothing here
    (found,) = check_program([str(program)])
    assert (found.kind, found.text) == (
        "note",
        f"{program} can't be read (Permission denied): what is in it can't be told",
    )


def test_the_programs_of_a_command_are_found_behind_its_launchers():
    true = shutil.which("true")
    for command in (
        ["true"],
        ["mpiexec", "-n", "4", "true", "python"],
        ["srun", "--export", "ALL", "-n", "2", "nice", "-n", "5", "env", "A=1", "true", "--config", "model.xml"],
    ):
        assert [str(path) for path in programs_of(command)] == [true]
    assert len(programs_of(["mpiexec", "-n", "1", "true", "1", ":", "-n", "2", "false"])) == 2


def test_rules_with_parameters_that_the_engine_has_not_are_named(bbflow, tmp_path):
    content = yaml.safe_load((tmp_path / "analysis.yml").read_text())
    content["select"] = {"io": "h*", "parameters": {"QueueFullPolicie": "Discard"}}
    (tmp_path / "analysis.yml").write_text(yaml.safe_dump(content))
    assert "select: unknown parameter QueueFullPolicie: did you mean QueueFullPolicy?" in bbflow(
        "check", "analysis.yml", code=os.EX_USAGE
    )
