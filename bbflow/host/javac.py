"""Java of ours, compiled against what is installed on this machine, once.

It uses classes of its host that have no promise of binary compatibility. Compiled here, a host that has become
different is found out by the compiler, before anything runs, and not by a missing method during a run.
"""

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from bbflow.errors import MissingToolError
from bbflow.host.belongings import make, remove


class JavaUnavailableError(MissingToolError):
    """There is no Java compiler, or it doesn't accept our sources."""


def compiled(
    sources: Sequence[Path], host: str, release: int, classpath: Callable[[], str], cache: Path | None = None
) -> Path:
    """Return the directory of the sources' classes, compiled now unless they were for this host.

    Parameters
    ----------
    sources
        The files.
    host
        Names what the classes are for, with its version.
    release
        Oldest Java that runs them.
    classpath
        Gives the host's own classes; asked only if something is to be compiled.
    cache
        Where classes are kept; by default in the user's cache.

    Raises
    ------
    JavaUnavailableError
        If there is no Java compiler, or it doesn't accept the sources, the first error is told; or no cache.
    """
    cache = cache or _cache()
    digest = hashlib.sha256(b"".join([f"{host} {release}".encode(), *(source.read_bytes() for source in sources)]))
    classes = cache / digest.hexdigest()[:16]
    if not classes.is_dir():
        _compile(sources, host, release, classpath(), classes)
    return classes


def _cache() -> Path:
    place = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    if place.startswith("~"):  # as in a container, whose user no one knows
        raise JavaUnavailableError("this user has no home directory to keep compiled classes in: set XDG_CACHE_HOME")
    return Path(place, "bbflow", "java")


def _compile(sources: Sequence[Path], host: str, release: int, classpath: str, classes: Path) -> None:
    compiler = _compiler()
    if compiler is None:
        raise JavaUnavailableError("there is no Java compiler (javac)")
    classes.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(dir=classes.parent))
    make(made, "**/*.class")
    words = [compiler, "-nowarn", "-Xlint:-options", "-proc:none", "-source", str(release), "-target", str(release)]
    done = subprocess.run([*words, "-cp", classpath, "-d", made, *sources], capture_output=True, text=True)
    if done.returncode:
        remove(made)
        first = next((line for line in done.stderr.splitlines() if "error:" in line), done.stderr)
        raise JavaUnavailableError(f"bbflow's Java doesn't fit {host}: {first.strip()}")
    try:
        made.rename(classes)
    except OSError:  # another process was faster
        remove(made)


def _compiler() -> str | None:
    home = os.environ.get("JAVA_HOME")
    return (shutil.which("javac", path=str(Path(home) / "bin")) if home else None) or shutil.which("javac")
