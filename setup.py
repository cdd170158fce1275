"""Build the engines, the fold kernel and the mount with CMake; everything else is in setup.cfg.

A build backend of CMake's wants the metadata in pyproject.toml and one folder for all libraries. This one keeps what it
has compiled in ``build``, whichever environment asks: pip's own differ from one build to the next.
"""

import fcntl
import importlib.util
import os
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build import build
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).parent.resolve()

# what CMake builds -> its files, and the package that carries them
TARGETS = {
    "bbflow_adios2": ("lib/libbbflow_adios2.so", "bbflow_adios2"),
    "bbflow_engine": ("lib/libbbflow_engine_*.so", "bbflow_adios2"),
    "bbflow_preload": ("lib/libbbflow_preload.so", "bbflow_adios2"),
    "bbflow_fold": ("lib/libbbflow_fold.so", "bbflow.operators"),
    "bbflow_gates": ("lib/libbbflow_gates.so", "bbflow.landing"),
    "bbflow-mount": ("bin/bbflow-mount", "bbflow.mount"),
}
# The mount is a fifth of what is compiled; who wants none, as the demo, sets BBFLOW_MOUNT=OFF.
if os.environ.get("BBFLOW_MOUNT", "ON") == "OFF":
    del TARGETS["bbflow-mount"]


class CleanBuild(build):
    """Nothing of an earlier build gets into a wheel: a module that has been removed since would come along."""

    def finalize_options(self):
        if self.build_lib is None:
            self._folder = tempfile.TemporaryDirectory(prefix="bbflow-build-")
            self.build_lib = self._folder.name
        super().finalize_options()


class CMakeBuild(build_ext):
    """One CMake build makes every library and program; it stays for the next one."""

    def run(self):
        # For this computer in a checkout, for any in a wheel: with a folder each, neither compiles the other's again.
        kind = "checkout" if self.inplace else "wheel"
        build = ROOT / "build" / kind
        build.mkdir(parents=True, exist_ok=True)
        with alone_in(build.parent):
            self._configure(build, os.environ.get("BBFLOW_CPU", "own" if self.inplace else "all"))
            subprocess.run(["cmake", "--build", build, "--target", *TARGETS], check=True)
            for file, target in self._files(build):
                target.parent.mkdir(parents=True, exist_ok=True)
                self.copy_file(str(file), str(target))
        if self.editable_mode:
            # Snakemake looks for plugins in the directories of sys.path, where an editable install has none.
            wheel = Path(self.get_finalized_command("install_lib").install_dir)
            # A line of code, since Python reads others in the locale's encoding: with LC_ALL=C it wouldn't start.
            added = f"[path for path in [{str(ROOT / 'snakemake-plugin')!a}] if path not in sys.path]"
            (wheel / "bbflow_snakemake.pth").write_text(f"import sys; sys.path += {added}\n")
        if not self.inplace:
            self._copy_sources(Path(self.build_lib, "bbflow_adios2", "source"))

    def get_outputs(self):
        kind = "checkout" if self.inplace else "wheel"
        return [str(target) for _, target in self._files(ROOT / "build" / kind)]

    def get_output_mapping(self):
        return {}

    def _files(self, build):
        """Return what was built, and where it goes."""
        for pattern, package in TARGETS.values():
            folder = self.get_finalized_command("build_py").get_package_dir(package)
            into = Path(folder) if self.inplace else Path(self.build_lib, *package.split("."))
            for file in sorted(build.glob(pattern)):
                yield file, into / file.name

    def _copy_sources(self, target):
        """Copy sources: an installed bbflow builds its engine for another ADIOS2 from them; a checkout has them."""
        engine = [f"adios2-engine/{name}" for name in ("CMakeLists.txt", "src", "wire", "preload")]
        for name in (*engine, "bbflow/phases", "bbflow/operators/native"):
            for file in [ROOT / name, *(ROOT / name).rglob("*")]:
                if file.suffix in (".cpp", ".h", ".map", ".txt"):
                    copy = target / file.relative_to(ROOT)
                    copy.parent.mkdir(parents=True, exist_ok=True)
                    self.copy_file(str(file), str(copy))

    def _configure(self, build, cpu):
        made_in = build / "made-in"
        if made_in.exists() and made_in.read_text() != str(ROOT):  # the checkout was moved
            shutil.rmtree(build)
            build.mkdir()
        made_in.write_text(str(ROOT))
        # An engine for an ADIOS2 that is no longer asked for would come along.
        for engine in build.glob(TARGETS["bbflow_engine"][0]):
            engine.unlink()
        adios2 = os.environ.get("BBFLOW_ADIOS2") or kept_adios2() or ""
        words = ["-DCMAKE_BUILD_TYPE=Release", f"-DCMAKE_MAKE_PROGRAM={shutil.which('ninja')}"]
        words += [f"-DBBFLOW_CPU={cpu}", f"-DBBFLOW_ADIOS2={adios2}"]
        subprocess.run(["cmake", "-S", ROOT, "-B", build, "-G", "Ninja", *words], check=True)


def kept_adios2():
    """Copy PyPI's ADIOS2, if it is here, to where it stays: with other paths all would be compiled again."""
    found = importlib.util.find_spec("adios2")
    if found is None or not Path(found.origin).with_name("cmake").is_dir():
        return None
    package, kept = Path(found.origin).parent, ROOT / "build" / f"adios2-{version('adios2')}"
    if not kept.exists():
        kept.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
            shutil.copytree(package, Path(folder, "whole", package.name))
            Path(folder, "whole").replace(kept)
    return kept / package.name


@contextmanager
def alone_in(folder):
    """Hold off other builds of this checkout."""
    with (folder / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


class AnyPython3Wheel(bdist_wheel):
    """The libraries don't use Python's C API: one wheel serves every Python 3."""

    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


setup(
    ext_modules=[Extension(f"{package}.{name}", []) for name, (_, package) in TARGETS.items()],
    cmdclass={"build": CleanBuild, "build_ext": CMakeBuild, "bdist_wheel": AnyPython3Wheel},
)
