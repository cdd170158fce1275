"""The kernels for GPUs, compiled for the CPU; and what compilers for GPUs say of them, where they are here."""

import ctypes
import importlib.util
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from bbflow.operators.kernel import fold_state
from bbflow.operators.library import FIELDS
from bbflow.operators.statistics.bins import Bins, cell_table
from bbflow.operators.steps import Steps

PROGRAM = Path(__file__).parent / "program"
KERNELS = Path(__file__).parents[1] / "src" / "kernels"
KINDS = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8"]
MOST_PARTS, MOST_STEPS, MOST_ROWS = 64, 32, 64
BLOCK_THREADS = 128


class Part(ctypes.Structure):
    """Rows of values, as RangeTask.h has them."""

    _fields_ = [
        ("first", ctypes.c_void_p), *((name, ctypes.c_ulonglong) for name in ("row_bytes", "rows", "pitch")),
        ("ranges", ctypes.c_void_p),
    ]  # fmt: skip


class RangeTask(ctypes.Structure):
    """As RangeTask.h has it."""

    _fields_ = [("parts", ctypes.c_uint), ("blocks", ctypes.c_uint), ("which", Part * MOST_PARTS)]


class FoldTask(ctypes.Structure):
    """As FoldTask.h has it."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in FIELDS), ("points", ctypes.c_ulonglong),
        *((name, ctypes.c_uint) for name in ("blocks", "steps", "has_fill", "begins")),
        ("fill", ctypes.c_char * 8), ("which", ctypes.c_void_p * MOST_STEPS),
        ("bins", ctypes.c_void_p), ("rows", ctypes.c_uint), ("breaks", ctypes.c_double * MOST_ROWS),
    ]  # fmt: skip


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    """Compile the kernels for this CPU."""
    path = tmp_path_factory.mktemp("kernels") / "kernels.so"
    subprocess.run(
        ["c++", "-shared", "-fPIC", "-O1", "-ffp-contract=off", PROGRAM / "kernels.cpp", "-o", path], check=True
    )
    library = ctypes.CDLL(path)
    assert library.range_task_bytes() == ctypes.sizeof(RangeTask)
    assert library.fold_task_bytes() == ctypes.sizeof(FoldTask)
    return library


def find_ranges(kernels, kind, parts, blocks):
    """Return what the threads have found of each part."""
    ranges = np.zeros((len(parts), blocks * BLOCK_THREADS, 2), kind)
    task = RangeTask(len(parts), blocks)
    for slot, part, own in zip(task.which, parts, ranges, strict=False):
        slot.first, slot.pitch, slot.ranges = part.ctypes.data, part.strides[0], own.ctypes.data
        slot.rows, slot.row_bytes = part.shape[0], part.shape[1] * part.itemsize
    kernel = getattr(kernels, f"bbflow_range_{kind}")
    kernels.run_range(kernel, ctypes.byref(task), ctypes.c_ssize_t(0), ctypes.c_size_t(0))
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
def test_the_ends_of_each_part_are_found(kernels, kind, data):
    parts = data.draw(st.lists(memories(kind), min_size=1, max_size=5))
    for part, ranges in zip(parts, find_ranges(kernels, kind, parts, data.draw(st.integers(1, 3))), strict=True):
        valid = part[part == part]
        if valid.size:
            assert (ranges[:, 0].min(), ranges[:, 1].max()) == (valid.min(), valid.max())
        else:
            assert (ranges[:, 0] > ranges[:, 1]).all()


def identity(kind, points, names):
    """The state of no steps: some fields of it."""
    if kind[0] == "f":
        highest, lowest = np.inf, -np.inf
    else:
        highest, lowest = np.iinfo(kind).max, np.iinfo(kind).min
    whole = {"count": (0, "i4"), "shift": (0, kind), "first": (0, "f8"), "second": (0, "f8"),
             "min": (highest, kind), "max": (lowest, kind)}  # fmt: skip
    return {name: np.full((1, points), *whole[name]) for name in FIELDS if name in names}


def bits(array):
    """Those of all values; one NaN is as good as another."""
    return np.where(array == array, array, np.array(np.nan if array.dtype.kind == "f" else 0, array.dtype)).tobytes()


def fold_as_gpus(kernels, kind, state, steps, fill, blocks, breaks=()):
    """Begin a state of steps, in place."""
    for at in range(0, len(steps), MOST_STEPS):
        some = steps[at : at + MOST_STEPS]
        task = FoldTask(points=some[0].size, blocks=blocks, steps=len(some), has_fill=fill is not None, begins=at == 0)
        task.rows, task.breaks[: len(breaks)] = len(breaks), list(breaks)
        for name, array in state.items():
            setattr(task, name, array.ctypes.data)
        for number, step in enumerate(some):
            task.which[number] = step.ctypes.data
        if fill is not None:
            ctypes.memmove(ctypes.addressof(task) + FoldTask.fill.offset, fill.ctypes.data, fill.itemsize)
        kernels.run_fold(getattr(kernels, f"bbflow_fold_{kind}"), ctypes.byref(task))


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=30)
@given(data=st.data())
def test_states_of_a_gpu_are_those_of_the_cpu_to_the_bit(kernels, kind, data):
    points, count = data.draw(st.integers(1, 600)), data.draw(st.integers(1, 70))
    noise = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    values = noise.integers(-100, 100, (count, points)).astype(kind)
    if kind[0] == "f":
        values += noise.random((count, points)).astype(kind)
        values[noise.random((count, points)) < data.draw(st.sampled_from([0, 0.3, 1]))] = np.nan
        values[noise.random((count, points)) < data.draw(st.sampled_from([0, 0.01]))] = np.inf
    fill = np.array(values[0, 0]) if data.draw(st.booleans()) else None
    moments = data.draw(st.sampled_from([(), ("shift", "first"), ("shift", "first", "second")]))
    extremes = data.draw(st.lists(st.sampled_from(["min", "max"]), unique=True, min_size=not moments))
    names = {"count", *moments, *extremes}
    steps = list(values)
    here = identity(kind, points, names)
    there = {name: np.full_like(array, 7) for name, array in here.items()}  # counts for nothing
    fold_as_gpus(kernels, kind, there, steps, fill, data.draw(st.integers(1, 3)))
    fold_state(here, here, Steps(steps, fill))
    for name, expected in here.items():
        assert bits(there[name]) == bits(expected), name


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=30)
@given(data=st.data())
def test_a_gpu_counts_values_in_the_bins_of_the_cpu(kernels, kind, data):
    points, count = data.draw(st.integers(1, 600)), data.draw(st.integers(1, 70))
    noise = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    edges = tuple(sorted(set(data.draw(st.lists(st.integers(-120, 120).map(float), min_size=2, max_size=62)))))
    assume(len(edges) > 1)
    values = noise.integers(-100, 100, (count, points)).astype(kind)
    if kind[0] == "f":
        values[noise.random((count, points)) < 0.2] += 0.5
        values[noise.random((count, points)) < 0.1] = np.nan
        values[noise.random((count, points)) < 0.1] = noise.choice([np.inf, -np.inf])
    fill = np.array(values[0, 0]) if data.draw(st.booleans()) else None
    table = cell_table(edges)
    here = np.zeros((len(table.breaks), points), "i4")
    Bins(edges=edges).fold({"counts": here}, Steps(list(values), fill))
    there = {"count": np.full((1, points), 7, "i4"), "bins": np.full_like(here, 7)}
    fold_as_gpus(kernels, kind, there, list(values), fill, data.draw(st.integers(1, 3)), table.breaks)
    np.testing.assert_array_equal(there["bins"], here)
    np.testing.assert_array_equal(there["count"][0], here.sum(0))


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
    done = subprocess.run(
        [find_clang(), *words, "-S", KERNELS / "Kernels.cpp", "-o", "-"], capture_output=True, text=True
    )
    if "No available targets are compatible" in done.stderr or "unknown target" in done.stderr:
        pytest.skip(f"this clang++ makes nothing for {target}")
    assert done.returncode == 0, done.stderr
    return done.stdout


def compile_for_cuda():
    return compile_for("NVIDIA's GPUs", ["-x", "cuda", "--cuda-gpu-arch=sm_70", "-nocudainc", "-nocudalib"])


NAMES = [f"bbflow_{what}_{kind}" for what in ("range", "fold") for kind in KINDS]


@NEEDS_CLANG
def test_clang_makes_kernels_for_cuda():
    made = compile_for_cuda()
    assert all(f".visible .entry {name}(" in made for name in NAMES)
    assert ".local" not in made, "values that are under way stay in registers"
    assert "fma." not in made, "as on the CPU"


@NEEDS_CLANG
def test_clang_makes_kernels_for_amd_s_gpus_of_the_same_source():
    words = ["-x", "hip", "--offload-arch=gfx90a", "-nogpuinc", "-nogpulib"]
    made = compile_for("AMD's GPUs", words)
    assert all(f".globl\t{name}\n" in made for name in NAMES)


@NEEDS_CLANG
@pytest.mark.skipif(find_ptxas() is None, reason="needs ptxas (PyPI: nvidia-cuda-nvcc-cu12)")
@pytest.mark.parametrize("architecture", ["sm_70", "sm_80", "sm_90"])
def test_nvidia_s_assembler_takes_the_kernels(tmp_path, architecture):
    (tmp_path / "kernels.ptx").write_text(compile_for_cuda())
    words = [find_ptxas(), f"-arch={architecture}", tmp_path / "kernels.ptx", "-o", tmp_path / "kernels.cubin"]
    subprocess.run(words, check=True)
    assert (tmp_path / "kernels.cubin").stat().st_size > 0
