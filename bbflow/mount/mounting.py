"""Start and stop the mount's program; it serves the kernel's requests by itself."""

import errno
import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from bbflow.errors import ConfigError, MissingToolError, NodeError
from bbflow.host.held import HeldDirectory

PROGRAM = Path(__file__).parent / "bbflow-mount"
READY = "bbflow-mount: ready on "
DEAD = frozenset({errno.ENOTCONN, errno.ECONNABORTED, errno.ECANCELED})
"""What calls fail with once a mount's program was killed; the last two while the kernel takes its io_urings down."""
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 60.0
MOST_SAID_BYTES = 65536
"""What is read of a log to see how the start went."""
_POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class MountOptions:
    """What is mounted, and how."""

    contact: Path
    """Contact file of the BB nodes."""
    directory: Path
    """An empty directory to mount on."""
    read_only: bool = False
    """Refuse all changes with EROFS."""
    allow_other: bool = False
    """Whether other users are let in; the files' modes count for them."""
    passthrough: bool = True
    """Whether the kernel reads files of this host's nodes by itself, where it can (Linux 6.9, root)."""
    keep_awake: bool = False
    """Keep this host's processors from sleeping while programs make calls (root)."""
    patience_s: float = 60.0
    """How long calls wait for a master or node that is away before they fail with EIO."""


def command(options: MountOptions) -> list[str]:
    """Return the words that start the program.

    Raises
    ------
    ConfigError
        If there is no such directory or contact file.
    MissingToolError
        If the program was not built.
    """
    if not PROGRAM.exists():
        raise MissingToolError(f"{PROGRAM} is missing: install bbflow again where g++ is")
    if not options.contact.exists():
        raise ConfigError(
            f"there is no contact file {options.contact}: start nodes with "
            f"'bbflow up --contact {options.contact} --files URL'"
        )
    if not (is_dead(options.directory) or options.directory.is_dir()):
        raise ConfigError(f"there is no directory {options.directory} to mount on: make it first")
    flags = {
        "--read-only": options.read_only,
        "--allow-other": options.allow_other,
        "--no-passthrough": not options.passthrough,
        "--keep-awake": options.keep_awake,
    }
    words = [str(PROGRAM), *(flag for flag, given in flags.items() if given)]
    words += ["--patience", str(options.patience_s), "--contact", str(options.contact.absolute())]
    return [*words, str(options.directory.absolute())]


def is_dead(directory: Path) -> bool:
    """Whether a mount is there whose program was killed; a new one takes its place."""
    try:
        os.statvfs(directory)  # what stat(2) says may be what the kernel still knows
    except OSError as error:
        return error.errno in DEAD
    return False


def is_mounted(directory: Path) -> bool:
    """Whether a directory is a mount of this program, by whatever links its name leads there."""
    try:
        held = os.open(directory, os.O_PATH)  # asks no mount, which may be dead or hang
    except (FileNotFoundError, NotADirectoryError):
        return False
    place = os.fsencode(os.readlink(f"/proc/self/fd/{held}"))
    os.close(held)
    for char in b"\\ \t\n":  # which the kernel writes as octal numbers there
        place = place.replace(bytes([char]), b"\\%03o" % char)
    with open("/proc/self/mounts", "rb") as mounts:  # names need not be text
        return any(line.split()[1:3] == [place, b"fuse.bbflow"] for line in mounts)


def start_daemon(options: MountOptions, log: Path) -> int:
    """Start the program in the background, and return when the files are there.

    Returns
    -------
    int
        Its process id.

    Raises
    ------
    NodeError
        If it didn't start; the message is its own.
    """
    words = command(options)
    with _log_file(log) as file:
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=file, stderr=file, cwd="/", start_new_session=True
        )
        _await_ready(options, process, file.fileno(), log)
    return process.pid


def _log_file(log: Path) -> BinaryIO:
    """Open a log, empty; root doesn't write below directories of others, who could have it write to any file."""
    try:
        if os.geteuid() != 0:
            return log.open("w+b")
        with HeldDirectory.at(log.absolute().parent) as above:
            file = os.fdopen(above.open(log.name, os.O_RDWR | os.O_CREAT), "w+b")
    except ConfigError as error:
        raise ConfigError(f"{error}; root's log goes elsewhere: say where by --log") from None
    except OSError as error:
        raise ConfigError(f"the log {log} can't be written ({error.strerror}): say where by --log") from None
    file.truncate(0)
    return file


def _await_ready(options: MountOptions, process: "subprocess.Popen[bytes]", file: int, log: Path) -> None:
    """Wait until the files are there; the program's words are read from the log that it was given, not by its name."""
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while READY not in (said := os.pread(file, MOST_SAID_BYTES, 0).decode(errors="replace")):
        if process.poll() is not None:
            raise NodeError(f"{options.directory} isn't mounted: {said.strip()}")
        if time.monotonic() > deadline_s:
            process.kill()
            raise NodeError(f"{options.directory} wasn't mounted within {START_TIMEOUT_S:.0f} s: see {log}")
        time.sleep(_POLL_S)


def run_in_foreground(options: MountOptions) -> int:
    """Be the program, until it is told to stop or someone unmounts the directory; gives its exit code."""
    process = subprocess.Popen(command(options))
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda got, _: process.send_signal(got))
    return process.wait()


def unmount(directory: Path) -> None:
    """Take the mount away; files that are open in it stay so until they are closed.

    Raises
    ------
    NodeError
        If the directory is no such mount, or this user may not.
    """
    if not is_mounted(directory):
        raise NodeError(f"{directory} isn't a mount of bbflow")
    as_root = [str(PROGRAM), "--unmount", str(directory.absolute())]  # umount(8) may be led elsewhere meanwhile
    words = as_root if os.geteuid() == 0 else ["fusermount3", "-u", "-z", "--", str(directory)]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=STOP_TIMEOUT_S)
    except FileNotFoundError:
        raise MissingToolError(f"{words[0]} is missing: apt install fuse3") from None
    if done.returncode:
        raise NodeError(f"can't unmount {directory}: {done.stderr.strip()}")


def default_log(directory: Path) -> Path:
    """Return where a daemon's messages go by default: beside the directory."""
    return directory.absolute().with_name(f".{directory.name}.bbflow-mount.log")
