"""Files on BB nodes: look at them, copy them in and out, write them back.

PATHs are from the root of the namespace, as '/run/a.fits'. 'master' and 'ionode' are the servers, which
'bbflow up --files' and 'bbflow node --files' start; a host of its own may be one of them.

Example:
  bbflow up --nodes 2 --capacity 8GiB --contact contact.json --files s3://bucket/prefix
  bbflow files put --contact contact.json tile.fits /tiles/
  bbflow files ls --contact contact.json -l /tiles
  bbflow files flush --contact contact.json
"""

import argparse
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from posixpath import basename, join
from stat import S_IFDIR, S_IFLNK, S_IFREG, filemode

from bbflow.cli.files_servers import add_ionode, add_master
from bbflow.cli.refusals import telling_refusals, writer_of
from bbflow.cli.without_effect import refuse
from bbflow.errors import BbflowError, ConfigError, describe, printable
from bbflow.files.client.client import DirectoryEntry, FilesClient
from bbflow.files.client.positioned_file import FileStream
from bbflow.files.replies import OverviewReply
from bbflow.host.log import tell
from bbflow.staging.staging_plan import read_plan
from bbflow.units import format_bytes

COPY_BYTES = 8 << 20
LINK = "is a symbolic link, so it isn't copied: name what it leads to"
STATES = {
    "clean": "in memory and in the shared storage",
    "cold": "in the shared storage only",
    "coming": "in the shared storage, on their way to memory",
    "dirty": "in memory only, to be written back",
    "lost": "gone with their nodes",
    "moving": "in the shared storage under their old names",
    "scratch": "in memory only, never written back",
}
"""What is said of files in each state."""
KINDS = {"f": S_IFREG, "d": S_IFDIR, "l": S_IFLNK}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")

    def add(name: str, act: Callable[[FilesClient, argparse.Namespace], int], summary: str) -> argparse.ArgumentParser:
        action = actions.add_parser(name, help=summary, description=summary)
        action.add_argument("--contact", type=Path, required=True, help="contact file of the BB nodes")
        action.set_defaults(act=act)
        return action

    ls = add("ls", _ls, "list directories and files")
    ls.add_argument("paths", nargs="*", default=["/"], metavar="PATH")
    ls.add_argument("-l", dest="long", action="store_true", help="with mode, owner, size, time and where the bytes are")
    get = add("get", _get, "copy files, or whole directories, to this host's file system")
    get.add_argument("paths", nargs="+", metavar="PATH")
    get.add_argument("target", type=Path, help="a file, or a directory for what has a name already")
    put = add("put", _put, "copy files, or whole directories, from this host's file system")
    put.add_argument("sources", nargs="+", type=Path, metavar="FILE")
    put.add_argument("target", metavar="PATH", help="a file; with a slash at its end, or if it is one, a directory")
    add("cat", _cat, "write files to standard output").add_argument("paths", nargs="+", metavar="PATH")
    add("stat", _stat, "show everything about files").add_argument("paths", nargs="+", metavar="PATH")
    add("rm", _rm, "remove files").add_argument("paths", nargs="+", metavar="PATH")
    flush = add("flush", _flush, "write files back to the shared storage, and wait for that")
    flush.add_argument("path", nargs="?", default="/", metavar="PATH")
    flush.add_argument("--timeout", type=float, default=-1.0, metavar="SECONDS", help="how long to wait at most")
    prefetch = add("prefetch", _prefetch, "bring files from the shared storage, in this order")
    prefetch.add_argument("paths", nargs="*", metavar="PATH", help="files, or directories with all below them")
    prefetch.add_argument("--plan", type=Path, metavar="FILE", help="instead of paths: tasks, as of 'bbflow stage'")
    prefetch.add_argument("--slots", type=int, default=0, metavar="N",
                          help="in waves: each PATH is what a task reads, N run at once")  # fmt: skip
    prefetch.add_argument("--lookahead", type=int, default=1, metavar="WAVES",
                          help="whose files may lie ahead of the tasks that run (default: %(default)s)")  # fmt: skip
    refresh = add("refresh", _refresh, "look at a directory in the shared storage again")
    refresh.add_argument("path", nargs="?", default="/", metavar="PATH")
    evict = add("evict", _evict, "let go of bytes that the shared storage has")
    evict.add_argument("path", nargs="?", default="/", metavar="PATH")
    du = add("du", _du, "add up sizes below a directory")
    du.add_argument("path", nargs="?", default="/", metavar="PATH")
    add("status", _status, "show masters, IOnodes, and what is still to be written back")
    add_master(actions.add_parser("master", help="be a master: keep the metadata of one subtree"))
    add_ionode(actions.add_parser("ionode", help="be an IOnode: keep bytes in memory"))


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    if options.action in ("master", "ionode"):
        return int(options.act(options))
    try:
        with FilesClient(options.contact) as client:
            code: int = options.act(client, options)
    except BrokenPipeError:  # of standard output: no matter of files
        raise
    except OSError as error:
        raise BbflowError(describe(error) if error.filename else error.strerror or str(error)) from None
    return code


def _ls(client: FilesClient, options: argparse.Namespace) -> int:
    for path in options.paths:
        entry = client.stat(path)
        for found in client.entries(path) if entry.kind == "d" else [entry]:
            _say(_line(found) if options.long else basename(found.path) or "/")
    return 0


def _say(line: str) -> None:
    """Print a line with names and words of others, which may have signs that would act on a terminal."""
    print(printable(line))


def _line(entry: DirectoryEntry) -> str:
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.mtime_ns / 1e9))
    mode = filemode(KINDS[entry.kind] | entry.mode)
    return f"{mode} {entry.uid:>6} {entry.gid:>6} {entry.size:>12} {when} {entry.state:<7} {entry.path}"


def _walk(client: FilesClient, path: str) -> Iterator[DirectoryEntry]:
    """Iterate over what is at a path and below it, directories before what is in them."""
    entry = client.stat(path)
    yield entry
    if entry.kind == "d":
        for child in client.entries(path):
            yield from _walk(client, child.path)


def _get(client: FilesClient, options: argparse.Namespace) -> int:
    if len(options.paths) > 1 and not options.target.is_dir():
        raise ConfigError(f"{options.target} isn't a directory: several files need one")
    code = 0
    for path in options.paths:
        target = options.target / basename(path.rstrip("/")) if options.target.is_dir() else options.target
        root = path.rstrip("/")
        for entry in _walk(client, path):
            place = target / entry.path[len("/" + root.strip("/")) :].strip("/")
            if entry.kind == "d":
                place.mkdir(parents=True, exist_ok=True)
            elif entry.kind == "f":
                with client.open(entry.path) as file, place.open("wb") as local:
                    shutil.copyfileobj(FileStream(file), local, COPY_BYTES)
            else:  # it isn't made here: what comes after it could be written through it, to anywhere
                tell(f"{entry.path}: {LINK}")
                code = 1
    return code


def _put(client: FilesClient, options: argparse.Namespace) -> int:
    target = options.target
    is_directory = target.endswith("/") or (client.exists(target) and client.stat(target).kind == "d")
    if len(options.sources) > 1 and not is_directory:
        raise ConfigError(f"{target} isn't a directory: several files need one, named with a slash at its end")
    if is_directory:
        client.mkdir(target, parents=True)
    code = 0
    for source in options.sources:
        place = join(target, source.name) if is_directory else target
        _put_one(client, source, place)
        for path in _inside(source):
            if why := _why_left(path):
                tell(f"{path}: {why}")
                code = 1
            else:
                _put_one(client, path, join(place, path.relative_to(source).as_posix()))
    return code


def _inside(source: Path) -> Iterator[Path]:
    """Iterate over what is in a directory at any depth; `rglob` would take one that can't be read for empty."""

    def refuse(error: OSError) -> None:
        raise error

    for directory, folders, names in os.walk(source, onerror=refuse) if source.is_dir() else ():
        yield from (Path(directory, name) for name in sorted([*folders, *names]))


def _why_left(path: Path) -> str:
    """Return why something below a directory isn't copied; "" if it is."""
    if path.is_symlink() and not path.is_file():  # it isn't followed: a directory would become an empty one
        return LINK
    return "" if path.is_dir() or path.is_file() else "is neither a file nor a directory, so it isn't copied"


def _put_one(client: FilesClient, path: Path, target: str) -> None:
    if path.is_dir():
        client.mkdir(target, parents=True)
        return
    with path.open("rb") as local, client.open(target, "w", permissions=path.stat().st_mode & 0o777) as file:
        at = 0
        while content := local.read(COPY_BYTES):
            at += file.pwrite(content, at)


def _cat(client: FilesClient, options: argparse.Namespace) -> int:
    for path in options.paths:
        with client.open(path) as file:
            shutil.copyfileobj(FileStream(file), sys.stdout.buffer, COPY_BYTES)
    return 0


def _stat(client: FilesClient, options: argparse.Namespace) -> int:
    for path in options.paths:
        _say(_line(client.stat(path)))
    return 0


def _rm(client: FilesClient, options: argparse.Namespace) -> int:
    for path in options.paths:
        client.unlink(path)
    return 0


def _flush(client: FilesClient, options: argparse.Namespace) -> int:
    with telling_refusals(options.contact, options.path) as refusals:
        told = client.flush(options.path, options.timeout)
        refusals.tell(told.failed)
        refusals.tell((path, writer_of(host, pid)) for path, host, pid in told.writing)
    print(f"{told.written} files written back, {told.left} are left")
    conflicts = [path for status in client.status() for path in status.conflicts]
    refusals.tell(
        (path, "is kept beside what someone else has written: see 'bbflow files status'") for path in conflicts
    )
    return int(bool(told.left or told.writing or conflicts))


def _prefetch(client: FilesClient, options: argparse.Namespace) -> int:
    if not options.slots:
        refuse(options, "without --slots, which makes waves", "lookahead")
    count = client.prefetch(_tasks(options.paths, options.plan), options.slots, options.lookahead)
    print(f"{count} files are coming")
    return 0


def _tasks(paths: list[str], plan: Path | None) -> list[list[str]]:
    """Return what each task reads: of a plan as 'bbflow stage' takes it, or each of some paths."""
    if (plan is None) == (not paths):
        raise ConfigError("give either paths, or --plan FILE")
    if plan is not None:
        return [[file.url for file in step.task.inputs] for step in read_plan(plan)]
    return [[path] for path in paths]


def _refresh(client: FilesClient, options: argparse.Namespace) -> int:
    client.refresh(options.path)
    return 0


def _evict(client: FilesClient, options: argparse.Namespace) -> int:
    print(f"{format_bytes(client.evict(options.path))} went from memory")
    return 0


def _du(client: FilesClient, options: argparse.Namespace) -> int:
    sizes = [entry.size for entry in _walk(client, options.path) if entry.kind == "f"]
    print(f"{format_bytes(sum(sizes))} in {len(sizes)} files")
    return 0


def _status(client: FilesClient, options: argparse.Namespace) -> int:
    told = client.status()
    for status in told:
        _tell(status)
    return int(any(status.conflicts or status.lost for status in told))


def _tell(status: OverviewReply) -> None:
    behind = f"before {status.storage}, written back: {status.write_back}" if status.storage else "before nothing"
    _say(f"{status.subtree}: {behind}; {status.open} files are open in {status.sessions} sessions")
    for node in status.nodes:
        if node.lost:
            _say(f"  IOnode {node.name} on {node.host}: LOST, it was away for longer than --node-loss says")
            continue
        state = "up" if node.up else "AWAY"
        free, capacity = format_bytes(max(node.free_bytes, 0)), format_bytes(node.capacity)
        _say(f"  IOnode {node.name} on {node.host}: {state}, {free} of {capacity} free, {node.pieces} pieces")
    for state, (count, size) in sorted(status.files.items()):
        where = "in memory only" if state == "dirty" and not status.storage else STATES[state]
        _say(f"  {count} {state}: {format_bytes(size)}, {where}")
    if status.thin:
        copies = f"fewer than {status.replicas} copies"
        _say(f"  {status.thin} in memory only have {copies}, until there are IOnodes with room for them")
    if status.oldest_dirty_s:
        _say(f"  the oldest has waited for {status.oldest_dirty_s:.0f} s to be written back")
    for path, error, attempts in status.failed:
        times = "once" if attempts == 1 else f"{attempts} times"
        _say(f"  not written back, tried {times}: {path}: {error}")
    for path, error in status.unread:
        _say(f"  not read: {path}: {error}")
    for path in status.lost:
        _say(f"  LOST: {path}")
    for path in status.conflicts:
        _say(f"  CONFLICT: {path}: someone else has written the shared storage's; rename or remove one of them")
    if status.weakness:
        _say(f"  what others write in the same instant may be overwritten: {status.weakness}")
