"""One MPI process that runs ``void func(int in_fd, int out_fd, MPI_Comm comm)`` of a shared library.

Its one argument is a `Task` in JSON. MPI comes with the library, which is linked to it: whatever it is, the process is
started by its mpiexec.
"""

import ctypes
import faulthandler
import json
import os
import socket
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bbflow.errors import BbflowError
from bbflow.host.log import tell
from bbflow.registered.following import FollowedStep, Following, silent
from bbflow.registered.mapping import dims
from bbflow.registered.runner import load
from bbflow.stream.cf import StreamAttributes
from bbflow.view.layout import Field, lay_out
from bbflow.view.lease import Lease
from bbflow.view.source import Array, Source

MPICH_WORLD, STANDARD_WORLD = 0x44000000, 0x101
"""MPI_COMM_WORLD in the ABI that MPICH, Intel MPI, Cray MPICH and MVAPICH share, and in that of the MPI 5 standard."""


@dataclass(frozen=True, slots=True)
class RankTask:
    """What a rank runs."""

    library: str
    """Path of the library."""
    symbol: str
    """The function."""
    folder: str
    """Where ranks leave their errors, and what they write if there is no `output`."""
    output: str | None = None
    """File that all ranks append to; None: each has one of its own, of its number."""
    input: str | None = None
    """File to read; None: the stream."""
    contact: str = ""
    """Contact file of the stream."""
    stream: str = ""
    """The stream."""
    variable: str | None = None
    """Whose values; None: the only array's."""

    def to_json(self) -> str:
        """Write it as an argument."""
        return json.dumps(asdict(self))


class Feeder(threading.Thread):
    """Writes the logical file into a pipe: the values of each step as one array, in row-major order.

    Parameters
    ----------
    task
        Names the stream.
    tell
        Says something to the user.
    """

    def __init__(self, task: RankTask, tell: Callable[[str], None]) -> None:
        super().__init__(daemon=True)
        self._tell = tell
        self._task = task
        self.output, self._input = os.pipe()
        self.known = threading.Event()
        """Set when the type and shape are known, or nothing will come."""
        self.error: BbflowError | None = None
        """Why the file is cut short."""
        self._following: Following | None = None

    def close(self) -> None:
        """End all reading, and wait: a process must not end under a thread that talks to nodes."""
        os.close(self.output)
        if self._following is not None:
            self._following.stop()
        self.join()

    def run(self) -> None:
        """Write until the stream is closed, or its reader is gone."""
        contact = Path(self._task.contact)
        try:
            with Following(contact, self._task.stream, self._task.variable, self._tell) as following:
                self._following = following
                lease = Lease(contact, self._task.stream)
                source = Source(contact, self._task.stream, lease)
                for step in following.steps():
                    if step.blocks:
                        self._feed(step, following, lease, source)
                    following.pass_through(step.number)
        except BrokenPipeError:  # the function has read what it wanted
            pass
        except BbflowError as error:
            self.error = error
        finally:
            self.known.set()
            os.close(self._input)

    def _feed(self, step: FollowedStep, following: Following, lease: Lease, source: Source) -> None:
        nodes = {node.name for node, _ in step.blocks}
        for node in nodes:
            lease.pin(node, [step.number])
        self._write(self._read(step, following, source))
        for node in nodes:
            lease.unpin(node, [step.number])

    def _read(self, step: FollowedStep, following: Following, source: Source) -> Array:
        placed = [(node.name, block) for node, block in step.blocks]
        field = lay_out([placed], [step.number], StreamAttributes(following.view.attributes))[step.variable]
        assert isinstance(field, Field)
        self._describe(step, field)
        return source.read(field, 0, tuple(slice(0, length) for length in field.shape))

    def _describe(self, step: FollowedStep, field: Field) -> None:
        if not self.known.is_set():  # before the function runs: it may read the environment at any time
            os.environ["BBFLOW_STREAM"] = self._task.stream
            os.environ["BBFLOW_VARIABLE"] = step.variable
            os.environ["BBFLOW_TYPE"] = step.blocks[0][1].type
            os.environ["BBFLOW_SHAPE"] = dims(field.shape)
            self.known.set()

    def _write(self, values: Array) -> None:
        part = np.ascontiguousarray(values).reshape(-1).view(np.uint8).data
        while part:
            part = part[os.write(self._input, part) :]


def main(text: str) -> None:
    """Run the function and end MPI."""
    task = RankTask(**json.loads(text))
    # mpiexec doesn't tell a signal from an exit code.
    crash_fd = os.open(f"{task.folder}/crash.{socket.gethostname()}.{os.getpid()}", os.O_WRONLY | os.O_CREAT, 0o600)
    faulthandler.enable(crash_fd)
    function = load(task.library, task.symbol)
    library = ctypes.CDLL(task.library)
    library.MPI_Init(None, None)
    world = communicator(library)
    number = ctypes.c_int()
    library.MPI_Comm_rank(world, ctypes.byref(number))
    out_path = task.output or f"{task.folder}/rank.{number.value:06d}"
    out_fd = os.open(out_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    feeder = None if task.input else Feeder(task, silent if number.value else tell)
    if feeder:
        feeder.start()
        feeder.known.wait()
    in_fd = feeder.output if feeder else os.open(task.input or os.devnull, os.O_RDONLY)
    function(ctypes.c_int(in_fd), ctypes.c_int(out_fd), world)
    if feeder:
        if feeder.error:
            Path(f"{task.folder}/error.{number.value:06d}").write_text(str(feeder.error))
        feeder.close()
    else:
        os.close(in_fd)
    library.MPI_Finalize()


def communicator(library: Any) -> Any:
    """Return MPI_COMM_WORLD as the library's MPI has it.

    Parameters
    ----------
    library
        A library that is linked to MPI.
    """
    try:
        return ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(library, "ompi_mpi_comm_world")))
    except ValueError:
        pass
    maps = Path("/proc/self/maps").read_text()
    return ctypes.c_void_p(STANDARD_WORLD) if "libmpi_abi" in maps else ctypes.c_int(MPICH_WORLD)


if __name__ == "__main__":
    main(*sys.argv[1:])
