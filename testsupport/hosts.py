"""Hosts of their own for tests: network namespaces that only TCP joins."""

import shlex

import pytest

from testsupport.namespaces import joined_hosts, missing


def hosts_with(addresses):
    """Return a fixture of hosts with a memory of their own, by name; it skips where there can be none."""

    @pytest.fixture(scope="module")
    def hosts():
        if reason := missing():
            pytest.skip(reason)
        with joined_hosts(addresses, own_memory=True) as joined:
            yield joined

    return hosts


SSH = """#!/bin/sh
# Called as ssh is: options, host, command.
while [ "${1#-}" != "$1" ]; do shift; done
host=$1; shift
exec %s sh -c "$*"
"""


def launcher(hosts, addresses, folder):
    """Return the environment in which MPICH's mpiexec starts ranks on hosts, and words that let it know their names."""
    script = folder / "ssh"
    script.write_text(SSH % shlex.join(hosts.inside("HOST")).replace("HOST", "$host"))
    script.chmod(0o755)
    (folder / "hosts").write_text("".join(f"{address} {name}\n" for name, address in addresses.items()))
    named = ["unshare", "--mount", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"', folder / "hosts"]
    return {"HYDRA_LAUNCHER": "ssh", "HYDRA_LAUNCHER_EXEC": str(script)}, named
