"""What the test bed needs of the machine, and the reason in words where something is missing."""

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from benchmarks.testbed.address import HOSTS
from benchmarks.testbed.shaping import make_half_duplex
from testsupport.namespaces import joined_hosts


def server_command() -> list[str] | None:
    """Find an S3 server: versitygw in PATH or where Go installs it, else moto from PyPI, else None."""
    places = os.pathsep.join(
        [os.environ.get("PATH", ""), str(Path.home() / "go/bin"), str(Path(sys.executable).parent)]
    )
    if found := shutil.which("versitygw", path=places):
        return [found]
    if found := shutil.which("moto_server", path=places):
        return [found]
    return None


def server_name() -> str:
    """Name the server that would be used."""
    return Path((server_command() or ["none"])[0]).name


def missing() -> str | None:
    """Return why the test bed can't be set up here, or None if it can; the kernel is asked by trying."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    for tool in ("ip", "tc"):
        if shutil.which(tool) is None:
            return f"{tool} is missing: apt install iproute2"
    if find_spec("obstore") is None:
        return "obstore is missing: pip install obstore"
    if server_command() is None:
        return (
            "no S3 server: go install github.com/versity/versitygw/cmd/versitygw@latest, or pip install 'moto[server]'"
        )
    try:
        with joined_hosts(HOSTS) as hosts:
            make_half_duplex(hosts)
    except subprocess.CalledProcessError as error:
        said = (error.stderr or "").strip()
        return f"the kernel refuses {' '.join(error.cmd)}: {said} (needed: netns, veth, bridge, ifb, htb, u32, mirred)"
    return None
