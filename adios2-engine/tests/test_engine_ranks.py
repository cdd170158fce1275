import shutil
from contextlib import ExitStack
from types import SimpleNamespace

import pytest

from bbflow.landing.embedded import EmbeddedNodes
from bbflow.net.contact import NodeAddress, add_node, contact_key
from testsupport.processes import finish
from testsupport.writers import (
    arrays_of,
    node_status,
    run_program,
    run_writer,
    steps_of,
    wait_for_file,
    watch,
    watch_until,
    write_config,
    writing,
)

ONE_STEP = """
import os
rank, writers = int(os.environ.get("PMI_RANK", rank)), int(os.environ.get("PMI_SIZE", writers))
part = field(10, 10 * writers, 10 * rank)
engine = io.open("out", Mode.Write)
engine.begin_step()
engine.put(part, np.full(10, float(rank)), Mode.Sync)
if rank == 1:
    wait_for("go")
engine.end_step()
tell(f"committed.{rank}")
engine.close()
"""

TELL_OPEN = """
engine = io.open("out", Mode.Write)
tell(f"open.{rank}")
wait_for("go")
engine.close()
"""


def test_a_step_is_not_visible_before_all_ranks_committed_it(node, tmp_path):
    with writing(node.contact, ONE_STEP, write_config(tmp_path), ranks=3) as job:
        wait_for_file(tmp_path / "committed.0")
        wait_for_file(tmp_path / "committed.2")
        before = watch(node)  # whoever comes now is answered after what the node's sockets have already
        (tmp_path / "go").touch()
        returncode, said = finish(job)
    assert returncode == 0, said
    assert (before["writers"], before["steps"], before["status"]) == (3, [], "open")
    after = watch(node)
    (step,) = steps_of(after)
    assert after["status"] == "closed"
    assert [block.start for block in step.blocks] == [(0,), (10,), (20,)]
    assert [array.tolist() for _, array in arrays_of(node, step)] == [[float(rank)] * 10 for rank in range(3)]


def test_rank_and_writers_can_be_parameters(node, tmp_path):
    (tmp_path / "go").touch()
    with ExitStack() as stack:
        jobs = []
        for rank in range(2):
            config = write_config(tmp_path, Rank=str(rank), Writers="2")
            jobs.append(stack.enter_context(writing(node.contact, ONE_STEP, config, rank=rank, writers=2)))
        for job in jobs:
            returncode, said = finish(job)
            assert returncode == 0, said
    (step,) = steps_of(watch(node))
    assert [block.start for block in step.blocks] == [(0,), (10,)]


def test_ranks_spread_over_the_nodes_of_their_host(tmp_path):
    (tmp_path / "go").touch()
    with EmbeddedNodes(2, 1 << 20) as nodes:
        with writing(nodes.contact, ONE_STEP, write_config(tmp_path), ranks=3) as job:
            returncode, said = finish(job)
        assert returncode == 0, said
        first = watch(nodes)
        second = watch(SimpleNamespace(nodes=nodes.nodes[::-1]))
    starts = [[block.start for block in steps_of(shown)[0].blocks] for shown in (first, second)]
    assert starts == [[(0,), (10,)], [(20,)]]
    assert [(shown["writers"], shown["local_writers"]) for shown in (first, second)] == [(3, 2), (3, 1)]


def test_the_same_rank_cannot_open_twice(node, tmp_path):
    config = write_config(tmp_path)
    with writing(node.contact, TELL_OPEN, config):
        wait_for_file(tmp_path / "open.0")
        returncode, said = run_writer(node.contact, TELL_OPEN, config)
    assert returncode != 0
    assert "rank 0 of stream 'model' is process" in said


def test_ranks_that_disagree_on_their_number_are_refused(node, tmp_path):
    with writing(node.contact, TELL_OPEN, write_config(tmp_path)):
        wait_for_file(tmp_path / "open.0")
        other = write_config(tmp_path, Rank="1", Writers="2")
        returncode, said = run_writer(node.contact, TELL_OPEN, other)
        assert returncode != 0
        assert "set Writers" in said
    watch_until(node, lambda shown: shown["status"] == "aborted")


def test_rank_and_size_come_from_any_launcher(node, programs, tmp_path):
    names = {
        "PMI": ("PMI_RANK", "PMI_SIZE"),
        "Open MPI": ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
        "MVAPICH": ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
        "PMIx": ("PMIX_RANK", "PMIX_SIZE"),
        "Slurm": ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
    }
    for launcher, (rank, size) in names.items():
        config = write_config(tmp_path, stream=launcher)
        done = run_program(node, programs, "stepless", config, **{rank: "2", size: "5"})
        assert done.returncode == 0, done.stderr
    assert {launcher: watch(node, launcher)["writers"] for launcher in names} == dict.fromkeys(names, 5)
    assert node_status(node)["free"] < node_status(node)["capacity"]


def test_an_mpiexec_inside_a_slurm_allocation_counts_its_own_ranks(node, programs, tmp_path):
    slurm = {"SLURM_PROCID": "0", "SLURM_NTASKS": "1", "SLURM_STEP_NUM_TASKS": "1"}
    done = run_program(node, programs, "stepless", write_config(tmp_path), PMI_RANK="1", PMI_SIZE="4", **slurm)
    assert done.returncode == 0, done.stderr
    assert watch(node)["writers"] == 4


@pytest.mark.parametrize("hosts", [1, 2])
def test_a_batch_script_s_process_without_srun_is_one_writer(node, programs, tmp_path, hosts):
    """Slurm's variables tell it of the allocation, which has four tasks."""
    where = two_hosts(node, tmp_path) if hosts == 2 else node
    slurm = {"SLURM_JOB_ID": "1", "SLURM_NTASKS": "4", "SLURM_NTASKS_PER_NODE": "4", "SLURM_PROCID": "0"}
    done = run_program(where, programs, "stepless", write_config(tmp_path), SLURM_LOCALID="0", **slurm)
    assert done.returncode == 0, done.stderr
    shown = watch(node)
    assert (shown["writers"], shown["local_writers"], shown["status"]) == (1, 1, "closed")


def two_hosts(node, folder):
    """Return a contact file that also has a node of another host."""
    shutil.copy(node.contact, folder / "both.json")
    key = contact_key(node.contact)
    add_node(folder / "both.json", NodeAddress("bb9", "another-host", "/nowhere", "/nowhere", key, "192.0.2.9:9"))
    return SimpleNamespace(contact=folder / "both.json", nodes=node.nodes)


def test_with_nodes_on_several_hosts_only_this_host_s_ranks_land_here(node, programs, tmp_path):
    place = {"OMPI_COMM_WORLD_RANK": "5", "OMPI_COMM_WORLD_SIZE": "8"}
    local = {"OMPI_COMM_WORLD_LOCAL_RANK": "1", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}
    hosts = two_hosts(node, tmp_path)
    assert run_program(hosts, programs, "stepless", write_config(tmp_path), **place, **local).returncode == 0
    shown = watch(node)
    assert (shown["writers"], shown["local_writers"]) == (8, 2)


def test_with_nodes_on_several_hosts_the_launcher_must_say_who_is_here(node, programs, tmp_path):
    config = write_config(tmp_path, OpenTimeoutSecs="0.2")
    done = run_program(two_hosts(node, tmp_path), programs, "stepless", config)
    assert done.returncode == 1
    assert "how many ranks run on this one" in done.stderr
