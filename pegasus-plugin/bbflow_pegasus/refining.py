"""The refiner for pegasus-plan, compiled against the Pegasus that is installed.

Its classes extend the planner's own, which have no promise of binary compatibility. Compiled here, a planner that has
become different is found out by the compiler, before anything is planned, and not by a missing method amid a plan.
"""

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from importlib.resources import as_file, files
from pathlib import Path

from bbflow.belongings import make, remove
from bbflow.errors import ConfigError, MissingToolError
from bbflow_pegasus.dag.submitdir import OLDEST

REFINER = "bbflow.pegasus.WaveRefiner"
"""What the property ``pegasus.transfer.refiner`` says."""
SOURCES = files("bbflow_pegasus") / "refiner"
"""Java, below the directories of its packages."""


class RefinerUnavailableError(MissingToolError):
    """There is no Java compiler, or it doesn't accept the refiner."""


def find_planner() -> tuple[str, str]:
    """Find pegasus-plan.

    Returns
    -------
    planner, version
        Its path, and the version of Pegasus.

    Raises
    ------
    MissingToolError
        If it isn't on PATH.
    ConfigError
        If it is too old.
    """
    planner = shutil.which("pegasus-plan")
    if planner is None:
        raise MissingToolError("pegasus-plan isn't on PATH: add the bin directory of a Pegasus installation")
    version = _asked(planner, "--version")
    if tuple(int(part) for part in re.findall(r"\d+", version)[:2]) < OLDEST:
        raise ConfigError(f"{planner} is Pegasus {version}: waves need 5.0 or later")
    return planner, version


def compiled_refiner(planner: str, version: str, cache: Path | None = None) -> Path:
    """Give the directory of the refiner's classes, compiled now unless they were for this version.

    Parameters
    ----------
    planner
        Path of pegasus-plan.
    version
        Of Pegasus.
    cache
        Where classes are kept; by default in the user's cache.

    Raises
    ------
    RefinerUnavailableError
        If there is no Java compiler, or it doesn't accept the refiner.
    """
    cache = cache or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bbflow" / "refiner"
    with as_file(SOURCES) as folder:
        sources = sorted(folder.rglob("*.java"))
        digest = hashlib.sha256(b"".join([planner.encode(), version.encode(), *(s.read_bytes() for s in sources)]))
        classes = cache / digest.hexdigest()[:16]
        if not classes.is_dir():
            _compile(sources, _asked(planner, "--classpath"), version, classes)
    return classes


def _compile(sources: list[Path], classpath: str, version: str, classes: Path) -> None:
    compiler = _compiler()
    if compiler is None:
        raise RefinerUnavailableError("there is no Java compiler (javac)")
    classes.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(dir=classes.parent))
    make(made, "**/*.class")
    # What runs the planner may be older than the compiler.
    words = [compiler, "-nowarn", "-Xlint:-options", "-source", "8", "-target", "8", "-cp", classpath, "-d", str(made)]
    done = subprocess.run([*words, *map(str, sources)], capture_output=True, text=True)
    if done.returncode:
        remove(made)
        first = next((line for line in done.stderr.splitlines() if "error:" in line), done.stderr)
        raise RefinerUnavailableError(f"the refiner doesn't fit Pegasus {version}: {first.strip()}")
    try:
        made.rename(classes)
    except OSError:  # another process was faster
        remove(made)


def _compiler() -> str | None:
    home = os.environ.get("JAVA_HOME")
    return (shutil.which("javac", path=str(Path(home) / "bin")) if home else None) or shutil.which("javac")


def _asked(planner: str, question: str) -> str:
    """Ask the installation about itself."""
    program = Path(planner).with_name("pegasus-config")
    if not program.is_file():
        raise MissingToolError(f"{program} is missing beside {planner}: is this an installation of Pegasus 5?")
    done = subprocess.run([program, question, "--noeoln"], capture_output=True, text=True)
    if done.returncode:
        raise MissingToolError(f"{program} {question} failed: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout.strip()
