"""The S3 server on the storage host: a real one, its objects in memory, gone with the bed."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.testbed.address import ACCESS_KEY, BUCKET, ENDPOINT, HOSTS, PORT, SECRET_KEY
from benchmarks.testbed.needs import server_command, server_name
from testsupport.namespaces import Hosts, folder_in_memory

START_S = 120.0


@contextmanager
def serving(hosts: Hosts) -> Iterator[Path]:
    """Run the server until the block ends; give the directory of its bucket's objects, in /dev/shm."""
    with folder_in_memory() as name:
        (Path(name) / BUCKET).mkdir()
        process = subprocess.Popen(
            hosts.inside("storage", *_words(Path(name))),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            _await_bucket(hosts, process)
            yield Path(name) / BUCKET
        finally:
            process.kill()
            process.wait()


def _words(folder: Path) -> list[str]:
    command = server_command()
    assert command is not None, "needs.missing() says so first"
    if server_name() == "moto_server":
        return [*command, "-H", HOSTS["storage"], "-p", str(PORT)]
    keys = ["--access", ACCESS_KEY, "--secret", SECRET_KEY, "--port", f"{HOSTS['storage']}:{PORT}"]
    return [*command, *keys, "--keep-alive", "--quiet", "posix", str(folder)]


def _await_bucket(hosts: Hosts, process: "subprocess.Popen[bytes]") -> None:
    """Create the bucket as soon as the server answers; where the directory is the bucket, it refuses, and is up too."""
    create = (
        "import urllib.error, urllib.request\n"
        f"request = urllib.request.Request('{ENDPOINT}/{BUCKET}', method='PUT')\n"
        "try: urllib.request.urlopen(request, timeout=2)\n"
        "except urllib.error.HTTPError: pass"
    )
    until_s = time.monotonic() + START_S
    while process.poll() is None and time.monotonic() < until_s:
        words = hosts.inside("storage", sys.executable, "-c", create)
        if subprocess.run(words, stderr=subprocess.DEVNULL, timeout=START_S).returncode == 0:
            return
        time.sleep(0.1)
    raise RuntimeError(f"the S3 server doesn't answer within {START_S:.0f} s: {process.args!r}")
