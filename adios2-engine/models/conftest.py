"""Real programs out of checkouts that the user names: built as they are, and run with BP5 and under `bbflow run`."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from bbflow_adios2.__main__ import build_engine, find_configuration

from bbflow.transit.output.decoding import open_results

PARTICLES = (("openpmd", "openPMD-api"), ("lammps", "LAMMPS"))
PATIENCE_S = 3600
"""Bounds a build; a run takes seconds."""


def pytest_addoption(parser):
    """Declare where everything is; what isn't given is skipped."""
    parser.addoption("--adios2", type=Path, help="where an ADIOS2 with MPI is installed")
    parser.addoption("--mpi", type=Path, help="folder of the compilers and of mpiexec of the MPI that it is built with")
    parser.addoption("--built", type=Path, help="folder for what is built; it is used again")
    for name, what in (("examples", "ADIOS2"), ("scorpio", "SCORPIO"), ("wrf", "WRF"), *PARTICLES):
        parser.addoption(f"--{name}", help=f"a checkout of {what}")


@dataclass(frozen=True, slots=True)
class Bench:
    """An ADIOS2 with MPI, and what is built against it."""

    adios2: Path
    """Where it is installed."""
    mpi: Path
    """Folder of `mpicc` and `mpiexec`."""
    built: Path
    """What is built is kept here."""
    ranks: int = 4
    """Of each program."""

    @property
    def fortran(self):
        """The folder of ADIOS2's Fortran modules, and whether MPI compiles Fortran too: both, or None."""
        modules = self.adios2 / "include/adios2/fortran"
        return modules if modules.is_dir() and (self.mpi / "mpif90").exists() else None

    @property
    def engines(self):
        """The folder of the engine for this ADIOS2, built as a user builds it."""
        folder = self.built / "engines"
        if not folder.is_dir():
            build_engine(self.adios2, folder)
        return folder

    def cmake(self, source, name, targets, *options):
        """Build targets of a checkout by its own CMake; return the folder."""
        folder = self.built / f"{name}-build"
        languages = {"C": "mpicc", "CXX": "mpicxx"} | ({"Fortran": "mpif90"} if self.fortran else {})
        compilers = [f"-DCMAKE_{name}_COMPILER={self.mpi / own}" for name, own in languages.items()]
        ours = [f"-DADIOS2_DIR={find_configuration(self.adios2)}", "-DCMAKE_BUILD_TYPE=Release"]
        self.done(["cmake", "-G", "Ninja", "-S", source, "-B", folder, *compilers, *ours, *options])
        self.done(["cmake", "--build", folder, "--target", *targets])
        return folder

    def done(self, words, folder=None, **variables):
        """Run something that must succeed; return what it said."""
        path = f"{self.mpi}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        words = [str(word) for word in words]
        environment = os.environ | {"PATH": path} | variables
        done = subprocess.run(
            words, cwd=folder, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
        assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
        return done.stdout + done.stderr

    def run_plain(self, folder, *words, ranks=None):
        """Run a program by itself: it writes BP5."""
        folder.mkdir(parents=True, exist_ok=True)
        return self.done([self.mpi / "mpiexec", "-n", ranks or self.ranks, *words], folder)

    def fold(self, folder, config, *words, ranks=None):
        """Run a program under `bbflow run`; return its results, all in memory."""
        folder.mkdir(parents=True, exist_ok=True)
        common = {"nodes": {"capacity": "64MiB"}, "windows": ["run"], "raw": "all", "output": "out"}
        (folder / "analysis.yml").write_text(yaml.safe_dump(common | config))
        mine = [sys.executable, "-m", "bbflow", "run", "analysis.yml", "--no-report", "--overwrite", "--"]
        command = [*mine, self.mpi / "mpiexec", "-n", ranks or self.ranks, *words]
        said = self.done(command, folder, ADIOS2_PLUGIN_PATH=str(self.engines))
        print(said)
        with open_results(folder / "out" / "results.zarr") as results:
            return results.load()


@pytest.fixture(scope="session")
def bench(request):
    """What everything is built against."""
    told = [request.config.getoption(name) for name in ("adios2", "mpi", "built")]
    assert None not in told, "nothing to build against: run 'make models-suite'"
    adios2, mpi, built = told
    built.mkdir(parents=True, exist_ok=True)
    return Bench(adios2.resolve(), mpi.absolute(), built.resolve())


@pytest.fixture(scope="session")
def checkout(request):
    """Finds the checkout that the user names, by a file that it has; the test is skipped if none is named."""

    def find(name, within):
        told = request.config.getoption(name)
        if not told:
            pytest.skip(f"no checkout is named: make models-suite {name.upper()}=path")
        path = Path(told).resolve()
        assert (path / within).exists(), f"{path} isn't a checkout for {name.upper()}: it has no {within}"
        return path

    return find
