"""Apps as users write them: nothing here knows of burst buffers. Workers import this file."""

import os
from pathlib import Path


def read(file):
    return os.fspath(file), Path(file).read_text()


def read_all(inputs=(), extra=None):
    return [read(file) for file in (*inputs, *([extra] if extra else []))]


def write(content, outputs=()):
    for file in outputs:
        path = Path(file)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return [os.fspath(file) for file in outputs]


def join(inputs=(), outputs=()):
    return write("".join(Path(file).read_text() for file in inputs), outputs)


def fail_once(log, inputs=()):
    """Fail at the first try, and note what each try saw."""
    with open(log, "a") as file:
        path, content = read(inputs[0])
        file.write(f"{path} {os.stat(path).st_ino} {content}\n")
    if len(Path(log).read_text().splitlines()) == 1:
        raise RuntimeError("the first try fails")
    return read(inputs[0])


def die_once(log, inputs=()):
    """Kill the worker's process at the first try."""
    with open(log, "a") as file:
        file.write(" ".join(read(inputs[0])) + "\n")
    if len(Path(log).read_text().splitlines()) == 1:
        os.kill(os.getpid(), 9)
    return read(inputs[0])


def count(log, inputs=(), outputs=()):
    """Note that it ran."""
    with open(log, "a") as file:
        file.write("ran\n")
    write("made", outputs)
    return [Path(file).read_text() for file in inputs]
