"""The stream by which a simulation that reads it is asked to end: a process of its own writes one step into it.

It is open as long as the run lasts, so that a simulation can open it and look at any time whether there is a step.
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from bbflow.stream.adios import check_adios2, load_adios2, put_now

ENGINE = {"PluginName": "bbflow", "PluginLibrary": "bbflow_adios2", "Rank": "0", "Writers": "1"}
END_S = 10.0


def stop_stream_of(stream: str) -> str:
    """Name the stream in which a simulation is asked to end."""
    return f"{stream}_stop"


class StopStream:
    """Asks a simulation to end.

    Parameters
    ----------
    process
        Writes the stream.
    name
        Its name.
    """

    def __init__(self, process: "subprocess.Popen[bytes] | None" = None, name: str = "") -> None:
        self._process, self.name = process, name
        """The stream's name; empty if there is none."""

    @property
    def is_open(self) -> bool:
        """Whether it can be written."""
        return self._process is not None and self._process.poll() is None

    def tell(self, why: str) -> None:
        """Write the step for the stream's readers."""
        assert self._process is not None
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(why.replace("\n", " ").encode() + b"\n")
            self._process.stdin.flush()


@contextmanager
def open_stop_stream(stream: str, contact: Path, environment: Mapping[str, str]) -> Iterator[StopStream]:
    """Open the stream until the ``with`` ends.

    Parameters
    ----------
    stream
        The simulation's.
    contact
        Where the nodes are.
    environment
        In which ADIOS2 finds the engine.

    Raises
    ------
    MissingToolError
        If there is no ADIOS2 for Python.
    """
    check_adios2("asking a simulation to end")
    name = stop_stream_of(stream)
    words = [sys.executable, "-m", "bbflow.run.stop_stream", name, str(contact)]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, env={**os.environ, **environment}, start_new_session=True)
    try:
        yield StopStream(process, name)
    finally:
        assert process.stdin is not None
        with suppress(BrokenPipeError):
            process.stdin.close()
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:  # its node is gone: it isn't read any more
            process.kill()
            process.wait()


def serve(name: str, contact: str) -> None:
    """Write a step with `stop` and `why` for each line of standard input, and close the stream at its end."""
    import numpy as np

    adios2 = load_adios2("asking a simulation to end")
    io = adios2.Adios().declare_io(name)
    io.set_engine("Plugin")
    io.set_parameters(ENGINE | {"Stream": name, "Contact": contact})
    stop, why = io.define_variable("stop", np.zeros(1, "i4")), io.define_variable("why", "")
    engine = io.open(name, adios2.bindings.Mode.Write)
    try:
        for line in sys.stdin:
            engine.begin_step()
            put_now(engine, stop, np.ones(1, "i4"))
            engine.put(why, line.rstrip("\n"))
            engine.end_step()
        engine.close()
    except RuntimeError as error:  # its node is gone: who reads the stream learns that, too
        sys.exit(f"bbflow: the simulation can't be asked to end: {error}")


if __name__ == "__main__":
    serve(*sys.argv[1:])
