"""The process beside each BB node that runs a registered function, seen from the one that starts it."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from bbflow.errors import ConfigError, OperatorError, describe_end
from bbflow.operators.own.isolation import let_end
from bbflow.registered.registration import Function
from bbflow.registered.runner import Part


class FunctionProcess:
    """Runs one function in a process of its own.

    Parameters
    ----------
    function
        Of the form ``void func(void *buf, size_t size, int fd)``.
    target
        File that `fd` appends to; it is made.
    launcher
        Words that run a command elsewhere.
    """

    def __init__(self, function: Function, target: Path, launcher: Sequence[str] = ()) -> None:
        self.target = target
        """What the function has written."""
        self._function = function
        words = [str(function.library), function.symbol, str(target)]
        self._process = subprocess.Popen(
            [*launcher, sys.executable, "-m", "bbflow.registered.runner", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def check(self) -> None:
        """Wait until it has started; to be called once, before anything else.

        Raises
        ------
        ConfigError
            If there is no such function.
        """
        if error := self._answer("its start"):
            raise ConfigError(f"can't use {self._function}: {error}")

    def start(self, parts: Sequence[Part], environment: Mapping[str, str], *, in_pool: bool) -> None:
        """Start the function with the bytes of some parts."""
        assert self._process.stdin is not None
        request = {"parts": parts, "environment": environment, "in_pool": in_pool}
        with suppress(BrokenPipeError):  # `wait` tells how it died
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()

    def wait(self, where: str) -> None:
        """Wait until the function is done.

        Parameters
        ----------
        where
            What it works on, for the message.

        Raises
        ------
        OperatorError
            If its process died.
        """
        self._answer(where)

    def _answer(self, where: str) -> str | None:
        assert self._process.stdout is not None
        answer = self._process.stdout.readline()
        if not answer.endswith("\n"):
            raise OperatorError(f"{self._function} {describe_end(self._process.wait())} at {where}")
        error: str | None = json.loads(answer)
        return error

    def close(self) -> None:
        """End the process."""
        let_end(self._process)

    def __enter__(self) -> "FunctionProcess":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._process.kill()
        self.close()
