"""Time x Cost: what the paper's table 3 says, and what no profile may say."""

from dataclasses import replace

import pytest

from bbflow.errors import ConfigError
from bbflow.models import CloudProfile, cloud_choices, cloud_time_s, least_time_cost

TABLE_2 = CloudProfile(25e6, 215e6, 2.638, 0.45, 18e6, 135e6, 0.405)


@pytest.mark.parametrize(("compute_nodes", "io_nodes"), [(1, 1), (2, 1), (4, 2)])
def test_the_best_number_of_io_nodes_is_that_of_the_papers_table_3(compute_nodes, io_nodes):
    assert least_time_cost(cloud_choices(TABLE_2, [compute_nodes], [1, 2, 4])).io_nodes == io_nodes


def test_a_job_that_is_serial_gains_nothing_by_nodes():
    serial = replace(TABLE_2, serial_share=1.0)
    assert cloud_time_s(serial, 1, 1) == cloud_time_s(serial, 8, 8)


def test_more_io_nodes_than_compute_nodes_only_cost():
    two, four = cloud_choices(TABLE_2, [2], [2, 4])
    assert four.time_s == two.time_s
    assert four.cost > two.cost


@pytest.mark.parametrize("wrong", [{"serial_share": 1.5}, {"cloud_bytes_per_s": 0.0}, {"compute_s": -1.0}])
def test_an_impossible_profile_is_refused_by_the_name_of_what_is_wrong(wrong):
    with pytest.raises(ConfigError, match=r"serial_share|cloud_bytes_per_s|negative"):
        replace(TABLE_2, **wrong)


def test_no_nodes_can_be_chosen_from_nothing():
    with pytest.raises(ConfigError, match="no number of nodes"):
        least_time_cost([])
    with pytest.raises(ConfigError, match="1 or more"):
        cloud_time_s(TABLE_2, 0, 1)
