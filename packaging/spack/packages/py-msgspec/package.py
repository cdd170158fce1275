"""Typed messages and configuration; Spack has no recipe of its own."""

from spack.package import *

try:  # packages of build systems, as of Spack 1
    from spack_repo.builtin.build_systems.python import PythonPackage
except ImportError:
    pass


class PyMsgspec(PythonPackage):
    """Fast serialisation and validation for JSON, MessagePack, YAML and TOML."""

    pypi = "msgspec/msgspec-0.20.0.tar.gz"
    license("BSD-3-Clause")

    version("0.20.0", sha256="692349e588fde322875f8d3025ac01689fead5901e7fb18d6870a44519d62a29")

    depends_on("c", type="build")
    depends_on("python@3.9:", type=("build", "link", "run"))
    depends_on("py-setuptools", type="build")
    depends_on("py-setuptools-scm@8:", type="build")
