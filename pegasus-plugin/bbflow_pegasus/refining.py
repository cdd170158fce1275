"""The refiner for pegasus-plan, compiled against the Pegasus that is installed, whose classes it extends."""

import re
import shutil
import subprocess
from importlib.resources import as_file, files
from pathlib import Path

from bbflow.errors import ConfigError, MissingToolError
from bbflow.host.javac import compiled
from bbflow_pegasus.dag.submitdir import OLDEST

REFINER = "bbflow.pegasus.WaveRefiner"
"""What the property ``pegasus.transfer.refiner`` says."""
SOURCES = files("bbflow_pegasus") / "refiner"
"""Java, below the directories of its packages."""


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
    """Return the directory of the refiner's classes, compiled now unless they were for this version.

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
    JavaUnavailableError
        If there is no Java compiler, or it doesn't accept the refiner.
    """
    with as_file(SOURCES) as folder:
        sources = sorted(folder.rglob("*.java"))
        # What runs the planner may be older than the compiler.
        return compiled(sources, f"Pegasus {version} ({planner})", 8, lambda: _asked(planner, "--classpath"), cache)


def _asked(planner: str, question: str) -> str:
    """Ask the installation about itself."""
    program = Path(planner).with_name("pegasus-config")
    if not program.is_file():
        raise MissingToolError(f"{program} is missing beside {planner}: is this an installation of Pegasus 5?")
    done = subprocess.run([program, question, "--noeoln"], capture_output=True, text=True)
    if done.returncode:
        raise MissingToolError(f"{program} {question} failed: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout.strip()
