import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]


def build(*words):
    done = subprocess.run([sys.executable, "-m", "build", *map(str, words)], text=True, capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_wheel_built_from_the_sdist_has_everything(tmp_path):
    build("--outdir", tmp_path, ROOT)  # the sdist, then a wheel from it, each in a clean environment
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name.startswith("bbflow-")
    assert "-py3-none-" in wheel.name
    names = set(zipfile.ZipFile(wheel).namelist())
    needed = {
        "bbflow_adios2/libbbflow_adios2.so",
        "bbflow_adios2/libbbflow_preload.so",
        "bbflow_adios2/libbbflow_engine_2.12.so",
        "bbflow_adios2/source/adios2-engine/CMakeLists.txt",
        "bbflow_adios2/source/bbflow/operators/native/FoldTemplate.h",
        "bbflow_adios2/source/adios2-engine/src/interface1/Plugin.cpp",
        "bbflow/operators/libbbflow_fold.so",
        "bbflow/landing/libbbflow_gates.so",
        "bbflow/mount/bbflow-mount",
        "bbflow/report/report.html",
        "bbflow/py.typed",
        "bbflow_workflows/climate/CMakeLists.txt",
        "bbflow_workflows/climate/main.cpp",
        "bbflow_workflows/climate/climate.xml",
        "bbflow_catalogs/operators/climate.yml",
        "bbflow_catalogs/adios2/climate-bp5.xml",
    }
    assert needed <= names
