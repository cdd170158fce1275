"""The form with a communicator: one MPI process for each BB node, which reads the logical file."""

import shutil
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from bbflow.errors import MissingToolError, OperatorError
from bbflow.net.contact import NodeAddress
from bbflow.registered.rank import RankTask
from bbflow.registered.registration import Function

CRASHES = {
    "Segmentation fault": "SIGSEGV",
    "Aborted": "SIGABRT",
    "Bus error": "SIGBUS",
    "Floating": "SIGFPE",
    "Illegal instruction": "SIGILL",
}
"""How `faulthandler` calls signals."""


def run_ranks(function: Function, task: RankTask, nodes: Sequence[NodeAddress], stack: ExitStack) -> None:
    """Run a function with a rank beside each BB node, to its end.

    Parameters
    ----------
    function
        Which, for the message.
    task
        What each rank does.
    nodes
        Rank i runs on the host of node i.
    stack
        Kills the ranks if they are still there.

    Raises
    ------
    MissingToolError
        If there is no mpiexec.
    OperatorError
        If a rank dies, or couldn't read the whole stream.
    """
    mpiexec = shutil.which("mpiexec", path=str(Path(sys.executable).parent)) or shutil.which("mpiexec")
    if mpiexec is None:
        raise MissingToolError("mpiexec is missing: load the module of your MPI, or pip install mpich")
    hosts = [node.host for node in nodes]
    where = [] if set(hosts) == {socket.gethostname()} else ["-hosts", ",".join(hosts)]
    command = [mpiexec, "-n", str(len(hosts)), *where, sys.executable, "-m", "bbflow.registered.rank", task.to_json()]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sys.stderr.fileno())
    # Called in the opposite order: told to end, then waited for.
    stack.callback(process.wait)
    stack.callback(process.terminate)
    code = process.wait()
    if errors := [path.read_text() for path in sorted(Path(task.folder).glob("error.*"))]:
        raise OperatorError(f"{function}: {errors[0]}")
    crashes = [path.read_text() for path in Path(task.folder).glob("crash.*")]
    if killed := [signal for said, signal in CRASHES.items() if any(said in text for text in crashes)]:
        raise OperatorError(f"{function}: a rank was killed by {killed[0]}")
    if code:
        raise OperatorError(f"{function}: its ranks ended with code {code}")
