"""The kernels for GPUs, compiled for the CPU; and what compilers for GPUs say of them, where they are here."""

import ctypes
import importlib.util
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

PROGRAM = Path(__file__).parent / "program"
KERNELS = Path(__file__).parents[1] / "src" / "kernels" / "Kernels.cpp"
KINDS = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8"]
MOST_PARTS = 32
BLOCK_THREADS = 128


class Part(ctypes.Structure):
    """Rows of values, as PackTask.h has them."""

    _fields_ = [("first", ctypes.c_void_p), *((name, ctypes.c_ulonglong) for name in ("row_bytes", "rows", "pitch"))]


class PackTask(ctypes.Structure):
    """As PackTask.h has it."""

    _fields_ = [
        ("parts", ctypes.c_uint), ("blocks", ctypes.c_uint), ("target", ctypes.c_void_p), ("ranges", ctypes.c_void_p),
        ("which", Part * MOST_PARTS),
    ]  # fmt: skip


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    """Compile the kernels for this CPU."""
    path = tmp_path_factory.mktemp("kernels") / "kernels.so"
    subprocess.run(["c++", "-shared", "-fPIC", "-O1", PROGRAM / "kernels.cpp", "-o", path], check=True)
    library = ctypes.CDLL(path)
    assert library.pack_task_bytes() == ctypes.sizeof(PackTask)
    return library


def pack(kernels, kind, parts, blocks, target):
    """Put rows of arrays together; gives what the threads have found."""
    ranges = np.zeros((blocks * BLOCK_THREADS, 2), kind)
    task = PackTask(len(parts), blocks, target.ctypes.data if target is not None else None, ranges.ctypes.data)
    for slot, part in zip(task.which, parts, strict=False):
        slot.first, slot.pitch = part.ctypes.data, part.strides[0]
        slot.rows, slot.row_bytes = part.shape[0], part.shape[1] * part.itemsize
    kernel = getattr(kernels, f"bbflow_pack_{kind}")
    wrong = kernels.run_pack(kernel, ctypes.byref(task), blocks, ctypes.c_ssize_t(0), ctypes.c_size_t(0))
    assert wrong == 0
    return ranges


@st.composite
def memories(draw, kind):
    """Rows of a memory, which may have more than is taken of it."""
    rows, length, more = draw(st.integers(1, 4)), draw(st.integers(1, 300)), draw(st.integers(0, 3))
    seed, ends = draw(st.integers(0, 2**32 - 1)), draw(st.booleans())
    whole = np.random.default_rng(seed).integers(0, 256, (rows, (length + more) * np.dtype(kind).itemsize), np.uint8)
    values = whole.view(kind)
    if ends and kind[0] == "f":
        values[:, ::2], values[:, 1::3] = np.nan, -np.inf
    return values[:, :length]


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=30)
@given(data=st.data())
def test_rows_are_put_together_and_their_ends_found_in_one_pass(kernels, kind, data):
    parts = data.draw(st.lists(memories(kind), min_size=1, max_size=5))
    blocks = data.draw(st.integers(1, 3))
    together = np.concatenate([part.ravel() for part in parts])
    copies = data.draw(st.booleans())
    target = np.zeros(together.size + 1, kind) if copies else None
    ranges = pack(kernels, kind, parts, blocks, target)
    if copies:
        assert target[:-1].tobytes() == together.tobytes()
        assert target[-1] == 0
    valid = together[together == together]
    if valid.size:
        assert (ranges[:, 0].min(), ranges[:, 1].max()) == (valid.min(), valid.max())
    else:
        assert (ranges[:, 0] > ranges[:, 1]).all()


def find_clang():
    """Return a clang++ of this host, or None."""
    names = ["clang++", *(f"clang++-{version}" for version in range(14, 23))]
    return next((path for name in names if (path := shutil.which(name))), None)


def find_ptxas():
    """Return NVIDIA's assembler, of this host or of PyPI's nvidia-cuda-nvcc-cu12, or None."""
    found = importlib.util.find_spec("nvidia")
    folders = list(found.submodule_search_locations) if found else []
    return shutil.which("ptxas") or next(
        (path for folder in folders for path in Path(folder).glob("*/bin/ptxas")), None
    )


NEEDS_CLANG = pytest.mark.skipif(find_clang() is None, reason="needs clang++ (Debian: clang)")


def compile_for(target, words):
    """Compile the kernels for a GPU into a text; skips where clang hasn't that kind."""
    words += ["--cuda-device-only", "-std=c++17", "-O3", "-ffp-contract=off"]
    done = subprocess.run([find_clang(), *words, "-S", KERNELS, "-o", "-"], capture_output=True, text=True)
    if "No available targets are compatible" in done.stderr or "unknown target" in done.stderr:
        pytest.skip(f"this clang++ makes nothing for {target}")
    assert done.returncode == 0, done.stderr
    return done.stdout


def compile_for_cuda():
    return compile_for("NVIDIA's GPUs", ["-x", "cuda", "--cuda-gpu-arch=sm_70", "-nocudainc", "-nocudalib"])


@NEEDS_CLANG
def test_clang_makes_kernels_for_cuda():
    made = compile_for_cuda()
    assert all(f".visible .entry bbflow_pack_{kind}(" in made for kind in KINDS)
    assert ".local" not in made, "values that are under way stay in registers"


@NEEDS_CLANG
def test_clang_makes_kernels_for_amd_s_gpus_of_the_same_source():
    words = ["-x", "hip", "--offload-arch=gfx90a", "-nogpuinc", "-nogpulib"]
    assert all(f".globl\tbbflow_pack_{kind}\n" in compile_for("AMD's GPUs", words) for kind in KINDS[-1:])


@NEEDS_CLANG
@pytest.mark.skipif(find_ptxas() is None, reason="needs ptxas (PyPI: nvidia-cuda-nvcc-cu12)")
@pytest.mark.parametrize("architecture", ["sm_70", "sm_80", "sm_90"])
def test_nvidia_s_assembler_takes_the_kernels(tmp_path, architecture):
    (tmp_path / "kernels.ptx").write_text(compile_for_cuda())
    words = [find_ptxas(), f"-arch={architecture}", tmp_path / "kernels.ptx", "-o", tmp_path / "kernels.cubin"]
    subprocess.run(words, check=True)
    assert (tmp_path / "kernels.cubin").stat().st_size > 0
