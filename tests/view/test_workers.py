"""A dataset's arrays in Dask workers, which are other processes."""

import pickle

import numpy as np
import pytest
from dask.distributed import Client, LocalCluster
from test_open_dataset import expected_steps, whole_run

from bbflow.errors import StreamError
from testsupport.asking import ask_once


@pytest.fixture(scope="module")
def client():
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster) as client,
    ):
        yield client


def test_workers_of_the_same_host_read_the_blocks(client, two_nodes, opened, tmp_path):
    whole_run(two_nodes, tmp_path)
    dataset = opened(two_nodes, chunks={})
    with client.as_current():
        assert (dataset.tas.mean("time").compute().values == expected_steps().mean(0)).all()
        assert (dataset.tas[2:4].compute().values == expected_steps()[2:4]).all()


def test_the_key_of_the_nodes_does_not_travel_with_the_arrays(two_nodes, opened, tmp_path):
    whole_run(two_nodes, tmp_path)
    pickled = pickle.dumps(opened(two_nodes, chunks={}).tas)
    assert two_nodes.nodes[0].key.encode() not in pickled
    assert (pickle.loads(pickled)[5].values == expected_steps()[5]).all()


def test_an_array_of_another_process_holds_what_it_shows_for_itself(two_nodes, opened, tmp_path):
    whole_run(two_nodes, tmp_path, ranks=2)
    dataset = opened(two_nodes)
    copy = pickle.loads(pickle.dumps(dataset.tas))
    dataset.close()
    part = copy[3, :2].values
    status = ask_once(two_nodes.nodes[0], "status")["streams"]["model"]
    assert status["readers"] == 1
    assert np.array_equal(part, expected_steps()[3, :2])


def test_a_worker_says_so_if_a_step_is_gone(client, two_nodes, opened, tmp_path):
    whole_run(two_nodes, tmp_path)
    dataset = opened(two_nodes, chunks={})
    for node in two_nodes.nodes:
        ask_once(node, "drop", stream="model")
    with client.as_current(), pytest.raises(StreamError, match=r"stream 'model'"):
        dataset.tas.mean().compute()
