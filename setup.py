"""Build the engine, the fold kernel and the mount with CMake; everything else is in setup.cfg."""

import fcntl
import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build import build
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).parent.resolve()

# library (as CMake names it) -> package that carries it; the engine's name goes on with the version of ADIOS2
LIBRARIES = {
    "bbflow_adios2": "bbflow_adios2",
    "bbflow_engine": "bbflow_adios2",
    "bbflow_preload": "bbflow_adios2",
    "bbflow_fold": "bbflow.operators",
}
# The mount is a third of what is compiled; who wants none, as the demo, sets BBFLOW_MOUNT=OFF.
MOUNT = os.environ.get("BBFLOW_MOUNT", "ON")
# the same of programs
PROGRAMS = {} if MOUNT == "OFF" else {"bbflow-mount": "bbflow.mount"}


class CleanBuild(build):
    """Nothing of an earlier build gets into a wheel: a module that has been removed since would come along."""

    def finalize_options(self):
        if self.build_lib is None:
            self._folder = tempfile.TemporaryDirectory(prefix="bbflow-build-")
            self.build_lib = self._folder.name
        super().finalize_options()


class CMakeBuild(build_ext):
    """One CMake build makes every library and program; it stays for the next one."""

    def get_ext_filename(self, fullname):
        package, _, name = fullname.rpartition(".")
        return str(Path(*package.split("."), file_of(name)))

    def run(self):
        build = Path(self.build_temp).resolve()
        build.mkdir(parents=True, exist_ok=True)
        with alone_in(build):
            self._configure(build)
            subprocess.run(["cmake", "--build", build], check=True)
            super().run()
        if self.editable_mode:
            # Snakemake looks for plugins in the directories of sys.path, where an editable install has none.
            wheel = Path(self.get_finalized_command("install_lib").install_dir)
            (wheel / "bbflow_snakemake.pth").write_text(f"{ROOT / 'snakemake-plugin'}\n")
        if not self.inplace:
            self._copy_sources(Path(self.build_lib, "bbflow_adios2", "source"))

    def _copy_sources(self, target):
        """Let an installed bbflow build its engine for another ADIOS2; a checkout has the sources beside it."""
        engine = [f"adios2-engine/{name}" for name in ("CMakeLists.txt", "src", "wire", "preload")]
        for name in (*engine, "bbflow/phases"):
            for file in [ROOT / name, *(ROOT / name).rglob("*")]:
                if file.suffix in (".cpp", ".h", ".map", ".txt"):
                    copy = target / file.relative_to(ROOT)
                    copy.parent.mkdir(parents=True, exist_ok=True)
                    self.copy_file(str(file), str(copy))

    def _configure(self, build):
        adios2 = Path(importlib.util.find_spec("adios2").origin).parent
        ninja = shutil.which("ninja")
        # What an earlier build was made with may be gone: pip makes an environment for each build.
        made_with, tools = build / "made-with", "\n".join(map(str, (ROOT, shutil.which("cmake"), ninja, adios2)))
        fresh = [] if made_with.exists() and made_with.read_text() == tools else ["--fresh"]
        made_with.unlink(missing_ok=True)
        subprocess.run(
            ["cmake", *fresh, "-S", ROOT, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
             f"-DCMAKE_MAKE_PROGRAM={ninja}", f"-DBBFLOW_MOUNT={MOUNT}", f"-DADIOS2_DIR={adios2 / 'cmake' / 'adios2'}"],
            check=True,
        )  # fmt: skip
        made_with.write_text(tools)

    def build_extension(self, ext):
        name = ext.name.rpartition(".")[2]
        built = Path(self.build_temp).resolve() / ("bin" if name in PROGRAMS else "lib") / file_of(name)
        target = Path(self.get_ext_fullpath(ext.name))
        target.parent.mkdir(parents=True, exist_ok=True)
        self.copy_file(str(built), str(target))


def file_of(name):
    """Return the file's name of a library or program, as CMake makes it for the ADIOS2 that is there."""
    if name in PROGRAMS:
        return name
    major, minor = importlib.metadata.version("adios2").split(".")[:2]
    return f"lib{name}_{major}.{minor}.so" if name == "bbflow_engine" else f"lib{name}.so"


@contextmanager
def alone_in(folder):
    """Let other builds of this checkout wait."""
    with (folder / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


class AnyPython3Wheel(bdist_wheel):
    """The libraries don't use Python's C API: one wheel serves every Python 3."""

    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


setup(
    ext_modules=[Extension(f"{package}.{name}", []) for name, package in (LIBRARIES | PROGRAMS).items()],
    cmdclass={"build": CleanBuild, "build_ext": CMakeBuild, "bdist_wheel": AnyPython3Wheel},
)
