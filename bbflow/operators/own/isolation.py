"""Users' code in a process of its own: what kills it kills nothing else."""

import atexit
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any

from bbflow.errors import OperatorError, describe_end
from bbflow.operators.own.origin import Origin


class Child:
    """A process that runs one user's code, one call at a time.

    Parameters
    ----------
    origin
        Where the code is.
    """

    def __init__(self, origin: Origin) -> None:
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bbflow.operators.own.isolated"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        send(self._process.stdin, (sys.path, origin))

    def call(self, work: bytes) -> Any:
        """Return what a call gave.

        Raises
        ------
        OperatorError
            If it raised, or the process is dead.
        """
        with self._lock:
            try:
                # One call at a time: request and reply share two pipes.
                send(self._process.stdin, work)
                is_fine, value = pickle.load(self._process.stdout)  # type: ignore[arg-type]
            except (EOFError, OSError, pickle.UnpicklingError):
                raise OperatorError(f"its process {describe_end(self._process.wait())}") from None
        if not is_fine:
            raise OperatorError(value)
        return value

    @property
    def is_alive(self) -> bool:
        """Whether it can be called."""
        return self._process.poll() is None

    def close(self) -> None:
        """End it."""
        let_end(self._process)

    def close_if_idle(self) -> bool:
        """End it unless it is called now, which may take any time; return whether it has ended."""
        is_idle = self._lock.acquire(blocking=False)
        if is_idle:
            self.close()
            self._lock.release()
        return is_idle


def let_end(process: subprocess.Popen[Any]) -> None:
    """Close the pipes to a process, and wait until it has ended."""
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(BrokenPipeError):  # it died before it took the last message in
                pipe.close()
    process.wait()


_children: dict[Origin, Child] = {}
_users = 0
_lock = threading.Lock()


@contextmanager
def in_use() -> Iterator[None]:
    """Keep the processes of users' code for what calls them again and again; with the last user they end."""
    global _users
    with _lock:
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            for origin in [] if _users else [*_children]:
                if _children[origin].close_if_idle():
                    del _children[origin]


def call(origin: Origin, target: Any, method: str, *arguments: Any, **keys: Any) -> Any:
    """Call a method of a user's object in the process that this code has for itself.

    Arrays are copied there and back. Methods that work in place give the changed arrays.

    Parameters
    ----------
    origin
        Where the code is: one process for each.
    target
        The object, or a pickled function.
    method
        The object's method; empty for a function.
    *arguments, **keys
        What it is called with.

    Raises
    ------
    OperatorError
        If it raised, or its process died.
    """
    with _lock:
        known = _children.get(origin)
        if known is None or not known.is_alive:
            if known is not None:
                known.close()
            known = _children[origin] = Child(origin)
    return known.call(pickle.dumps((target, method, arguments, keys), protocol=5))


@atexit.register
def close_all() -> None:
    """End all processes of users' code."""
    with _lock:
        for child in _children.values():
            child.close()
        _children.clear()


def send(pipe: IO[bytes] | None, message: Any) -> None:
    """Write a message at once."""
    assert pipe is not None
    pickle.dump(message, pipe, protocol=5)
    pipe.flush()
