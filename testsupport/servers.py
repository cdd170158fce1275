"""Object stores on this host's loopback: moto, and versitygw if it is on the PATH."""

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from bbflow.host.waiting import until

Options = dict[str, str]
KEY, SECRET, REGION = "bbflow", "bbflow-secret", "us-east-1"
PATIENCE_S = 300.0


def object_servers() -> dict[str, Callable[[], AbstractContextManager[Options]]]:
    """Return what can be started here; each has an empty bucket named ``bucket`` and gives its options."""
    found: dict[str, Callable[[], AbstractContextManager[Options]]] = {"moto": _moto}
    if shutil.which("versitygw"):
        found["versitygw"] = _versitygw
    return found


@contextmanager
def object_server(log: Path, bucket: str = "bucket") -> Iterator[str]:
    """Run moto, with a bucket, for as long as a ``with`` lasts; gives its URL."""
    with _running([sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"], log, {}):
        url = _seen(lambda: re.search(r"(http://127\.0\.0\.1:\d+)\s", log.read_text()))[1]  # the kernel chose the port
        with urllib.request.urlopen(urllib.request.Request(f"{url}/{bucket}", method="PUT"), timeout=PATIENCE_S):
            yield url


@contextmanager
def _moto() -> Iterator[Options]:
    with tempfile.TemporaryDirectory() as name, object_server(Path(name, "log")) as url:
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
            _seen(lambda: _answers(port))
            yield _options(f"http://127.0.0.1:{port}")


def _options(url: str) -> Options:
    return {"endpoint_url": url, "key": KEY, "secret": SECRET, "region": REGION}


@contextmanager
def _running(words: list[str], log: Path, environment: dict[str, str]) -> Iterator[None]:
    with (
        log.open("w") as file,
        subprocess.Popen(words, stdout=file, stderr=file, env=os.environ | environment) as server,
    ):
        try:
            yield
        finally:
            server.kill()


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False


def _seen(look: Callable[[], Any]) -> Any:
    if not (found := until(look, PATIENCE_S)):
        raise TimeoutError("the server doesn't come up")
    return found
