"""CRC-32C by the CPU's instruction; Spack's own recipe has an older one."""

from spack.package import *

try:  # packages of build systems, as of Spack 1
    from spack_repo.builtin.build_systems.python import PythonPackage
except ImportError:
    pass


class PyGoogleCrc32c(PythonPackage):
    """A Python wrapper of Google's crc32c."""

    pypi = "google-crc32c/google_crc32c-1.9.0.tar.gz"
    license("Apache-2.0")

    version("1.9.0", sha256="7b8c84c3d159ab6817fe3f74e6e6cef099c3f95dcec3abc0d8afb1404642efbe")

    depends_on("c", type="build")
    depends_on("python@3.9:", type=("build", "link", "run"))
    depends_on("py-setuptools", type="build")
    depends_on("google-crc32c", type=("build", "link", "run"))

    def setup_build_environment(self, env):
        env.set("CRC32C_INSTALL_PREFIX", self.spec["google-crc32c"].prefix)
