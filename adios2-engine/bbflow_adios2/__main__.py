"""Build the engine for an ADIOS2 that you have: ``python -m bbflow_adios2 build --adios2 DIRECTORY``.

``python -m bbflow_adios2 cmake`` prints what CMake takes for ``bbflow_DIR``.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

HERE = Path(__file__).parent
LOADER = "libbbflow_adios2.so"
ENGINES = "libbbflow_engine_*.so"


def find_configuration(adios2: Path) -> Path:
    """Return the folder of ADIOS2's CMake configuration.

    Parameters
    ----------
    adios2
        Where ADIOS2 is installed, the folder of its libraries, or PyPI's package.

    Raises
    ------
    FileNotFoundError
        If there is none: ADIOS2's headers are not installed there.
    """
    for folder in _configurations(adios2.resolve()):
        if (folder / "adios2-config.cmake").exists():
            return folder
    raise FileNotFoundError(f"{adios2} has no adios2-config.cmake: give where ADIOS2 is installed with its headers")


def _configurations(adios2: Path) -> Iterator[Path]:
    yield adios2
    yield adios2 / "cmake" / "adios2"
    yield from sorted(adios2.glob("lib*/cmake/adios2"))
    yield from sorted(adios2.glob("lib/*/cmake/adios2"))  # Debian's, by kind of machine


def build_engine(adios2: Path, into: Path) -> list[Path]:
    """Build the engine for an ADIOS2, and put it where ADIOS2 looks for plugins.

    Parameters
    ----------
    adios2
        See `find_configuration`.
    into
        Folder that gets the engine, beside those for other versions, and the library that chooses among them.

    Returns
    -------
    Paths of what was put there.

    Raises
    ------
    FileNotFoundError
        If ADIOS2's headers, bbflow's sources or CMake are missing.
    subprocess.CalledProcessError
        If it can't be compiled; the compiler has said why.
    """
    configuration = find_configuration(adios2)
    cmake = shutil.which("cmake", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}")
    if cmake is None:
        raise FileNotFoundError("cmake is missing: pip install cmake")
    with tempfile.TemporaryDirectory(prefix="bbflow-engine-") as build:
        options = ["-DCMAKE_BUILD_TYPE=Release", f"-DADIOS2_DIR={configuration}"]
        subprocess.run([cmake, "-S", _sources(), "-B", build, *options], check=True, stdout=sys.stderr)
        targets = ["--target", "bbflow_engine", "bbflow_adios2", "--parallel", str(len(os.sched_getaffinity(0)))]
        subprocess.run([cmake, "--build", build, *targets], check=True, stdout=sys.stderr)
        into.mkdir(parents=True, exist_ok=True)
        made = [*Path(build).glob(ENGINES), Path(build) / LOADER]
        return [_put(library, into) for library in made if library.name != LOADER or into.resolve() != HERE]


def _sources() -> Path:
    """Return the engine's sources: in the package, or beside it in a checkout."""
    for folder in (HERE / "source" / "adios2-engine", HERE.parent):
        if (folder / "CMakeLists.txt").exists():
            return folder
    raise FileNotFoundError(f"the engine's sources are neither in {HERE} nor beside it: reinstall bbflow")


def _put(library: Path, folder: Path) -> Path:
    """Replace a library that a program may have open."""
    target = folder / library.name
    fresh = target.with_name(f".{target.name}.new")
    shutil.copy(library, fresh)
    return fresh.replace(target)


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bbflow_adios2", description=(__doc__ or "").partition(":")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    build = commands.add_parser("build", help="build the engine for an ADIOS2 that you have")
    build.add_argument(
        "--adios2", type=Path, required=True, help="where it is installed, or the folder of its libraries"
    )
    build.add_argument(
        "--into", type=Path, default=HERE, help="another folder than bbflow's own, for ADIOS2_PLUGIN_PATH"
    )
    commands.add_parser("cmake", help="print the folder of CMake's configuration, for bbflow_DIR")
    given = parser.parse_args(words)
    if given.command == "cmake":
        print(HERE / "cmake")
        return 0
    try:
        for path in build_engine(given.adios2, given.into):
            print(path)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"bbflow: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
