"""What `make test-mpi` has built, run with real BB nodes."""

import sys
from pathlib import Path

import pytest

import bbflow
from testsupport.processes import finish_well, running
from testsupport.writers import clean_environment


def pytest_addoption(parser):
    """Declare where Make has built the engine and the program."""
    parser.addoption("--built", type=Path, help="the folder with engine/ and program/, as 'make test-mpi' gives it")
    beside = Path(sys.executable).with_name("mpiexec")
    parser.addoption("--mpiexec", type=Path, default=beside, help="of the MPI that they were built with")


class Bands:
    """The MPI program `bands`."""

    def __init__(self, built, mpiexec, contact, folder):
        self._mpiexec = mpiexec
        self._program = built / "program" / "bands"
        self._folder = folder
        self._environment = clean_environment(contact)
        self.load_engine(built / "engine")

    def load_engine(self, folder):
        """Choose the folder of the engine's library."""
        assert (folder / "libbbflow_adios2.so").exists()
        self._environment["ADIOS2_PLUGIN_PATH"] = str(folder)

    def running(self, mode, config, ranks):
        """Run it beside the test; it is killed if it is still there afterwards."""
        command = [self._mpiexec, "-n", ranks, self._program, mode, config]
        return running(command, self._environment, self._folder)

    def run(self, mode, config, ranks):
        """Run it to its end, which must be a good one; return what it said."""
        with self.running(mode, config, ranks) as process:
            return finish_well(process)


@pytest.fixture
def nodes():
    """Two BB nodes of 1 MiB."""
    with bbflow.start_nodes(2, "1MiB") as buffer:
        yield buffer


@pytest.fixture
def built(request):
    """Return where the engine and the programs are."""
    built = request.config.getoption("built")
    assert built is not None, "nothing is built: run 'make test-mpi'"
    return built.resolve()


@pytest.fixture
def mpiexec(request):
    """Return what starts the programs."""
    return request.config.getoption("mpiexec")


@pytest.fixture
def bands(built, mpiexec, nodes, tmp_path):
    """Starts the MPI program."""
    return Bands(built, mpiexec, nodes.contact, tmp_path)
