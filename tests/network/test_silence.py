"""A host that vanishes is missed soon, and a process that is stopped isn't taken for one."""

import subprocess
import sys
from pathlib import Path

import pytest

from testsupport.namespaces import missing

CONNECTION = Path(__file__).with_name("silent_host.py")


@pytest.mark.parametrize("what", ["vanished", "stopped"])
def test_a_host_that_acknowledges_nothing_is_silent_and_one_whose_process_reads_nothing_is_not(what):
    if reason := missing():
        pytest.skip(reason)
    command = ["unshare", "--net", sys.executable, str(CONNECTION), what]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == ("silent" if what == "vanished" else "not silent")
