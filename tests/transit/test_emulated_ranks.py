"""Emulated ranks on real agents: what is measured with them at the size of a machine is right at a small one."""

import numpy as np
import pytest

from bbflow import connect
from bbflow.configuring.config import parse_config
from bbflow.transit.clusters.thread_cluster import ThreadCluster
from bbflow.transit.folding.task import fold_lane
from bbflow.transit.output.decoding import open_results
from benchmarks.emulate.decompositions import DECOMPOSITIONS, values
from benchmarks.emulate.nodes import serving
from benchmarks.emulate.ranks import Job

NODES, RANKS, VARIABLES, STEPS = 3, 7, 2, 30


@pytest.mark.parametrize("decomposition", DECOMPOSITIONS)
def test_what_emulated_ranks_write_is_folded_to_what_numpy_has(tmp_path, decomposition):
    operators = {f"v{number:03d}": ["mean", "max"] for number in range(VARIABLES)}
    config = {"stream": "emulated", "output": str(tmp_path / "out"), "operators": operators, "windows": ["day", "run"]}
    job = Job(decomposition, RANKS, VARIABLES, STEPS, late_s=0.001, data=True)
    contact = tmp_path / "contact.json"
    (tmp_path / "out").mkdir()
    with serving(contact, 0, NODES, 1 << 20), connect(contact).analyse(parse_config(config)) as analysis:
        job.write(job.opened(contact))
        assert analysis.wait(300).complete
    shape = DECOMPOSITIONS[decomposition](RANKS).shape
    with open_results(tmp_path / "out" / "results.zarr") as results:
        for number, name in enumerate(operators):
            steps = [values(step, number, shape, ((0,) * len(shape), shape)) for step in range(STEPS)]
            np.testing.assert_array_equal(results[f"{name}_run_max"][0], np.max(steps, axis=0))
            np.testing.assert_allclose(results[f"{name}_run_mean"][0], np.mean(steps, axis=0, dtype="f8"), rtol=1e-6)
            np.testing.assert_array_equal(results[f"{name}_day_max"][1], np.max(steps[24:], axis=0))


class CountedThreads(ThreadCluster):
    """Threads of this process that know how many tasks each batch of folds had."""

    def __init__(self, threads):
        super().__init__(threads)
        self.batches = []

    def submit_all(self, function, works, done, **how):
        """Count them."""
        if function is fold_lane:
            self.batches.append(len(works))
        return super().submit_all(function, works, done, **how)


@pytest.mark.parametrize("ranks", [NODES, 20 * NODES])
def test_a_batch_has_a_task_for_each_thread_of_each_node_however_many_ranks_there_are(tmp_path, ranks):
    config = {"stream": "emulated", "output": str(tmp_path / "out"), "operators": {"v000": ["mean"]}}
    contact = tmp_path / "contact.json"
    (tmp_path / "out").mkdir()
    job = Job("icon", ranks, VARIABLES, STEPS)
    with (
        serving(contact, 0, NODES, 1 << 20),
        CountedThreads(1) as threads,
        connect(contact).analyse(parse_config(config), threads) as analysis,
    ):
        job.write(job.opened(contact))
        assert analysis.wait(300).complete
    assert set(threads.batches) == {NODES}


@pytest.mark.parametrize("decomposition", DECOMPOSITIONS)
@pytest.mark.parametrize("ranks", [1, 6, 12, 13])
def test_the_blocks_of_all_ranks_are_the_whole_field(decomposition, ranks):
    whole = DECOMPOSITIONS[decomposition](ranks)
    covered = np.zeros(whole.shape, int)
    for rank in range(ranks):
        for start, count in whole.boxes(rank):
            covered[tuple(slice(at, at + size) for at, size in zip(start, count, strict=True))] += 1
    assert (covered == 1).all()
