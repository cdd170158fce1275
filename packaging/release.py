"""Build what a release consists of, and check it: ``make release``; nothing is published.

The sdist, and from it a wheel for each architecture with engines for every ADIOS2 of PyPI's. With the compilers of an
old Debian, in a CHROOT, they run on systems as old as that (as root; apt install g++ g++-aarch64-linux-gnu there).
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[1]
WORK = ROOT / "build" / "release"
HEADERS = WORK / "include"
"""The kernel's newer ones, for compilers of an old Debian."""
ADIOS2 = {"2.10.1": "cp311", "2.11.0": "cp311", "2.12.1": "cp311"}
"""Versions with wheels on PyPI: the engine for one of them serves all Pythons."""
WITH_NEW_TEXTS = "2.10.1"
"""PyPI's wheel has texts as before GCC 5; other builds of this version have not."""


MODEL = """
import adios2, numpy as np
with adios2.Stream("out.bp", "w") as stream:
    for step in range(12):
        stream.begin_step()
        stream.write("time", np.float64(step))
        stream.write("t", step + np.arange(8.0), [8], [0], [8])
        stream.end_step()
"""
CONFIG = """
stream: model
select: {file: "*.bp"}
output: results
nodes: {capacity: 1MiB, state_capacity: 1MiB}
operators: {t: [mean]}
windows: [run]
"""
RESULT = """
import xarray as xr
(name,) = [name for name in xr.open_zarr("results/results.zarr").data_vars if name.startswith("t_")]
found = xr.open_zarr("results/results.zarr")[name].values.ravel()
assert found.tolist() == [5.5 + point for point in range(8)], found
print("the first statistics are right")
"""
"""A program, what is computed of it, and what must come out: in a bare environment, without a compiler."""


def run(*words: str | Path, **environment: str) -> None:
    """Run a command to its good end."""
    print("+", *words, flush=True)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    subprocess.run([*map(str, words)], check=True, env=os.environ | {"PATH": path} | environment)


def python(*words: str | Path, **environment: str) -> None:
    """Run a module of this Python's environment."""
    run(sys.executable, "-m", *words, **environment)


def fetch_adios2() -> dict[str, Path]:
    """Unpack PyPI's wheels of ADIOS2; return the folder of each version."""
    folders = {}
    for version in ADIOS2:
        folder = WORK / f"adios2-{version}"
        if not folder.exists():
            with tempfile.TemporaryDirectory() as downloads:
                words = ["--no-deps", "--only-binary", "adios2", "--python-version", "3.11", "-d", downloads]
                platforms = [f"--platform=manylinux_2_{glibc}_x86_64" for glibc in (17, 28)]
                python("pip", "download", "-q", *words, *platforms, f"adios2=={version}.*")
                (wheel,) = Path(downloads).glob("*.whl")
                zipfile.ZipFile(wheel).extractall(folder)
        folders[version] = folder / "adios2"
    return folders


def with_stubs(adios2: Path, compiler: str, name: str) -> Path:
    """Copy an ADIOS2's headers beside empty libraries of the same names, for another compiler to link with."""
    folder = WORK / f"adios2-{name}" / "adios2"
    if not folder.exists():
        shutil.copytree(adios2, folder)
        for library in folder.glob("*.so*"):
            soname = ".".join(library.name.partition(".so")[2].split(".")[1:3])
            library.unlink()
            stub = [compiler, "-shared", "-fPIC", "-x", "c++", os.devnull, "-o", library]
            run(*stub, f"-Wl,-soname,{library.name.partition('.so')[0]}.so" + (f".{soname}" if soname else ""))
    return folder


@contextmanager
def compilers(chroot: Path | None) -> Iterator[Path | None]:
    """Make a folder of compilers that run in the chroot, with the checkout at its own path there."""
    if chroot is None:
        yield None
        return
    folder = WORK / "compilers"
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("g++", "aarch64-linux-gnu-g++"):
        script = folder / name
        script.write_text(
            f'#!/bin/sh\nexec chroot {chroot} sh -c \'cd "$1" && shift && exec {name} "$@"\' sh "$PWD" "$@"\n'
        )
        script.chmod(0o755)
    # The mount asks the kernel for what headers of that age don't name, and does without what it can't do.
    headers = HEADERS / "linux"
    headers.mkdir(parents=True, exist_ok=True)
    for name in ("fuse.h", "io_uring.h", "stddef.h"):
        shutil.copy2(Path("/usr/include/linux", name), headers)
    with ExitStack() as mounted:
        for place in (ROOT, Path(tempfile.gettempdir())):
            inside = chroot / place.relative_to("/")
            inside.mkdir(parents=True, exist_ok=True)
            run("mount", "--bind", place, inside)
            mounted.callback(run, "umount", inside)
        yield folder


def build_wheel(sdist: Path, machine: str, compilers: Path | None, adios2: Mapping[str, Path]) -> Path:
    """Build the wheel of an architecture from the sdist, and name it by the oldest system that it runs on."""
    source = WORK / machine
    for left in source.glob("bbflow-*/*"):
        if left.name != "build":  # what an earlier one has compiled stays; a header that has moved must not
            shutil.rmtree(left) if left.is_dir() else left.unlink()
    with tarfile.open(sdist) as archive:
        archive.extractall(source, filter="data")
    (checkout,) = source.glob("bbflow-*")
    compiler = str(compilers / "g++") if compilers else "g++"
    environment = {"CXX": compiler, "BBFLOW_CPU": "all", "LDFLAGS": "-s"}
    if compilers:
        # Ninja finds none of the chroot's own headers, and would compile again whatever depends on them.
        environment["CXXFLAGS"] = f"-isystem {HEADERS} -MMD"
    prefixes = [*adios2.values(), with_stubs(adios2[WITH_NEW_TEXTS], compiler, f"{WITH_NEW_TEXTS}-stubs")]
    if machine != os.uname().machine:
        compiler = str(compilers / f"{machine}-linux-gnu-g++") if compilers else f"{machine}-linux-gnu-g++"
        toolchain = source / "toolchain.cmake"
        toolchain.write_text(
            f"set(CMAKE_SYSTEM_NAME Linux)\nset(CMAKE_SYSTEM_PROCESSOR {machine})\nset(CMAKE_CXX_COMPILER {compiler})\n"
        )
        environment |= {"CMAKE_TOOLCHAIN_FILE": str(toolchain), "_PYTHON_HOST_PLATFORM": f"linux-{machine}"}
        prefixes = [with_stubs(path, compiler, f"{version}-{machine}") for version, path in adios2.items()]
    environment["BBFLOW_ADIOS2"] = ";".join(map(str, prefixes))
    made = source / "made"
    shutil.rmtree(made, ignore_errors=True)
    python("pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", made, checkout, **environment)
    (wheel,) = made.glob("*.whl")
    python("auditwheel", "repair", "--exclude", "libadios2*", "-w", ROOT / "dist", wheel)
    (repaired,) = (ROOT / "dist").glob(f"*{machine}.whl")
    python("auditwheel", "show", repaired)
    return repaired


def check_for_any_python(wheel: Path) -> None:
    """Refuse a library that uses Python's C API, whose wheel would be one Python's; abi3audit reads no other wheels."""
    from elftools.elf.elffile import ELFFile  # auditwheel brings it

    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            with archive.open(name) as file:
                if file.read(4) != b"\x7fELF":
                    continue
                symbols = ELFFile(file).get_section_by_name(".dynsym").iter_symbols()
                if used := [symbol.name for symbol in symbols if re.match("_?Py[A-Z_]", symbol.name)]:
                    sys.exit(f"{wheel.name}: {name} uses {used[0]}, and needs the Python that it was built for")


TRY = """
set -e
cd "$1"; shift
export PATH="$PATH:/usr/sbin:/sbin:/usr/bin:/bin"
! command -v g++ || echo "there is a compiler, which isn't needed"
if "$1" -c "import adios2" 2>/dev/null; then extra= site=--system-site-packages; else extra="[adios2]" site=; fi
"$1" -m venv $site bare
begun=$(date +%s)
bare/bin/pip install -q "$2$extra"
bare/bin/bbflow run analysis.yml -- bare/bin/python model.py
bare/bin/python result.py
echo "$(. /etc/os-release && echo $PRETTY_NAME), $(bare/bin/python -VV | head -n 1), ADIOS2" \
    "$(bare/bin/python -c "import adios2; print(adios2.__version__)"), $(uname -m):" \
    "from pip to the first statistics in $(($(date +%s) - begun)) s"
bare/bin/bbflow doctor
"""
"""Tries a wheel in a folder, with a Python, and with an ADIOS2 that it has or with PyPI's."""
BASE = f"{sys.base_prefix}/bin/python3"
"""The Python that this one's environment was made of."""


def try_wheel(wheels: Iterable[Path], chroot: Path = Path("/"), interpreter: str = BASE) -> None:
    """Install the wheel in a bare environment, of a chroot or of this system, and go as far as the first statistics."""
    inside = [] if chroot == Path("/") else ["chroot", chroot]
    machine = subprocess.run([*inside, "uname", "-m"], check=True, capture_output=True, text=True).stdout.strip()
    wheel = next((each for each in wheels if each.stem.endswith(machine)), None)
    if wheel is None:
        sys.exit(f"no wheel can be tried in {chroot}, whose programs are {machine}'s: name it in --machines")
    with ExitStack() as mounted, tempfile.TemporaryDirectory(dir=chroot / "tmp") as folder:
        for kind, target in (("proc", "proc"), ("tmpfs", "dev/shm")) if inside else ():
            (chroot / target).mkdir(exist_ok=True)
            run("mount", "-t", kind, kind, chroot / target)
            mounted.callback(run, "umount", chroot / target)
        for name, text in {"model.py": MODEL, "analysis.yml": CONFIG, "result.py": RESULT}.items():
            Path(folder, name).write_text(text)
        shutil.copy(wheel, folder)
        place = Path("/", Path(folder).relative_to(chroot))
        run(*inside, "sh", "-c", TRY, "sh", place, interpreter, place / wheel.name)
        if not inside:
            bill = ROOT / "dist" / f"{wheel.name.partition('-py3')[0]}.cdx.json"
            python("cyclonedx_py", "environment", "--output-reproducible", "-o", bill, Path(folder, "bare/bin/python"))
            bill.write_text(bill.read_text().replace(f"file://{folder}/", ""))  # where the wheel was tried


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition(":")[0])
    parser.add_argument("--chroot", type=Path, help="an old Debian with g++, whose C library the wheels ask for")
    parser.add_argument("--machines", nargs="+", default=[os.uname().machine], help="x86_64, aarch64")
    parser.add_argument("--try-in", nargs="*", default=[], help="CHROOT or CHROOT=PYTHON, to try the wheel there")
    given = parser.parse_args()
    shutil.rmtree(ROOT / "dist", ignore_errors=True)
    python("build", "--sdist", "--no-isolation", "--skip-dependency-check", "--outdir", ROOT / "dist", ROOT)
    (sdist,) = (ROOT / "dist").glob("*.tar.gz")
    adios2 = fetch_adios2()
    with compilers(given.chroot) as folder:
        wheels = [build_wheel(sdist, machine, folder, adios2) for machine in given.machines]
    python("twine", "check", "--strict", sdist, *wheels)
    # Several packages are meant, and so are files that are equal (empty ones, and the engine's sources).
    python("check_wheel_contents", "--ignore", "W002,W009", *wheels)
    for wheel in wheels:
        check_for_any_python(wheel)
    if os.uname().machine in given.machines:
        try_wheel(wheels)
    for place in given.try_in:
        chroot, _, interpreter = place.partition("=")
        try_wheel(wheels, Path(chroot), interpreter or "python3")
    for file in (sdist, *wheels):
        print(f"{file.name}: {file.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
