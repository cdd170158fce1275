"""File systems before a bucket, and what they are compared with: each gives clients on the compute nodes."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

from bbflow.mount.mounting import PROGRAM, READY
from benchmarks.cloud.bed import ADDRESSES, BUCKET, PATIENCE_S, Bed, come_up
from testsupport.servers import KEY, REGION, SECRET

CLIENT = Path(__file__).with_name("client.py")
CAPACITY = "2GiB"
COUNT = """
import sys
from pathlib import Path
from bbflow.files.client.client import FilesClient
with FilesClient(Path(sys.argv[1])) as client:
    print(sum(node.up for master in client.status() for node in master.nodes))
"""


class Client:
    """A program on a compute node that uses files as it is told.

    Parameters
    ----------
    words
        How it is started there.
    directory
        Where it has the files.
    environment
        Its own.
    """

    def __init__(self, words: list[str], directory: Path, environment: dict[str, str]) -> None:
        self.directory = directory
        """Where the files are."""
        self._process = subprocess.Popen(
            [*words, sys.executable, str(CLIENT)],
            env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def begin(self, action: str, *arguments: Any) -> None:
        """Send it a command."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([action, *arguments]) + "\n")
        self._process.stdin.flush()

    def end(self) -> Any:
        """Wait for the answer."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        said = json.loads(line) if line else {"error": "the client is gone"}
        if "error" in said:
            raise RuntimeError(said["error"])
        return said["answer"]

    def ask(self, action: str, *arguments: Any) -> Any:
        """Send it a command, and wait for the answer."""
        self.begin(action, *arguments)
        return self.end()

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(PATIENCE_S)


def at_once(clients: Sequence[Client], asked: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Ask clients for something side by side; return their answers."""
    for client, words in zip(clients, asked, strict=True):
        client.begin(*words)
    return [client.end() for client in clients]


Mount = Callable[[str], AbstractContextManager[Client]]
"""Returns a client on a compute node."""
System = Callable[[Bed], AbstractContextManager[Mount]]
"""Starts the servers of a file system, if it has any."""


@contextmanager
def tmpfs(bed: Bed) -> Iterator[Mount]:
    """Memory of the host itself: the bound for all others."""
    directory = bed.folder / "plain"
    directory.mkdir(exist_ok=True)

    @contextmanager
    def mount(host: str) -> Iterator[Client]:
        yield from _client(bed.hosts.inside(host), directory, bed)

    yield mount
    shutil.rmtree(directory)


def nodes(hosts: Sequence[str], *words: str, options: Sequence[str] = ()) -> System:
    """Files on BB nodes: an IOnode on each of some hosts, the master on the first.

    Parameters
    ----------
    hosts
        Where.
    *words
        Options of the mounts.
    options
        Those of the master.
    """

    @contextmanager
    def system(bed: Bed) -> Iterator[Mount]:
        with ExitStack() as stack:
            contact = _serve(bed, stack, hosts, options)

            @contextmanager
            def mount(host: str) -> Iterator[Client]:
                given = [str(PROGRAM), *words, "--contact", str(contact)]
                yield from _mounted(bed, host, given, lambda log, _: READY in log.read_text())

            yield mount
            bed.call(hosts[0], *_bbflow("files", "flush", "--contact", str(contact)))

    return system


def _serve(bed: Bed, stack: ExitStack, hosts: Sequence[str], options: Sequence[str]) -> Path:
    here = Path(_fresh(bed, "nodes"))
    contact, storage = here / "contact.json", ["--contact", str(here / "contact.json"), "--storage", f"s3://{BUCKET}"]
    for number, host in enumerate(hosts):
        own = [*storage, "--listen", ADDRESSES[host]]
        if not number:
            master = _bbflow("files", "master", *own, "--directory", str(here / "master"), *options)
            stack.enter_context(bed.running(host, master, f"{here.name}-master.log"))
        node = _bbflow("files", "ionode", *own, "--directory", str(here / host), "--name", host)
        stack.enter_context(bed.running(host, [*node, "--capacity", CAPACITY], f"{here.name}-{host}.log"))
    come_up(lambda: _are_up(bed, hosts, contact), "the BB nodes")
    return contact


def _are_up(bed: Bed, hosts: Sequence[str], contact: Path) -> bool:
    try:
        return int(bed.call(hosts[0], sys.executable, "-c", COUNT, str(contact))) == len(hosts)
    except RuntimeError:
        return False


def _bbflow(*words: str) -> list[str]:
    return [sys.executable, "-m", "bbflow", *words]


def s3fs(*options: str, caches: bool = False) -> System:
    """s3fs, by default without a cache."""

    @contextmanager
    def system(bed: Bed) -> Iterator[Mount]:
        secrets = Path(_fresh(bed, "s3fs")) / "secrets"
        secrets.write_text(f"{KEY}:{SECRET}\n")
        secrets.chmod(0o600)

        @contextmanager
        def mount(host: str) -> Iterator[Client]:
            given = [f"url={bed.endpoint}", f"passwd_file={secrets}", "use_path_request_style", *options]
            given += [f"use_cache={_fresh(bed, 'cache')}"] if caches else []
            yield from _mounted(bed, host, ["s3fs", BUCKET, "-f", *(w for o in given for w in ("-o", o))], _is_mounted)

        yield mount

    return system


@contextmanager
def rclone(bed: Bed) -> Iterator[Mount]:
    """Mount by rclone, which keeps whole files on the host."""

    @contextmanager
    def mount(host: str) -> Iterator[Client]:
        words = ["rclone", "mount", f":s3:{BUCKET}", "--config", os.devnull, "--s3-provider", "Other"]
        words += ["--s3-endpoint", bed.endpoint, "--s3-access-key-id", KEY, "--s3-secret-access-key", SECRET]
        words += ["--s3-region", REGION, "--vfs-cache-mode", "full", "--cache-dir", _fresh(bed, "cache")]
        words += ["--vfs-write-back", "0", "--dir-cache-time", "0"]
        yield from _mounted(bed, host, words, _is_mounted)

    yield mount


@contextmanager
def geesefs(bed: Bed) -> Iterator[Mount]:
    """geesefs, which keeps files in the program's memory and uploads them in the background."""

    @contextmanager
    def mount(host: str) -> Iterator[Client]:
        words = ["geesefs", "-f", "--endpoint", bed.endpoint, "--region", REGION, "--memory-limit", "2000", BUCKET]
        yield from _mounted(bed, host, words, _is_mounted)

    yield mount


def _mounted(
    bed: Bed, host: str, words: list[str], is_there: Callable[[Path, tuple[int, Path]], bool]
) -> Iterator[Client]:
    directory = Path(_fresh(bed, "mount"))
    log = f"{directory.name}.log"
    with bed.running(host, [*words, str(directory)], log) as process:
        come_up(lambda: process.poll() is not None or is_there(bed.folder / log, (process.pid, directory)), words[0])
        if process.poll() is not None:
            raise RuntimeError(f"{words[0]} doesn't mount: {(bed.folder / log).read_text()}")
        spaces = ["nsenter", "--target", str(process.pid), "--mount", "--net", "--uts", f"--wd={os.getcwd()}"]
        yield from _client(spaces, directory, bed)


def _is_mounted(_: Path, where: tuple[int, Path]) -> bool:
    process, directory = where
    table = Path("/proc", str(process), "mountinfo").read_text()
    return any(line.split()[4] == str(directory) for line in table.splitlines())


def _client(words: list[str], directory: Path, bed: Bed) -> Iterator[Client]:
    client = Client(words, directory, bed.environment)
    try:
        yield client
    finally:
        client.close()


def _fresh(bed: Bed, what: str) -> str:
    """Make a directory that no other has."""
    number = 0
    while (directory := bed.folder / f"{what}{number}").exists():
        number += 1
    directory.mkdir()
    return str(directory)


BASELINES: dict[str, tuple[str, System]] = {
    "s3fs": ("s3fs", s3fs()),
    "s3fs, use_cache": ("s3fs", s3fs(caches=True)),
    "rclone mount, --vfs-cache-mode full": ("rclone", rclone),
    "geesefs": ("geesefs", geesefs),
}
"""What users have today: the program that each needs, and it."""


def baselines() -> dict[str, System]:
    """Return those whose program is there."""
    return {name: system for name, (program, system) in BASELINES.items() if shutil.which(program)}
