"""Engine, two BB nodes and readers on hosts of their own: only TCP joins them, beside a shared directory."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import bbflow_adios2
import pytest

from bbflow.net.contact import read_contact
from testsupport.fabrics import NEEDS_LIBFABRIC, PROVIDER
from testsupport.hosts import hosts_with, launcher
from testsupport.processes import finish_well, running
from testsupport.waiting import until

ADDRESSES = {"compute": "10.77.0.1", "bbn1": "10.77.0.2", "bbn2": "10.77.0.3", "desk": "10.77.0.4"}

FABRIC = {"Transport": "fabric", "FabricProvider": PROVIDER}
WRITER = """
import sys
import numpy as np, adios2
from adios2.bindings import Mode, StepMode, StepStatus
config, rank, writers, steps = sys.argv[1], *map(int, sys.argv[2:])
io = adios2.Adios(config).declare_io("model")
engine = io.open("out", Mode.Write)
rows, columns = 300, 1000
count = rows // writers
field = io.define_variable("field", np.empty(0), [rows, columns], [rank * count, 0], [count, columns], True)
when = io.define_variable("when", np.zeros(1))
for step in range(steps):
    engine.begin_step(StepMode.Append, -1.0)
    at = np.arange(rows * columns, dtype="f8").reshape(rows, columns)[rank * count:(rank + 1) * count] + step
    engine.put(field, np.ascontiguousarray(at), Mode.Sync)
    if rank == 0:
        engine.put(when, np.array([step * 0.5]), Mode.Sync)
    engine.end_step()
engine.close()
"""

READER = """
import sys
import numpy as np, adios2
from adios2.bindings import Mode, StepMode, StepStatus
io = adios2.Adios(sys.argv[1]).declare_io("model")
engine = io.open("out", Mode.Read)
expected = np.arange(300 * 1000, dtype="f8").reshape(300, 1000)
steps = 0
while engine.begin_step(StepMode.Read, 120.0) == StepStatus.OK:
    field = io.inquire_variable("field")
    field.set_selection([[0, 0], [300, 1000]])
    whole = np.zeros((300, 1000))
    engine.get(field, whole, Mode.Sync)
    assert (whole == expected + steps).all(), f"step {steps}"
    field.set_selection([[140, 5], [20, 7]])
    part = np.zeros((20, 7))
    engine.get(field, part, Mode.Sync)
    assert (part == (expected + steps)[140:160, 5:12]).all(), f"step {steps}"
    engine.end_step()
    steps += 1
engine.close()
print("read", steps)
"""


pytestmark = pytest.mark.xdist_group("network namespaces")
hosts = hosts_with(ADDRESSES)


def on(hosts, host, *words, **environment):
    """Run a program on a host; it is killed if it is still there afterwards."""
    return running(hosts.inside(host, *map(str, words)), os.environ | environment)


@pytest.fixture
def cluster(hosts, tmp_path):
    """Two BB nodes that listen for other hosts; gives the contact file."""
    contact = tmp_path / "contact.json"
    words = ["-m", "bbflow", "node", "--capacity", "64MiB", "--contact", contact]
    with (
        on(hosts, "bbn1", sys.executable, *words, "--name", "bb1", "--listen", ADDRESSES["bbn1"]) as first,
        on(hosts, "bbn2", sys.executable, *words, "--name", "bb2", "--listen", ADDRESSES["bbn2"]) as second,
    ):
        until(lambda: contact.exists() and len(json.loads(contact.read_text())["nodes"]) == 2)
        yield contact
        for process in (first, second):
            process.kill()


def config(folder, **parameters):
    path = Path(folder) / "model.xml"
    path.write_text(bbflow_adios2.engine_xml("model", **parameters))
    return path


def write(hosts, contact, xml, steps=5, writers=2):
    """Run the ranks on the compute host."""
    environment = bbflow_adios2.environment(contact)
    ranks = [
        on(
            hosts, "compute", sys.executable, "-c", WRITER, xml, rank, writers, steps,
            **environment, PMI_RANK=str(rank), PMI_SIZE=str(writers),
        )
        for rank in range(writers)
    ]  # fmt: skip
    with ranks[0] as first, ranks[1] as second:
        for process in (first, second):
            finish_well(process)


@pytest.mark.parametrize("options", [{}, pytest.param(FABRIC, marks=NEEDS_LIBFABRIC)], ids=["tcp", "fabric"])
def test_steps_of_another_host_land_on_both_nodes_and_are_read_on_a_third_host(hosts, cluster, tmp_path, options):
    xml = config(tmp_path, **options)
    write(hosts, cluster, xml)
    nodes = read_contact(cluster)
    assert {node.host for node in nodes} == {"bbn1", "bbn2"}
    with on(hosts, "desk", sys.executable, "-c", READER, xml, **bbflow_adios2.environment(cluster)) as reader:
        assert finish_well(reader) == "read 5\n"
    with on(hosts, "desk", sys.executable, "-m", "bbflow", "status", "--contact", cluster) as status:
        said = finish_well(status)
    assert "ranks 0 closed" in said
    assert "ranks 1 closed" in said


def test_a_reader_on_another_host_follows_while_the_ranks_write(hosts, cluster, tmp_path):
    xml = config(tmp_path)
    with on(hosts, "desk", sys.executable, "-c", READER, xml, **bbflow_adios2.environment(cluster)) as reader:
        write(hosts, cluster, xml, steps=60)
        assert finish_well(reader) == "read 60\n"


XARRAY_READER = """
import sys
import numpy as np, xarray as xr
expected = np.arange(300 * 1000, dtype="f8").reshape(300, 1000)
with xr.open_dataset(sys.argv[1], engine="bbflow", stream="model", wait=True, chunks={}) as dataset:
    assert dataset.field.chunks[1] == (300,), dataset.field.chunks  # small blocks come together, from both
    assert (dataset.field[3].values == expected + 3).all()
    assert (dataset.field[:, 140:160, 5:12].values == expected[140:160, 5:12] + np.arange(5)[:, None, None]).all()
    print("when", *dataset.when.values)
"""


BY_LIBFABRIC = f"""
from pathlib import Path
from bbflow.view import lease
lease._providers = lambda: [{PROVIDER!r}]
{XARRAY_READER}
assert "libfabric" in Path("/proc/self/maps").read_text()
"""


@pytest.mark.parametrize(
    "code", [XARRAY_READER, pytest.param(BY_LIBFABRIC, marks=NEEDS_LIBFABRIC)], ids=["tcp", "fabric"]
)
def test_xarray_reads_the_blocks_of_both_nodes_over_the_network(hosts, cluster, tmp_path, code):
    with on(hosts, "desk", sys.executable, "-W", "error", "-c", code, cluster) as reader:
        write(hosts, cluster, config(tmp_path))
        assert finish_well(reader) == "when 0.0 0.5 1.0 1.5 2.0\n"


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    """A function that tells its host, and the sum of its values."""
    folder = tmp_path_factory.mktemp("library")
    (folder / "sum.cpp").write_text(SUM)
    subprocess.run(["g++", "-shared", "-fPIC", folder / "sum.cpp", "-o", folder / "libsum.so"], check=True)
    return folder / "libsum.so"


SUM = """
#include <cstddef>
#include <cstdio>
#include <unistd.h>
extern "C" void map_sum(void *buf, size_t size, int fd)
{
    char host[100];
    gethostname(host, sizeof(host));
    double sum = 0;
    for (size_t i = 0; i < size / sizeof(double); ++i)
        sum += static_cast<const double *>(buf)[i];
    dprintf(fd, "%s %.0f\\n", host, sum);
}
"""


@pytest.mark.parametrize("is_launched", [False, True])
def test_a_registered_function_gets_fetched_blocks_or_runs_beside_each_node(
    hosts, cluster, library, tmp_path, is_launched
):
    words = ["-m", "bbflow", "register", "model", "--contact", cluster, "--variable", "field"]
    words += ["--map", f"{library}:map_sum", "--output", tmp_path / "sums"]
    if is_launched:
        words += ["--launch", shlex.join(hosts.inside("{host}"))]
    with on(hosts, "desk", sys.executable, *words) as registration:
        write(hosts, cluster, config(tmp_path))
        assert finish_well(registration) == ""
    said = [line.split() for line in (tmp_path / "sums").read_text().splitlines()]
    assert {host for host, _ in said} == ({"bbn1", "bbn2"} if is_launched else {"desk"})
    assert sum(int(total) for _, total in said) == sum(300_000 * 299_999 // 2 + 300_000 * step for step in range(5))


RANK_SUM = """
#include <cstdio>
#include <mpi.h>
#include <unistd.h>
extern "C" void rank_sum(int in_fd, int out_fd, MPI_Comm comm)
{
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    double value, own = 0, whole = 0;
    FILE *in = fdopen(dup(in_fd), "rb");
    for (long at = 0; fread(&value, sizeof value, 1, in) == 1; ++at)
        own += at % size == rank ? value : 0;
    fclose(in);
    MPI_Reduce(&own, &whole, 1, MPI_DOUBLE, MPI_SUM, 0, comm);
    char host[100];
    gethostname(host, sizeof host);
    dprintf(out_fd, "%s %.0f\\n", host, whole);
}
"""


def test_ranks_run_on_the_hosts_of_the_nodes_and_each_reads_the_logical_file(hosts, cluster, tmp_path):
    (tmp_path / "ranks.cpp").write_text(RANK_SUM)
    library = tmp_path / "libranks.so"
    mpicxx = Path(sys.executable).with_name("mpicxx")
    subprocess.run([mpicxx, "-shared", "-fPIC", tmp_path / "ranks.cpp", "-o", library], check=True)
    environment, named = launcher(hosts, ADDRESSES, tmp_path)
    words = [*named, sys.executable, "-m", "bbflow", "register", "model", "--contact", cluster, "--variable", "field"]
    words += ["--mpi", "--map", f"{library}:rank_sum", "--output", tmp_path / "sums"]
    with on(hosts, "desk", *words, **environment) as registration:
        write(hosts, cluster, config(tmp_path))
        assert finish_well(registration) == ""
    total = sum(300_000 * 299_999 // 2 + 300_000 * step for step in range(5))
    assert (tmp_path / "sums").read_text() == f"bbn1 {total}\nbbn2 0\n"
