"""Hosts of their own for tests: network namespaces that only TCP joins."""

import pytest

from benchmarks.namespaces import joined_hosts, missing


def hosts_with(addresses):
    """Return a fixture of hosts with a memory of their own, by name; it skips where there can be none."""

    @pytest.fixture(scope="module")
    def hosts():
        if reason := missing():
            pytest.skip(reason)
        with joined_hosts(addresses, own_memory=True) as joined:
            yield joined

    return hosts
