"""A global climate model in C++ and MPI that writes through ADIOS2: how to build and how to start it."""

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

SOURCES = Path(__file__).parent.resolve()
DEFAULT_CONFIG = SOURCES / "climate.xml"
"""The ADIOS2 configuration that sends the steps to a burst-buffer node of this host."""


def build(build_directory: Path) -> Path:
    """Compile the model, or bring an earlier build up to date.

    Parameters
    ----------
    build_directory
        Where CMake and Ninja may write; made if it isn't there.

    Returns
    -------
    Path
        The program.

    Raises
    ------
    RuntimeError
        If a tool is missing, with the command that installs it; or if the build fails, whose last
        lines are on standard error.
    """
    _tool("g++", "apt install g++")
    cmake = _tool("cmake", "pip install 'bbflow[demo]'")
    ninja = _tool("ninja", "pip install 'bbflow[demo]'")
    mpicxx = _tool("mpicxx", "pip install 'bbflow[demo]'", package="mpich")
    if " " in str(mpicxx):  # its scripts don't quote what they make of their own path
        raise RuntimeError(f"{mpicxx}: MPI's compilers fail in a path with blanks: make the environment elsewhere")
    configure: list[str | Path] = [
        cmake,
        "-S",
        SOURCES,
        "-B",
        build_directory,
        "-G",
        "Ninja",
        f"-DCMAKE_MAKE_PROGRAM={ninja}",
    ]
    configure += ["-DCMAKE_BUILD_TYPE=Release", f"-DADIOS2_DIR={_adios2_directory()}"]
    configure += [f"-DMPI_CXX_COMPILER:FILEPATH={mpicxx}", *_fresh(build_directory, mpicxx)]
    _run(configure)
    _run([cmake, "--build", build_directory])
    return build_directory.absolute() / "climate"  # a bare name would be looked for on PATH


def command(program: Path, ranks: int, **flags: object) -> list[str]:
    """Return the command line that starts the model.

    Parameters
    ----------
    program
        What `build` returned.
    ranks
        Number of MPI processes.
    **flags
        The program's flags, with underscores for hyphens: ``steps_per_day=4``.

    Returns
    -------
    list of str
        For `subprocess.run`.

    Raises
    ------
    RuntimeError
        If mpiexec is missing, with the command that installs it.
    """
    mpiexec = _tool("mpiexec", "pip install 'bbflow[demo]'", package="mpich")
    given = [word for name, value in flags.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    return [str(mpiexec), "-n", str(ranks), str(program), *given]


def _tool(name: str, install: str, package: str | None = None) -> Path:
    """Find a tool beside the interpreter, as a virtual environment need not be on PATH, or on PATH."""
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    if found is None:
        raise RuntimeError(f"{package or name} is missing: {install}")
    return Path(found)


def _adios2_directory() -> Path:
    """Find the CMake configuration in ADIOS2's wheel."""
    spec = importlib.util.find_spec("adios2")
    if spec is None or spec.origin is None:
        raise RuntimeError("adios2 is missing: pip install 'bbflow[demo]'")
    return Path(spec.origin).parent / "cmake" / "adios2"


def _fresh(build_directory: Path, mpicxx: Path) -> list[str]:
    """Make CMake forget an earlier build if that used another environment's MPI."""
    cache = build_directory / "CMakeCache.txt"
    stale = cache.exists() and f"MPI_CXX_COMPILER:FILEPATH={mpicxx}\n" not in cache.read_text()
    return ["--fresh"] if stale else []


def _run(step: list[str | Path]) -> None:
    done = subprocess.run(step, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        print(*done.stdout.splitlines()[-20:], sep="\n", file=sys.stderr)
        raise RuntimeError(f"the build of climate failed ({Path(step[0]).name} {done.returncode}): see above")
