"""Build the engine, the fold kernel and the mount with CMake; everything else is in setup.cfg."""

import importlib.util
import subprocess
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).parent.resolve()

# library (as CMake names it) -> package that carries it
LIBRARIES = {"bbflow_adios2": "bbflow_adios2", "bbflow_fold": "bbflow.operators"}
# the same of programs
PROGRAMS = {"bbflow-mount": "bbflow.mount"}


class CMakeBuild(build_ext):
    """One CMake build makes every library and program."""

    def get_ext_filename(self, fullname):
        package, _, name = fullname.rpartition(".")
        return str(Path(*package.split("."), name if name in PROGRAMS else f"lib{name}.so"))

    def run(self):
        adios2 = Path(importlib.util.find_spec("adios2").origin).parent
        build = Path(self.build_temp).resolve()
        subprocess.run(
            ["cmake", "-S", ROOT, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
             f"-DADIOS2_DIR={adios2 / 'cmake' / 'adios2'}"],
            check=True,
        )  # fmt: skip
        subprocess.run(["cmake", "--build", build], check=True)
        super().run()

    def build_extension(self, ext):
        name = ext.name.rpartition(".")[2]
        made = Path("bin", name) if name in PROGRAMS else Path("lib", f"lib{name}.so")
        built = Path(self.build_temp).resolve() / made
        target = Path(self.get_ext_fullpath(ext.name))
        target.parent.mkdir(parents=True, exist_ok=True)
        self.copy_file(str(built), str(target))


class AnyPython3Wheel(bdist_wheel):
    """The libraries don't use Python's C API: one wheel serves every Python 3."""

    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


setup(
    ext_modules=[Extension(f"{package}.{name}", []) for name, package in (LIBRARIES | PROGRAMS).items()],
    cmdclass={"build_ext": CMakeBuild, "bdist_wheel": AnyPython3Wheel},
)
