"""What an installation can do on this host, for `bbflow doctor`: each part is tried, none is believed."""

import ctypes
import importlib.metadata
import importlib.util
import ipaddress
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import bbflow_adios2

from bbflow.errors import BbflowError
from bbflow.net.listen import listen_tcp
from bbflow.operators import library
from bbflow.run.checks.finding import FINE, NOTE, WRONG, Finding
from bbflow.store.pool import free_bytes
from bbflow.units import format_bytes

CORE = re.compile(r"libadios2\w*_core\.so\.(\d+\.\d+)")
LOAD = """
import ctypes, pathlib, sys
core, engine = map(pathlib.Path, sys.argv[1:])
for word in ("_core.", "_cxx.", "_cxx11."):
    path = core.with_name(core.name.replace("_core.", word))
    if path.exists():
        ctypes.CDLL(str(path), ctypes.RTLD_GLOBAL)
ctypes.CDLL(str(engine))
"""
"""Opens an engine as in a program that has this ADIOS2."""
FOR_DEVELOPERS = {"all", "bench", "docs", "lint", "readers", "release", "test"}
LOAD_S = 60
"""Another process that takes longer to load a library, or to say where libraries are, has no answer."""
SMALL_BYTES = 1 << 30
REMEDY = "nodes for several hosts need an address that those reach, such as --listen 10.0.0.1"


def check_installation(environment: Mapping[str, str] = os.environ) -> list[Finding]:
    """Try the kernel, the engines, shared memory, the mount, TLS and a port, and look for the extras."""
    tried = (check_kernel(), *check_engines(environment), check_memory(), check_mount(), check_tls(), check_port())
    return [*tried, *check_extras()]


def check_kernel() -> Finding:
    """Load the fold's kernel."""
    try:
        library.load()
    except BbflowError as error:
        return Finding(WRONG, "kernel", str(error))
    return Finding(FINE, "kernel", "it can be loaded")


def find_adios2(environment: Mapping[str, str]) -> dict[Path, str]:
    """Find ADIOS2's cores: of the Python package, in the folders of the environment, and those that the linker knows.

    Returns
    -------
    dict
        The version, such as ``2.12``, of each path; one name of each file.
    """
    names = (path for folder in _folders(environment) for path in sorted(folder.glob("libadios2*_core.so.*")))
    found: dict[tuple[Path, str], Path] = {}
    for path in [*names, *_linked()]:
        match = CORE.match(path.name)
        if match and path.exists():
            found.setdefault((path.resolve().parent, match[1]), path)
    return {path: version for (_, version), path in found.items()}


def _folders(environment: Mapping[str, str]) -> Iterator[Path]:
    spec = importlib.util.find_spec("adios2")
    if spec is not None and spec.origin is not None:
        yield Path(spec.origin).parent
    yield from (Path(word) for word in environment.get("LD_LIBRARY_PATH", "").split(":") if word)
    words = f"{environment.get('ADIOS2_DIR', '')}:{environment.get('CMAKE_PREFIX_PATH', '')}"
    for prefix in (Path(word) for word in re.split("[:;]", words) if word):
        yield from (prefix, *prefix.glob("lib*"), prefix.parent.parent)


def _linked() -> Iterator[Path]:
    tool = shutil.which("ldconfig", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if tool is not None:
        said = _run(tool, "-p").stdout
        yield from (Path(line.rpartition(" => ")[2]) for line in said.splitlines() if "libadios2" in line)


def check_engines(environment: Mapping[str, str], load_s: float = LOAD_S) -> list[Finding]:
    """Load an engine for each ADIOS2 that is found, in a process of its own that may take `load_s`."""
    folders = [Path(bbflow_adios2.__file__).parent, *map(Path, filter(None, _plugins(environment)))]
    engines = sorted({path for folder in folders for path in folder.glob("libbbflow_engine_*.so")})
    if not engines:
        return [Finding(WRONG, "engine", "none is built: install bbflow again with pip, which builds it")]
    found = [_engine(core, version, engines, load_s) for core, version in find_adios2(environment).items()]
    if found:
        return found
    versions = sorted({path.stem.split("_")[2] for path in engines}, key=lambda text: [*map(int, text.split("."))])
    return [Finding(NOTE, "engine", f"there is one for ADIOS2 {', '.join(versions)}; no ADIOS2 is found on this host")]


def _plugins(environment: Mapping[str, str]) -> list[str]:
    return environment.get(bbflow_adios2.PLUGIN_PATH_VARIABLE, "").split(":")


def _engine(core: Path, version: str, engines: Iterable[Path], load_s: float) -> Finding:
    remedy = f"run 'python -m bbflow_adios2 build --adios2 {core.parent}'"
    why = "there is no engine for it"
    for engine in engines:
        if engine.stem.split("_")[2] == version:
            done = _run(sys.executable, "-c", LOAD, str(core), str(engine), within_s=load_s)
            if done.returncode == 0:
                return Finding(FINE, "engine", f"ADIOS2 {version} in {core.parent}: {engine}")
            if done.returncode == os.EX_TEMPFAIL:
                why, remedy = f"{engine}: {done.stderr}", "try again, or see what holds the file system up"
            elif not any(path.exists() for path in _public_classes(core)):
                # Distributions have them in a package of their own.
                why = f"its C++ library, {_public_classes(core)[0]} (or _cxx), is missing"
                remedy = "install that part of ADIOS2 too (on Debian 'apt search libadios2-.*c++' names it)"
            else:
                why = (done.stderr.strip().splitlines() or [f"{engine} ends its process"])[-1]
    return Finding(WRONG, "engine", f"ADIOS2 {version} in {core.parent}: {why}: {remedy}")


def _public_classes(core: Path) -> list[Path]:
    return [core.with_name(core.name.replace("_core.", word)) for word in ("_cxx11.", "_cxx.")]


def _run(*words: str, within_s: float = LOAD_S) -> subprocess.CompletedProcess[str]:
    """Run a command; one that doesn't end has the exit code of what may work another time."""
    try:
        return subprocess.run(words, capture_output=True, text=True, check=False, timeout=within_s)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(words, os.EX_TEMPFAIL, "", f"no answer in {within_s:g} s")


def check_memory(directory: Path = Path("/dev/shm")) -> Finding:
    """Check that blocks can land in shared memory."""
    if not os.access(directory, os.W_OK):
        return Finding(WRONG, "shared memory", f"{directory} can't be written: set nodes: {{directory: …}} to a tmpfs")
    free = free_bytes(directory)
    if free < SMALL_BYTES:
        text = f"{directory} has {format_bytes(free)} free: steps that are larger need a larger one (mount -o size=…)"
        return Finding(NOTE, "shared memory", text)
    return Finding(FINE, "shared memory", f"{directory} has {format_bytes(free)} free")


def check_mount(device: Path = Path("/dev/fuse")) -> Finding:
    """Check that `bbflow mount` can work: it is only for programs that open files themselves."""
    spec = importlib.util.find_spec("bbflow.mount")
    assert spec is not None
    assert spec.origin is not None
    program = Path(spec.origin).with_name("bbflow-mount")
    if not program.exists():
        return Finding(NOTE, "mount", f"{program} isn't built: install bbflow without BBFLOW_MOUNT=OFF")
    if not os.access(device, os.R_OK | os.W_OK):
        return Finding(NOTE, "mount", f"{device} can't be opened: ask for the kernel's fuse module (modprobe fuse)")
    if os.geteuid() and shutil.which("fusermount3") is None:
        return Finding(NOTE, "mount", "fusermount3 is missing: apt install fuse3 (dnf install fuse3)")
    return Finding(FINE, "mount", f"{device} can be opened")


def check_tls() -> Finding:
    """Check that an engine can speak TLS, which nodes with a certificate want."""
    try:
        ctypes.CDLL("libssl.so.3")
    except OSError:
        return Finding(NOTE, "TLS", "there is no libssl.so.3: nodes with a certificate need OpenSSL 3 where ranks run")
    return Finding(FINE, "TLS", "libssl.so.3 can be loaded")


def check_port() -> Finding:
    """Connect to a port of this host by its name, as ranks and analyses of other hosts do."""
    host = socket.gethostname()
    try:
        with listen_tcp(host) as listener, socket.create_connection(listener.getsockname()[:2], timeout=10):
            address = listener.getsockname()[0]
    except (BbflowError, OSError) as error:
        return Finding(NOTE, "ports", f"{error}: {REMEDY}")
    if ipaddress.ip_address(address).is_loopback:
        return Finding(NOTE, "ports", f"{host} is {address} here: {REMEDY}")
    return Finding(FINE, "ports", f"{host} is {address}")


def check_extras(name: str = "bbflow") -> list[Finding]:
    """Return which extras are whole, and which lack packages."""
    try:
        requires = importlib.metadata.requires(name) or []
    except importlib.metadata.PackageNotFoundError:
        return [Finding(NOTE, "extras", f"{name} isn't installed, but runs from its sources: pip install it")]
    lacking: dict[str, list[str]] = {}
    for line in requires:
        match = re.match(r"([\w.-]+).*extra == ['\"]([\w-]+)['\"]", line)
        if match and match[2] not in FOR_DEVELOPERS:
            lacking.setdefault(match[2], []).extend([] if _is_installed(match[1]) else [match[1]])
    whole = [extra for extra, packages in lacking.items() if not packages]
    found = [Finding(FINE, "extras", ", ".join(sorted(whole)) or "none")]
    for extra, packages in sorted(lacking.items()):
        if packages:
            text = f"{extra} lacks {', '.join(packages)}: pip install '{name}[{extra}]' if you need it"
            found.append(Finding(NOTE, "extras", text))
    return found


def _is_installed(package: str) -> bool:
    try:
        importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True
