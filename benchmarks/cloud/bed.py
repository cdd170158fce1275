"""The hosts of the cloud's figures: compute nodes, I/O nodes, and an S3 server behind links of given rates."""

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bbflow.host.waiting import until
from testsupport.namespaces import Hosts, folder_in_memory, joined_hosts
from testsupport.namespaces import missing as missing_hosts
from testsupport.servers import KEY, REGION, SECRET

STORE = "store"
IO_NODES = tuple(f"io{number}" for number in range(4))
COMPUTE = tuple(f"c{number}" for number in range(4))
ADDRESSES = {
    STORE: "10.78.0.1",
    **{host: f"10.78.0.{11 + number}" for number, host in enumerate(IO_NODES)},
    **{host: f"10.78.0.{21 + number}" for number, host in enumerate(COMPUTE)},
}
BUCKET, PORT = "bucket", 7070
PATIENCE_S = 600.0
STREAMS = 256
"""How many streams are told apart, by the client's port."""


@dataclass(frozen=True)
class Rates:
    """How fast the links are; None: as fast as this machine copies."""

    name: str
    """For the rows."""
    stream_bytes_per_s: float | None
    """Of each stream to or from the S3 server."""
    node_bytes_per_s: float | None
    """Of the link of each I/O node, in each direction."""


PAPER = Rates("S3 18 MB/s a stream, links 135 MB/s", 18e6, 135e6)
"""Thr_cloud and Thr_m of the paper's table 2."""
UNSHAPED = Rates("unshaped", None, None)


@dataclass(frozen=True)
class Bed:
    """The hosts while they are there."""

    hosts: Hosts
    """Their namespaces."""
    folder: Path
    """A directory in memory; hosts use directories of their own in it."""
    rates: Rates
    """Of the links."""

    @property
    def bucket(self) -> Path:
        """Where the S3 server keeps the bucket's objects: files with their names."""
        return self.folder / "served" / BUCKET

    @property
    def endpoint(self) -> str:
        """The S3 server's URL."""
        return f"http://{ADDRESSES[STORE]}:{PORT}"

    @property
    def environment(self) -> dict[str, str]:
        """How S3 clients find the server."""
        s3 = {"AWS_ENDPOINT_URL": self.endpoint, "AWS_REGION": REGION}
        kept = {name: value for name, value in os.environ.items() if name != "AWS_CA_BUNDLE"}
        return kept | s3 | {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET}

    @contextmanager
    def running(self, host: str, words: list[str], log: str) -> Iterator[subprocess.Popen[bytes]]:
        """Run a program on a host for as long as a ``with`` lasts."""
        with (self.folder / log).open("ab") as said:
            process = subprocess.Popen(
                self.hosts.inside(host, *words),
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
            )
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def call(self, host: str, *words: str) -> str:
        """Run a program on a host to its end; gives what it prints."""
        done = subprocess.run(
            self.hosts.inside(host, *words), env=self.environment, capture_output=True, text=True, timeout=PATIENCE_S
        )
        if done.returncode:
            raise RuntimeError(f"{' '.join(words)}: {done.stderr}")
        return done.stdout


def missing() -> str | None:
    """Return why the figures can't be taken here, or None if they can."""
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return "there is no /dev/fuse"
    if shutil.which("versitygw") is None:
        return "versitygw isn't on the PATH: go install github.com/versity/versitygw/cmd/versitygw@latest"
    return missing_hosts()


@contextmanager
def cloud_bed(rates: Rates) -> Iterator[Bed]:
    """Make the hosts, shape their links, and start the S3 server."""
    with joined_hosts(ADDRESSES) as hosts, folder_in_memory() as folder:
        bed = Bed(hosts, Path(folder), rates)
        bed.bucket.mkdir(parents=True)
        if rates.stream_bytes_per_s:
            _limit_streams(hosts, rates.stream_bytes_per_s)
        if rates.node_bytes_per_s:
            for host in IO_NODES:
                _limit_link(hosts, host, rates.node_bytes_per_s)
        served = ["env", f"ROOT_ACCESS_KEY={KEY}", f"ROOT_SECRET_KEY={SECRET}", "versitygw"]
        served += ["--port", f"{ADDRESSES[STORE]}:{PORT}", "posix", str(bed.bucket.parent)]
        with bed.running(STORE, served, "store.log"):
            come_up(lambda: answers(bed), "the S3 server")
            yield bed


def answers(bed: Bed) -> bool:
    """Whether the S3 server lets clients in."""
    try:
        bed.call(STORE, "bash", "-c", f"exec 3<>/dev/tcp/{ADDRESSES[STORE]}/{PORT}")
    except RuntimeError:
        return False
    return True


def come_up(condition: Callable[[], object], what: str) -> None:
    """Wait until something is up."""
    if not until(condition, PATIENCE_S):
        raise TimeoutError(f"{what} doesn't come up")


def _limit_streams(hosts: Hosts, bytes_per_s: float) -> None:
    """Shape each stream to and from the server to a rate of its own; two that share their port's last bits share it."""
    for host, device, port in ((STORE, "eth0", "dport"), ("bridge", STORE, "sport")):
        lines = [f"qdisc add dev {device} root handle 1: htb default {STREAMS + 1:x}"]
        lines += [f"class add dev {device} parent 1: classid 1:{STREAMS + 1:x} htb rate 10gbit"]
        for stream in range(STREAMS):
            rate = f"{int(bytes_per_s * 8)}bit"
            lines.append(
                f"class add dev {device} parent 1: classid 1:{stream + 1:x} htb rate {rate} burst 64k cburst 64k"
            )
            match = f"match ip {port} {stream << 1:#x} {(STREAMS - 1) << 1:#x}"  # a client's ports are all even, mostly
            lines.append(
                f"filter add dev {device} parent 1: protocol ip prio 1 u32 {match} match ip protocol 6 0xff "
                f"flowid 1:{stream + 1:x}"
            )
        words = hosts.inside(host, "tc", "-batch", "-")
        subprocess.run(words, input="\n".join(lines), text=True, check=True, capture_output=True, timeout=PATIENCE_S)


def _limit_link(hosts: Hosts, host: str, bytes_per_s: float) -> None:
    rate = f"tbf rate {int(bytes_per_s * 8)}bit burst 256k latency 50ms"
    hosts.run(host, f"tc qdisc add dev eth0 root {rate}")
    hosts.run("bridge", f"tc qdisc add dev {host} root {rate}")
