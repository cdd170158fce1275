"""Show the files on BB nodes as a directory, for programs that know files only.

As root the kernel mounts it, and reads the files of this host's nodes by itself; other users need fusermount3
(Debian's package fuse3).

Example:
  bbflow up --nodes 2 --capacity 8GiB --contact contact.json --files s3://bucket/prefix
  mkdir -p work && bbflow mount contact.json work
  mProject work/tile.fits work/projected.fits work/region.hdr
  bbflow mount --unmount work
"""

import argparse
from pathlib import Path

from bbflow.cli.without_effect import refuse
from bbflow.errors import ConfigError
from bbflow.mount.mounting import (
    MountOptions,
    default_log,
    is_dead,
    is_mounted,
    run_in_foreground,
    start_daemon,
    unmount,
)
from bbflow.units import parse_seconds


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    standard = MountOptions(Path(), Path())
    parser.add_argument("contact", type=Path, nargs="?", help="contact file of the BB nodes")
    parser.add_argument("directory", type=Path, nargs="?", help="an empty directory to mount on")
    parser.add_argument("--unmount", type=Path, metavar="DIRECTORY", help="end a mount instead")
    parser.add_argument("--foreground", action="store_true", help="stay until a signal or an unmount ends it")
    parser.add_argument("--read-only", action="store_true", help="refuse all changes")
    parser.add_argument("--allow-other", action="store_true", help="let other users in; the files' modes apply to them")
    parser.add_argument(
        "--no-passthrough",
        dest="passthrough",
        action="store_false",
        help="don't let the kernel read files of this host's nodes by itself",
    )
    parser.add_argument(
        "--keep-awake",
        action="store_true",
        help="keep this host's processors from sleeping while programs make calls",
    )
    parser.add_argument(
        "--patience",
        type=parse_seconds,
        default=standard.patience_s,
        metavar="SECONDS",
        help="how long calls wait for a node that is away (default: %(default)g)",
    )
    parser.add_argument("--log", type=Path, help="where its messages go (default: beside DIRECTORY, hidden)")


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    if options.unmount:
        others = ("foreground", "read-only", "allow-other", "keep-awake", "patience", "log")
        refuse(options, "with --unmount", *others)
        if options.contact is not None or not options.passthrough:
            raise ConfigError("--unmount DIRECTORY takes nothing else: leave the rest out")
        unmount(options.unmount)
        return 0
    if options.directory is None:
        raise ConfigError("say which contact file and which directory: bbflow mount CONTACT DIR")
    if is_mounted(options.directory) and not is_dead(options.directory):
        raise ConfigError(
            f"{options.directory} is a mount of bbflow already: use it, or end it by 'bbflow mount --unmount "
            f"{options.directory}'"
        )
    mount = MountOptions(
        options.contact,
        options.directory,
        options.read_only,
        options.allow_other,
        options.passthrough,
        options.keep_awake,
        options.patience,
    )
    if options.foreground:
        refuse(options, "with --foreground, where messages go to standard error", "log")
        return run_in_foreground(mount)
    pid = start_daemon(mount, options.log or default_log(options.directory))
    print(f"mounted on {options.directory} by process {pid}: 'bbflow mount --unmount {options.directory}' ends it")
    return 0
