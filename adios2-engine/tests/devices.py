"""Programs with a GPU's memory: that of a stand-in for its runtime, which crashes who reads it without."""

import subprocess
import sys
from pathlib import Path

import adios2
import bbflow_adios2

from testsupport.processes import running
from testsupport.writers import clean_environment, write_config

HERE = Path(__file__).parent
LIBRARY = Path(adios2.__file__).with_name("libadios2_c.so")
RUNTIMES = {"cuda": ("libcuda.so.1", []), "hip": ("libamdhip64.so.6", ["-DHIP"])}

HEAD = """
import os, pathlib, time
runtime = ctypes.CDLL(os.environ["RUNTIME"])
runtime.device_copy_of.restype = runtime.device_stream.restype = ctypes.c_void_p
values = np.arange(COUNT, dtype=float)
there = runtime.device_copy_of(values.ctypes.data_as(ctypes.c_void_p), values.nbytes)
here = pathlib.Path(config).parent

def device_becomes(values, stream=None):  # when what the program has queued there is done
    runtime.device_becomes(values.ctypes.data_as(ctypes.c_void_p), values.nbytes, stream)

def put(field, first, mode):
    adios.call("put", engine, field, ctypes.c_void_p(there + 8 * first), mode)

def under_way():
    return runtime.device_copies() - runtime.device_done()

def pause():
    (here / "there").touch()
    while not (here / "go").exists():
        time.sleep(0.005)

io = adios.io("model")
"""
TAIL = """
adios.call("close", engine)
assert runtime.device_wrong() == 0, "something is used wrongly, or open"
assert not hasattr(runtime, "hipPeekAtLastError") or runtime.hipPeekAtLastError() == 0
"""


def build(folder, name):
    """Build a stand-in; give its path."""
    file, words = RUNTIMES[name]
    sources = ["-x", "c", HERE / "program" / "device.c", "-x", "c++", HERE / "program" / "kernels.cpp"]
    subprocess.run(["c++", "-shared", "-fPIC", "-ffp-contract=off", *words, *sources, "-o", folder / file], check=True)
    return folder / file


def has_kernels(name):
    """Whether the engine has kernels for a runtime: for CUDA only where a clang++ has made them."""
    engines = Path(bbflow_adios2.__file__).parent.glob("libbbflow_engine_*.so")
    return name == "hip" or any(b".entry bbflow_range_f8(" in engine.read_bytes() for engine in engines)


def words_of(config, code):
    """Return the words of a program's command."""
    return [sys.executable, HERE / "c_program.py", "C", config, LIBRARY, code]


def start_program(runtime, folder, nodes, code, count=24, environment=None, **parameters):
    """Start a program with memory of a stand-in's that has some values, in the context that kills it at its end."""
    text = f"{HEAD.replace('COUNT', str(count))}{code}{TAIL}"
    extra = {"RUNTIME": str(runtime)} | (environment or {})
    return running(words_of(write_config(folder, **parameters), text), clean_environment(nodes.contact) | extra)
