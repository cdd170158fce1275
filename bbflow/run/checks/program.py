"""Whether a program can be reached by a plugin of ADIOS2 and by a preloaded library, as far as its files tell."""

import mmap
import os
import re
import shutil
import stat
import struct
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bbflow.run.checks.finding import FINE, NOTE, WRONG, Finding

LAUNCHERS = {
    "aprun", "env", "flux", "ibrun", "jsrun", "mpiexec", "mpiexec.hydra", "mpiexec.mpich", "mpiexec.openmpi", "mpirun",
    "mpirun.mpich", "mpirun.openmpi", "nice", "numactl", "orterun", "prterun", "prun", "setarch", "srun", "stdbuf",
    "taskset", "time", "timeout",
}  # fmt: skip
"""They start the program that their arguments name."""
SHELLS = {"bash", "csh", "dash", "ksh", "sh", "tcsh", "zsh"}
CORE = b"N6adios24core6EngineE"
"""Name of a type of ADIOS2's core, in every library and program that has the core within it, stripped or not."""
OPEN = b"_ZN6adios24core2IO4Open"
"""How the names of the function begin that the preloaded library stands in front of."""
PRIVILEGES = "security.capability"
IMPORTED = "what it imports can't be told before it runs"
UNTOLD = "what it starts can't be told before it runs"
LDD_S = 20.0
SYMBOLS, DYNAMIC, INTERPRETER = 11, 2, 3
"""Kinds of an ELF's sections (SHT_DYNSYM) and segments (PT_DYNAMIC, PT_INTERP)."""


@dataclass(frozen=True, slots=True)
class Elf:
    """What an executable or library says of itself."""

    interpreter: str
    """The loader; empty in libraries and static programs."""
    is_dynamic: bool
    """Whether it is linked with shared libraries, or is one."""
    bits: int
    """32 or 64."""
    has_core: bool
    """Whether ADIOS2's core is within it."""
    exports_open: bool
    """Whether others may stand in front of its IO::Open, as of any shared library of ADIOS2."""


def read_elf(path: Path) -> Elf | None:
    """Read an ELF file; None if it is none, or can't be read."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            # Bytes 4 and 5 are EI_CLASS, 2 of 64 bits, and EI_DATA, 1 of little-endian: all else has no engine of ours.
            if content[:4] != b"\x7fELF" or content[5] != 1:
                return None
            if content[4] != 2:
                return Elf("", True, 32, content.find(CORE) >= 0, False)
            kinds = dict(_segments(content))
            interpreter = kinds.get(INTERPRETER, b"").rstrip(b"\0").decode(errors="replace")
            has_core = content.find(CORE) >= 0
            return Elf(interpreter, DYNAMIC in kinds, 64, has_core, has_core and _exports(content, OPEN))
    # IndexError, OverflowError: a file that is cut, or whose tables are said to lie beyond 2**63.
    except (OSError, ValueError, IndexError, OverflowError, struct.error):
        return None


def _segments(content: mmap.mmap) -> Iterator[tuple[int, bytes]]:
    """Yield kind and content of each segment of a 64-bit ELF (program header table)."""
    (at,) = struct.unpack_from("<Q", content, 32)
    size, count = struct.unpack_from("<HH", content, 54)
    for i in range(count):
        kind, _, offset, _, _, length = struct.unpack_from("<IIQQQQ", content, at + i * size)
        yield kind, content[offset : offset + length] if kind == INTERPRETER else b""


def _exports(content: mmap.mmap, name: bytes) -> bool:
    """Whether a dynamic symbol whose name begins so is defined."""
    (at,) = struct.unpack_from("<Q", content, 40)
    size, count = struct.unpack_from("<HH", content, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", content, at + i * size) for i in range(count)]
    for _, kind, _, _, offset, length, link, *_ in sections:
        if kind == SYMBOLS and link < count:
            names = sections[link][4]
            for i in range(length // 24):  # an Elf64_Sym's bytes
                text, _, _, section = struct.unpack_from("<IBBH", content, offset + 24 * i)
                if section and content[names + text : names + text + len(name)] == name:
                    return True
    return False


def programs_of(command: Sequence[str]) -> list[Path]:
    """Return the programs that a command starts, behind launchers such as ``mpiexec -n 4``.

    Parameters
    ----------
    command
        As after ``--``; with ``:`` between several programs of one launcher.
    """
    found, behind = [], True
    for word in command:
        if word == ":":
            behind = True
        path = _executable(word) if behind else None
        if path is not None and path.name not in LAUNCHERS:
            found.append(path)
            behind = False
    return found


def _executable(word: str) -> Path | None:
    path = shutil.which(word)
    return None if path is None or word.startswith("-") else Path(path)


def check_program(command: Sequence[str]) -> list[Finding]:
    """Check whether the engine can get into a program, and the library that selects it, before a job waits for it.

    Parameters
    ----------
    command
        The simulation, with its launcher.
    """
    programs = programs_of(command)
    if not programs:
        return [Finding(WRONG, "program", f"'{' '.join(command)}' names no program that can be started here")]
    return [_finding(path) for path in programs]


def why_unseen(command: Sequence[str]) -> str:
    """Return why nothing was seen of a program's Opens, as far as its files tell."""
    unseen = "no process of it was seen to open anything with ADIOS2"
    reasons = [item.text for item in check_program(command) if item.kind != FINE]
    return f"{unseen} ({'; '.join(reasons)})" if reasons else unseen


def _finding(path: Path) -> Finding:
    elf = read_elf(path)
    if elf is None:
        return _script(path)
    wrong = _hindrance(path, elf)
    if wrong:
        return Finding(WRONG, "program", wrong)
    if not elf.is_dynamic:
        text = f"{path} is linked statically: nothing can be selected in it, but it may start a program in which it can"
        return Finding(NOTE, "program", text)
    if "python" in path.name:
        return _python(path)
    if path.name in SHELLS:
        return Finding(NOTE, "program", f"{path} is a shell: {UNTOLD}")
    return _linked(path)


def _hindrance(path: Path, elf: Elf) -> str:
    """Return what keeps the engine out of a program for certain; empty if nothing does."""
    mode = path.stat().st_mode
    if elf.bits != 64:
        return f"{path} is a program of {elf.bits} bits; the engine has 64"
    if elf.has_core and not elf.exports_open:
        return f"{path} has ADIOS2 linked statically, which loads no plugin: link it with ADIOS2's shared libraries"
    if mode & (stat.S_ISUID | stat.S_ISGID) or _is_privileged(path):
        return f"{path} runs with another user's rights (setuid, setgid, capabilities), so LD_PRELOAD isn't read"
    if "musl" in elf.interpreter:
        return f"{path} is made for musl ({elf.interpreter}), the engine for glibc: build it for glibc"
    return ""


def _is_privileged(path: Path) -> bool:
    try:
        return PRIVILEGES in os.listxattr(path)
    except OSError:
        return False


def _script(path: Path) -> Finding:
    try:
        with path.open("rb") as file:
            first = file.readline(256).decode(errors="replace").strip()
    except OSError as error:  # of programs with licences users often may run all, and read none
        return Finding(NOTE, "program", f"{path} can't be read ({error.strerror}): what is in it can't be told")
    what = first.removeprefix("#!").strip() if first.startswith("#!") else "an unknown format"
    if "python" in what:
        return _python(path)
    return Finding(NOTE, "program", f"{path} is a script ({what}): {UNTOLD}")


def _python(path: Path) -> Finding:
    """Look at the packages of a Python, of which any may be imported."""
    sites = [site for site in path.parent.parent.glob("lib/python3*/site-packages") if site.is_dir()]
    versions = [found.name.split("-")[1] for site in sites for found in site.glob("adios2-*.dist-info")]
    beside = f", which has the package adios2 {versions[0].removesuffix('.dist')}" if versions else ""
    text = f"{path} runs Python{beside}: {IMPORTED}"
    for library in (found for site in sites for found in site.glob("openpmd_api/*.so")):
        elf = read_elf(library)
        if elf is not None and elf.has_core and not elf.exports_open:
            text += f"; {library} has ADIOS2 linked statically, which loads no plugin"
    return Finding(NOTE, "program", text)


def _linked(path: Path) -> Finding:
    """Look at the libraries that a dynamic program loads."""
    libraries = dict(_libraries(path))
    missing = [name for name, where in libraries.items() if where is None and "adios2" in name]
    if missing:
        return Finding(NOTE, "program", f"{path} doesn't find {missing[0]} here: set LD_LIBRARY_PATH as the job will")
    for name, where in libraries.items():
        elf = read_elf(where) if where is not None and "adios2" not in name else None
        if elf is not None and elf.has_core and not elf.exports_open:
            return Finding(
                WRONG, "program", f"{where}, which {path} loads, has ADIOS2 linked statically, which loads no plugin"
            )
    core = next((where for name, where in libraries.items() if where and re.search("adios2.*_core", name)), None)
    if core is None:
        text = f"{path} isn't linked with ADIOS2's shared libraries; it can be reached if it opens them later"
        return Finding(NOTE, "program", text)
    version = re.search(r"\.so\.(\d+(\.\d+)*)", core.resolve().name)
    return Finding(FINE, "program", f"{path} loads ADIOS2 {version[1] if version else ''} ({core})")


def _libraries(path: Path) -> Iterator[tuple[str, Path | None]]:
    """Yield name and place of each library that the loader would load."""
    try:
        done = subprocess.run(["ldd", str(path)], capture_output=True, text=True, timeout=LDD_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return
    for name, where in re.findall(r"^\s*(\S+) => (\S+)", done.stdout, re.MULTILINE):
        yield name, Path(where) if where.startswith("/") else None
