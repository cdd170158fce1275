"""Starting Python programs as forks of a process that waits for them, `warm_server`."""

import ctypes
import inspect
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

from bbflow.host import one_thread

ROOM = " " * 8192
"""Room for a program's words, which others see in ``/proc``."""
USUAL = {"executable": None, "preexec_fn": None, "close_fds": True, "pass_fds": (), "shell": False}
USUAL |= {"restore_signals": True, "gid": None, "gids": None, "uid": None, "umask": -1, "process_group": -1}
"""How a program is started that may be a fork."""
READ_LATE = ("ADIOS2_", "AWS_", "BBFLOW_", "PMI_", "PYTEST_", "TMPDIR", "XDG_", *one_thread.VARIABLES)
"""Begins of variables that may differ from the warm process': imports look only at the number of threads, 1."""
LONGEST_S = 100
COLD = subprocess.Popen
PR_SET_CHILD_SUBREAPER = 36  # prctl(2)


class Popen(COLD):
    """A `subprocess.Popen` whose process may be a fork of a warm one."""

    servers = ()

    def _execute_child(self, *words):
        given = inspect.signature(super()._execute_child).bind(*words).arguments
        if self.servers and (asked := _program(given)):
            ends = [given[name] for name in ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")]
            files = [own if end == -1 else end for own, end in enumerate((ends[0], ends[3], ends[5]))]
            server = next((each for each in self.servers if each.can_start(asked, files)), None)
            if server is not None:
                self.pid = server.start(asked, files)
                self._child_created = True
                self._close_pipe_fds(*ends)
                return
        super()._execute_child(*words)


def _program(given):
    """Return what the server is to be told of a Python program, None if it is another one or asks for more."""
    if any(given[name] != usual for name, usual in USUAL.items() if name in given):
        return None
    args, where = given["args"], os.path.abspath(given["cwd"] or ".")
    words = [] if isinstance(args, str | bytes | os.PathLike) else [os.fsdecode(word) for word in args]
    if len(words) < 2 or words[0] != sys.executable or sum(map(len, words)) + len(words) >= len(ROOM):
        return None
    is_script = words[1].endswith(".py") and os.path.isfile(os.path.join(where, words[1]))
    if not (is_script or (words[1] in ("-c", "-m") and len(words) > 2)) or not os.path.isdir(where):
        return None
    environment = os.environ if given["env"] is None else given["env"]
    return {
        "words": words,
        "environment": {os.fsdecode(key): os.fsdecode(value) for key, value in environment.items()},
        "cwd": where,
        "alone": given["start_new_session"],
        "hears_interrupts": signal.getsignal(signal.SIGINT) != signal.SIG_IGN,
    }


class Server:
    """A warm process that was begun with these variables; it ends with this one.

    Parameters
    ----------
    environment
        Its variables.
    begin
        Starts it when it is first asked; gives the socket to ask it by, and the process unless another ends it.
    """

    _starting, _counting = 0, threading.Lock()  # of all servers: what it decides is the process' own

    def __init__(self, environment, begin):
        self._environment, self._begin, self._inherited = environment, begin, _inherited()
        self._asking = None
        self._lock = threading.Lock()
        self._prctl = ctypes.CDLL(None, use_errno=True).prctl

    def can_start(self, program, files):
        """Whether a program would start here as it would by itself."""
        differing = program["environment"].items() ^ self._environment.items()
        same = all(key.startswith(READ_LATE) for key, _ in differing) and _inherited() == self._inherited
        return same and not any(map(os.isatty, files))

    def start(self, program, files):
        """Start a program as a child of this process; return its process ID."""
        with self._lock:
            if self._asking is None:
                self._asking, self.process = self._begin()
                self._asking.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
                self._asking.settimeout(LONGEST_S)
            try:
                with self._adopting():
                    socket.send_fds(self._asking, [json.dumps(program).encode()], files)
                    return int(self._asking.recv(64))
            except BaseException:  # such as a test's timeout: what comes now would be taken for the next one's
                self.close()
                raise

    @contextmanager
    def _adopting(self):
        """Make programs that servers leave alone this process' children, until the last thread that starts one ends."""
        self._adopt(1)
        try:
            yield
        finally:
            self._adopt(-1)

    def _adopt(self, more):
        with Server._counting:
            Server._starting += more
            self._prctl(PR_SET_CHILD_SUBREAPER, int(Server._starting > 0), 0, 0, 0)

    def close(self):
        """End it; the next program begins it again."""
        if self._asking is not None:
            self._asking.close()
            self._asking = None
            if self.process is not None:
                self.process.kill()
                self.process.wait()


def _inherited():
    """Return what a process has from its parent besides files, words and variables."""
    ignored = {number for number in signal.valid_signals() if signal.getsignal(number) == signal.SIG_IGN}
    kinds = [kind for name, kind in vars(resource).items() if name.startswith("RLIMIT_")]
    limits = [resource.getrlimit(kind) for kind in kinds]
    umask = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("Umask"))
    return umask, os.sched_getaffinity(0), limits, ignored - {signal.SIGINT}
