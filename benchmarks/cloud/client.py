"""Uses files as it is told, line by line, on a host of its own; a script that needs nothing but Python.

Each line holds a list: what to do, and its arguments; the answer is the seconds that it took, or what it counted.
"""

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable

BLOCK = 1 << 20
RANDOM = 4096
SEEN_S = 120.0
MOST_WRITES = 1000


def write(path: str, size: int) -> float:
    """Write a new file, close included."""
    block = os.urandom(BLOCK)
    begun_s = time.perf_counter()
    with open(path, "wb", buffering=0) as file:
        for at in range(0, size, BLOCK):
            file.write(block[: size - at])
    return time.perf_counter() - begun_s


def read(path: str, size: int) -> float:
    """Read a file that the kernel keeps nothing of; until it is seen as another host has written it doesn't count."""
    _wait_for(path, size)
    buffer = bytearray(BLOCK)
    begun_s = time.perf_counter()
    with open(path, "rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        while file.readinto(buffer):
            pass
    return time.perf_counter() - begun_s


def _wait_for(path: str, size: int) -> None:
    end_s = time.monotonic() + SEEN_S
    while not os.path.exists(path) or os.stat(path).st_size != size:
        if time.monotonic() > end_s:
            raise FileNotFoundError(f"{path} isn't seen as it was written")
        time.sleep(0.1)


def read_here_and_there(path: str, longest_s: float) -> float:
    """Return how many reads of 4 KiB there are a second."""
    return _here_and_there(path, longest_s, writes=False)


def write_here_and_there(path: str, longest_s: float) -> float:
    """Return how many writes of 4 KiB there are a second, close included; s3fs does its part for each at close."""
    return _here_and_there(path, longest_s, writes=True)


def _here_and_there(path: str, longest_s: float, *, writes: bool) -> float:
    pages, block, count = list(range(os.stat(path).st_size // RANDOM)), os.urandom(RANDOM), 0
    random.Random(1).shuffle(pages)  # each once: a page that was read is in the kernel's cache
    pages = pages[:MOST_WRITES] if writes else pages
    begun_s = time.perf_counter()
    descriptor = os.open(path, os.O_RDWR if writes else os.O_RDONLY)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
    while count < len(pages) and time.perf_counter() - begun_s < longest_s:
        if writes:
            os.pwrite(descriptor, block, pages[count] * RANDOM)
        else:
            os.pread(descriptor, RANDOM, pages[count] * RANDOM)
        count += 1
    os.close(descriptor)
    return count / (time.perf_counter() - begun_s)


def names(directory: str, count: int) -> dict[str, float]:
    """Return how many of each call on names there are a second, in a new directory."""
    os.mkdir(directory)
    paths = [f"{directory}/n{number}" for number in range(count)]

    def rate(call: Callable[[str], object]) -> float:
        begun_s = time.perf_counter()
        for path in paths:
            call(path)
        return count / (time.perf_counter() - begun_s)

    made = {
        "create": rate(lambda path: os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o644))),
        "stat": rate(os.stat),
        "rename": rate(lambda path: os.rename(path, path + "x")),
    }
    begun_s = time.perf_counter()
    listed = sum(entry.stat().st_size == 0 for entry in os.scandir(directory))
    made["readdir with stat"] = listed / (time.perf_counter() - begun_s)
    made["unlink"] = rate(lambda path: os.unlink(path + "x"))
    return made


def compute(seconds: float) -> float:
    """Compute for so long, as far as anybody else can tell."""
    time.sleep(seconds)
    return seconds


def write_files(directory: str, files: list[str], size: int) -> float:
    """Write files of one size."""
    return sum(write(f"{directory}/{name}", size) for name in files)


def read_files(directory: str, files: list[str], size: int) -> float:
    """Read files of one size."""
    return sum(read(f"{directory}/{name}", size) for name in files)


def run(words: list[str], directory: str) -> str:
    """Run a program in a directory; gives what it prints."""
    done = subprocess.run(words, capture_output=True, text=True, cwd=directory)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stdout


ACTIONS = {
    action.__name__: action
    for action in (
        write,
        read,
        read_here_and_there,
        write_here_and_there,
        names,
        compute,
        write_files,
        read_files,
        run,
    )
}


def main() -> None:
    """Answer each line of standard input."""
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        try:
            said = {"answer": ACTIONS[name](*arguments)}
        except (OSError, RuntimeError) as error:
            said = {"error": f"{name}: {error}"}
        print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
