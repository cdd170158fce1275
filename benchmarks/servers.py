"""Object stores on this host's loopback: moto, and versitygw if it is on the PATH."""

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

Options = dict[str, str]
KEY, SECRET, REGION = "bbflow", "bbflow-secret", "us-east-1"


def object_servers() -> dict[str, Callable[[], AbstractContextManager[Options]]]:
    """Return what can be started here; each has an empty bucket named ``bucket`` and gives its options."""
    found: dict[str, Callable[[], AbstractContextManager[Options]]] = {"moto": _moto}
    if shutil.which("versitygw"):
        found["versitygw"] = _versitygw
    return found


@contextmanager
def _moto() -> Iterator[Options]:
    with tempfile.TemporaryDirectory() as name:
        words = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
        with _running(words, Path(name) / "log", {}) as log:
            url = _until(lambda: re.search(r"(http://127\.0\.0\.1:\d+)\s", log.read_text()))[1]
            with urllib.request.urlopen(urllib.request.Request(f"{url}/bucket", method="PUT"), timeout=60):
                yield _options(url)


@contextmanager
def _versitygw() -> Iterator[Options]:
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "served" / "bucket").mkdir(parents=True)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        words = ["versitygw", "--port", f"127.0.0.1:{port}", "posix", f"{name}/served"]
        with _running(words, Path(name) / "log", {"ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET}):
            _until(lambda: _answers(port))
            yield _options(f"http://127.0.0.1:{port}")


def _options(url: str) -> Options:
    return {"endpoint_url": url, "key": KEY, "secret": SECRET, "region": REGION}


@contextmanager
def _running(words: list[str], log: Path, environment: dict[str, str]) -> Iterator[Path]:
    with (
        log.open("w") as file,
        subprocess.Popen(words, stdout=file, stderr=file, env=os.environ | environment) as server,
    ):
        try:
            yield log
        finally:
            server.kill()


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False


def _until(condition: Callable[[], Any], timeout_s: float = 60) -> Any:
    end_s = time.monotonic() + timeout_s
    while not (found := condition()):
        if time.monotonic() > end_s:
            raise TimeoutError("the server doesn't come up")
        time.sleep(0.05)
    return found
