"""Montage on files before an S3 server: the mount of BB nodes, beside tmpfs, s3fs and rclone."""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from bbflow_workflows.montage import Survey, make_tiles

from bbflow.staging import Sources
from benchmarks.rows import Row
from benchmarks.servers import Options, object_servers

MEMORY = "/dev/shm"
"""Only directories of our own are used in it."""
BUCKET, SURVEY = "bucket", "survey"
TILES = Survey(rows=4, columns=4, pixels=420)
"""A mosaic of 17 MB, which Montage writes as doubles."""
QUICK = Survey(rows=2, columns=3, pixels=420)
PATIENCE_S = 1800
MOUNTED_S = 60

Way = Callable[[Path, Options], AbstractContextManager[Path]]


def measure(quick: bool = False) -> list[Row]:
    """Make the mosaic on each file system that this machine has, each time with caches that are empty."""
    ways = {name: way for name, (needs, way) in WAYS.items() if all(shutil.which(need) for need in needs)}
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        ways = {TMPFS: ways[TMPFS]}
    servers = object_servers()
    start = servers.get("versitygw", servers["moto"])
    times: dict[str, list[float]] = {name: [] for name in ways}
    with tempfile.TemporaryDirectory() as scratch, start() as options:
        tiles = Path(scratch) / SURVEY
        make_tiles(tiles, QUICK if quick else TILES)
        _fill(tiles, options)
        mosaics = set()
        for number in range(1 if quick else 3):
            for name, way in ways.items():
                with tempfile.TemporaryDirectory(dir=scratch) as own, way(Path(own), options) as directory:
                    output = directory / f"out-{list(ways).index(name)}-{number}"
                    times[name].append(_make(directory / SURVEY, output))
                    mosaics.add((output / "mosaic.fits").read_bytes())
        assert len(mosaics) == 1, "the mosaics differ"
    return _rows(times)


def _rows(times: dict[str, list[float]]) -> list[Row]:
    base_s = statistics.median(times[TMPFS])
    middle = {name: statistics.median(spent_s) for name, spent_s in times.items()}
    return [Row(name, spent_s, "s", spent_s / base_s) for name, spent_s in middle.items()]


def _make(survey: Path, output: Path) -> float:
    words = [sys.executable, "-m", "benchmarks.montage_job", str(survey), str(output)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S)
    if done.returncode:
        raise RuntimeError(f"no mosaic in {output}: {done.stderr}")
    return float(done.stdout)


def _fill(tiles: Path, options: Options) -> None:
    sources = Sources({"s3": options})
    for path in tiles.iterdir():
        with sources.create(f"s3://{BUCKET}/{SURVEY}/{path.name}") as file:
            file.write(path.read_bytes())


@contextmanager
def _tmpfs(own: Path, options: Options) -> Iterator[Path]:
    """Have the tiles there already: the bound for what a file system before a bucket can do."""
    with tempfile.TemporaryDirectory(prefix="bbflow-montage-", dir=MEMORY) as directory:
        sources = Sources({"s3": options})
        (Path(directory) / SURVEY).mkdir()
        for found in sources.tree(f"s3://{BUCKET}/{SURVEY}"):
            with sources.open(found.url, sources.facts(found.url)) as reader:
                (Path(directory) / SURVEY / found.name).write_bytes(reader.read(0, found.size_bytes or 0))
        yield Path(directory)


@contextmanager
def _bbflow(own: Path, options: Options, *words: str) -> Iterator[Path]:
    contact, directory = own / "contact.json", _directory(own)
    environment = os.environ | _variables(options)
    with tempfile.TemporaryDirectory(prefix="bbflow-montage-", dir=MEMORY) as memory:
        given = ["--contact", str(contact), "--directory", memory, "--capacity", "2GiB"]
        _bbflow_command(["up", *given, "--files", f"s3://{BUCKET}"], environment)
        try:
            _bbflow_command(["mount", *words, str(contact), str(directory)], environment)
            try:
                yield directory
            finally:
                _bbflow_command(["mount", "--unmount", str(directory)], environment)
        finally:
            _bbflow_command(["down", "--contact", str(contact)], environment)


@contextmanager
def _s3fs(own: Path, options: Options, *words: str) -> Iterator[Path]:
    directory, secrets = _directory(own), own / "secrets"
    secrets.write_text(f"{options['key']}:{options['secret']}\n")
    secrets.chmod(0o600)
    given = [f"url={options['endpoint_url']}", f"passwd_file={secrets}", "use_path_request_style", *words]
    with _mounted(["s3fs", BUCKET, str(directory), "-f", *(word for o in given for word in ("-o", o))], directory):
        yield directory


@contextmanager
def _rclone(own: Path, options: Options) -> Iterator[Path]:
    directory = _directory(own)
    words = ["--config", os.devnull, "--s3-provider", "Other", "--s3-endpoint", options["endpoint_url"]]
    words += ["--s3-access-key-id", options["key"], "--s3-secret-access-key", options["secret"]]
    words += ["--s3-region", options["region"], "--vfs-cache-mode", "full", "--cache-dir", str(own / "cache")]
    with _mounted(["rclone", "mount", f":s3:{BUCKET}", str(directory), *words], directory):
        yield directory


@contextmanager
def _mounted(words: list[str], directory: Path) -> Iterator[None]:
    """Run a file system in the foreground for as long as a ``with`` lasts."""
    # rclone refuses to run with a bundle of certificates for its S3 client, which needs none on loopback.
    environment = {name: value for name, value in os.environ.items() if name != "AWS_CA_BUNDLE"}
    with subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            end_s = time.monotonic() + MOUNTED_S
            while not os.path.ismount(directory):
                if process.poll() is not None or time.monotonic() > end_s:
                    raise RuntimeError(f"{words[0]} doesn't mount {directory}")
                time.sleep(0.05)
            yield
        finally:
            subprocess.run(["umount", "--lazy", str(directory)], check=False, capture_output=True)
            try:
                process.wait(MOUNTED_S)
            except subprocess.TimeoutExpired:
                process.kill()


def _directory(own: Path) -> Path:
    directory = own / "mounted"
    directory.mkdir()
    return directory


def _bbflow_command(words: list[str], environment: dict[str, str]) -> None:
    command = [sys.executable, "-m", "bbflow", *words]
    subprocess.run(command, check=True, env=environment, timeout=PATIENCE_S, stdout=subprocess.DEVNULL)


def _variables(options: Options) -> dict[str, str]:
    return {
        "AWS_ENDPOINT_URL": options["endpoint_url"],
        "AWS_ACCESS_KEY_ID": options["key"],
        "AWS_SECRET_ACCESS_KEY": options["secret"],
        "AWS_REGION": options["region"],
    }


TMPFS = "tmpfs, tiles there already"
WAYS: dict[str, tuple[tuple[str, ...], Way]] = {
    TMPFS: ((), _tmpfs),
    "bbflow mount": ((), _bbflow),
    "bbflow mount, --no-passthrough": ((), lambda own, options: _bbflow(own, options, "--no-passthrough")),
    "rclone mount, --vfs-cache-mode full": (("rclone",), _rclone),
    "s3fs, use_cache": (("s3fs",), lambda own, options: _s3fs(own, options, f"use_cache={own / 'cache'}")),
    "s3fs": (("s3fs",), _s3fs),
}
"""Programs that each way needs, and the way."""
