"""The bucket's files as a shared file system: served over SFTP from the storage host, mounted on the compute host.

A kernel without NFS has no other one that goes over a network. The connection isn't encrypted, so that it costs no more
of the cores than S3 without TLS does.
"""

import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

from benchmarks.testbed.address import HOSTS
from benchmarks.testbed.bed import Bed

PORT = 9022
SERVER = Path("/usr/lib/openssh/sftp-server")
MOUNT = "mounted"
"""Below a run's directory."""
_MOUNTED = """
where=$0
mkdir -p "$where"
sshfs -o directport={port},max_conns=4 {host}:{folder} "$where" || exit 1
"$@"
code=$?
fusermount3 -u "$where"
exit $code
"""


def shared_lacking() -> str | None:
    """Return why there can be no shared file system here, or None."""
    for tool in ("sshfs", "socat", "rsync"):
        if shutil.which(tool) is None:
            return f"{tool} is missing: apt install {tool}"
    return None if SERVER.exists() else f"{SERVER} is missing: apt install openssh-sftp-server"


@contextmanager
def sharing(bed: Bed) -> Iterator[None]:
    """Serve the bucket's files until the block ends; only if there can be such a file system."""
    listen = f"TCP-LISTEN:{PORT},bind={HOSTS['storage']},reuseaddr,fork"
    words = bed.hosts.inside("storage", "socat", listen, f"EXEC:{SERVER}")
    with nullcontext() if shared_lacking() else subprocess.Popen(words) as server:
        try:
            yield
        finally:
            if server is not None:
                server.kill()


def mounted(bed: Bed, folder: Path, words: Sequence[str]) -> list[str]:
    """Return the command that runs `words` where the files are mounted, which only it sees."""
    script = _MOUNTED.format(port=PORT, host=HOSTS["storage"], folder=bed.bucket)
    return ["sh", "-c", script, str(folder / MOUNT), *words]
