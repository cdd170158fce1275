"""A personal HTCondor on one host of the bed: daemons on its loopback, gone with the host."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from testsupport.namespaces import Hosts

START_S = 120.0
_AS_ORDINARY_USER = ("unshare", "--user", "--map-user=1", "--map-group=1")
"""HTCondor runs nothing for root, whom the bed needs; by another name, which every Linux knows, it does."""
_CONFIG = """
LOCAL_DIR = {folder}
LOG = {folder}/log
SPOOL = {folder}/spool
EXECUTE = {folder}/execute
LOCK = {folder}/lock
RUN = {folder}/run
RELEASE_DIR = /usr
LIB = /usr/lib/$(ARCH)-linux-gnu/condor
LIBEXEC = /usr/libexec/condor
SBIN = /usr/sbin
BIN = /usr/bin
CONDOR_HOST = 127.0.0.1
NETWORK_INTERFACE = 127.0.0.1
BIND_ALL_INTERFACES = False
ENABLE_IPV6 = False
FULL_HOSTNAME = localhost
NO_DNS = True
DEFAULT_DOMAIN_NAME = local
UID_DOMAIN = local
FILESYSTEM_DOMAIN = local
TRUST_UID_DOMAIN = True
USE_SHARED_PORT = False
COLLECTOR_HOST = 127.0.0.1:0
COLLECTOR_ADDRESS_FILE = {folder}/collector_address
DAEMON_LIST = MASTER, COLLECTOR, NEGOTIATOR, SCHEDD, STARTD
SEC_DEFAULT_AUTHENTICATION_METHODS = FS
SEC_DEFAULT_AUTHENTICATION = REQUIRED
ALLOW_READ = *
ALLOW_WRITE = *
ALLOW_DAEMON = *
ALLOW_NEGOTIATOR = *
ALLOW_ADMINISTRATOR = *
START = TRUE
SUSPEND = FALSE
PREEMPT = FALSE
KILL = FALSE
NUM_CPUS = {slots}
NUM_SLOTS = {slots}
MEMORY = 8192
MOUNT_UNDER_SCRATCH =
MOUNT_PRIVATE_DEV_SHM = False
USE_PID_NAMESPACES = False
USE_PROCD = False
STARTER_ALLOW_RUNAS_OWNER = True
NEGOTIATOR_INTERVAL = 2
NEGOTIATOR_MIN_INTERVAL = 1
NEGOTIATOR_CYCLE_DELAY = 1
SCHEDD_INTERVAL = 5
SCHEDD_MIN_INTERVAL = 1
UPDATE_INTERVAL = 5
JOB_START_DELAY = 0
JOB_START_COUNT = 50
DAGMAN_USER_LOG_SCAN_INTERVAL = 1
DAGMAN_SUBMIT_DELAY = 0
DAGMAN_MAX_SUBMITS_PER_INTERVAL = 100
DISCARD_SESSION_KEYRING_ON_STARTUP = False
RESERVED_DISK = 0
"""
"""Short waits: HTCondor's own are made for jobs of hours."""


def inside(hosts: Hosts, host: str, *words: str) -> list[str]:
    """Return the command that runs `words` on a host as HTCondor's user."""
    return hosts.inside(host, *_AS_ORDINARY_USER, *words)


@contextmanager
def pool(hosts: Hosts, host: str, folder: Path, slots: int) -> Iterator[dict[str, str]]:
    """Run it until the block ends; gives the variables by which HTCondor's programs find it."""
    for name in ("log", "spool", "execute", "lock", "run"):
        (folder / name).mkdir(parents=True)
    config = folder / "condor_config"
    config.write_text(_CONFIG.format(folder=folder, slots=slots))
    environment = {"CONDOR_CONFIG": str(config)}
    with (folder / "master.log").open("w") as log:
        master = subprocess.Popen(
            inside(hosts, host, "condor_master", "-f"), stdout=log, stderr=log, env=os.environ | environment
        )
        try:
            _await_slots(hosts, host, master, environment)
            yield environment
        finally:
            master.send_signal(signal.SIGQUIT)  # at once, without waiting for jobs
            try:
                master.wait(START_S)
            finally:
                master.kill()
                master.wait()


def _await_slots(hosts: Hosts, host: str, master: "subprocess.Popen[bytes]", environment: dict[str, str]) -> None:
    until_s = time.monotonic() + START_S
    while master.poll() is None and time.monotonic() < until_s:
        words = inside(hosts, host, "condor_status", "-af", "Name")
        said = subprocess.run(words, capture_output=True, text=True, env=os.environ | environment, timeout=START_S)
        if "slot" in said.stdout:
            return
        time.sleep(0.5)
    raise RuntimeError(f"HTCondor has no slots within {START_S:.0f} s: see {environment['CONDOR_CONFIG']}")
