"""bbflow for Spack, from a checkout with dist/ (``make release``).

``spack repo add packaging/spack``, then ``spack install --no-checksum bbflow``.
"""

from pathlib import Path

from spack.package import *

try:  # packages of build systems, as of Spack 1
    from spack_repo.builtin.build_systems.python import PythonPackage
except ImportError:
    pass


class Bbflow(PythonPackage):
    """In-transit analysis of what simulations write through ADIOS2, and workflow staging around burst buffers."""

    # A release fills in where its sdist is, and its checksum.
    url = (Path(__file__).resolve().parents[4] / "dist/bbflow-0.1.0.tar.gz").as_uri()
    version("0.1.0")
    license("Apache-2.0")

    variant("mount", default=True, description="build bbflow-mount, which shows files on BB nodes as a directory")
    variant("remap", default=False, description="other grids: NetCDF, HEALPix, weights")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.22:", type="build")
    depends_on("ninja", type="build")
    depends_on("python@3.11:", type=("build", "run"))
    depends_on("py-setuptools@77:", type="build")
    depends_on("py-pip", type="build")
    depends_on("adios2@2.9:+shared", type=("build", "link", "run"))

    for package, versions in {
        "cftime": "1.6.4:1",
        "cryptography": "42:59",
        "dask": "2025.4:2026",
        "distributed": "2025.4:2026",
        "fsspec": "2025.3:2027",
        "google-crc32c": "1.5:1",
        "jinja2": "3.1:3",
        "matplotlib": "3.9:3",
        "msgspec": "0.19:0",
        "numcodecs": "0.14:0",
        "numpy": "2:2",
        "pyyaml": "6.0.1:6",
        "rich": "13.7:15",
        "tornado": "6.4:6",
        "xarray": "2025.1.2:2026",
        "zarr": "3.0.8:3",
    }.items():
        depends_on(f"py-{package}@{versions}", type=("build", "run"))
    for package, versions in {"netcdf4": "1.7:1", "healpix": "2024.2:2026", "scipy": "1.13:1"}.items():
        depends_on(f"py-{package}@{versions}", type="run", when="+remap")

    def setup_build_environment(self, env):
        env.set("BBFLOW_ADIOS2", self.spec["adios2"].prefix)
        env.set("BBFLOW_MOUNT", "ON" if self.spec.satisfies("+mount") else "OFF")

    def setup_run_environment(self, env):
        # ADIOS2 looks for the engine here: the model's XML is all that changes.
        env.prepend_path("ADIOS2_PLUGIN_PATH", join_path(python_platlib, "bbflow_adios2"))
