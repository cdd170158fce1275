"""What the kernel merges and finishes is, bit for bit, what NumPy makes of the formulas."""

import platform
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from bbflow.errors import BbflowError, MissingToolError
from bbflow.operators import Operator, StateLayout, kernel, library, parse_operators
from bbflow.operators.family import Family, StateField

TYPES = ["f4", "f8", "i1", "u2", "i4", "i8", "u8"]
POINTS = 1037


def state(dtype, seed, layout):
    """A state of some values, with points that have none, and one whose sums are infinite."""
    random = np.random.default_rng(seed)
    buffer = bytearray(layout.nbytes)
    layout.clear(buffer)
    views = layout.views(buffer)["moments"]
    views["count"][:] = random.integers(0, 4, POINTS)
    some = views["count"] > 0
    drawn = random.integers(0, 100, (3, POINTS)) + (random.random((3, POINTS)) if np.dtype(dtype).kind == "f" else 0)
    for name, values in zip(("shift", "min", "max"), drawn, strict=True):
        views[name][some] = values.astype(dtype)[some]
    views["first"][some] = random.normal(0, 1e3, POINTS)[some]
    views["second"][some] = random.random(POINTS)[some] * 1e6
    views["first"][3], views["second"][4] = np.inf, np.nan
    return buffer, views


def layout_of(dtype):
    return StateLayout.of(parse_operators(["mean", "std", "min", "max"]), dtype=np.dtype(dtype), points=POINTS)


def merged(left, right):
    """Chan, Golub and LeVeque's merge, as `Merge.cpp` says it."""
    with np.errstate(all="ignore"):
        shift = np.where(left["count"] == 0, right["shift"], left["shift"])
        count, first = right["count"], right["first"]
        difference = right["shift"].astype("f8") - shift.astype("f8")
        rebased = right["second"] + 2 * difference * first + count * difference**2
        return {
            "count": left["count"] + count,
            "shift": shift,
            "first": left["first"] + first + count * difference,
            "second": left["second"] + rebased,
            "min": np.minimum(left["min"], right["min"]),
            "max": np.maximum(left["max"], right["max"]),
        }


def finished(views):
    count, first = views["count"], views["first"]
    with np.errstate(all="ignore"):
        squares = np.maximum(views["second"] - first * (first / count), 0.0)
        missing = np.array(np.nan, views["min"].dtype if views["min"].dtype.kind == "f" else "f8")
        found = {"mean": views["shift"] + first / count}
        found["sum"] = np.where(count > 0, views["shift"].astype("f8") * count + first, np.nan)
        found["range"] = np.where(count > 0, views["max"].astype("f8") - views["min"], np.nan)
        for name in ("min", "max"):
            found[name] = np.where(count > 0, views[name], missing)
        for ddof in (0, 1):
            found["var", ddof] = np.where(count > ddof, squares / (count - ddof), np.nan)
            found["std", ddof] = np.sqrt(found["var", ddof])
    return found


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("into", ["left", "right", "other"])
def test_two_states_merge_as_numpy_merges_them(dtype, into):
    layout = layout_of(dtype)
    (left, left_views), (right, right_views) = (state(dtype, seed, layout) for seed in (1, 2))
    expected = merged(left_views, right_views)
    target = {"left": left, "right": right, "other": bytearray(layout.nbytes)}[into]
    layout.combine(left, right, target)
    for name, values in layout.views(target)["moments"].items():
        np.testing.assert_array_equal(values, expected[name], name, strict=True)


@pytest.mark.parametrize("dtype", TYPES)
def test_a_state_is_finished_as_numpy_finishes_it(dtype):
    _, views = state(dtype, 3, layout_of(dtype))
    for name, expected in finished(views).items():
        formula, ddof = name if isinstance(name, tuple) else (name, 0)
        result = library.Formula(formula)(views, ddof=ddof)
        np.testing.assert_array_equal(result, expected, formula, strict=True)


def task_of(**sides):
    task = np.zeros(1, library.MERGE_TASK)
    task["points"] = POINTS
    for side, views in sides.items():
        task[side] = [views[name].ctypes.data if name in views else 0 for name in library.FIELDS]
    return task


@pytest.mark.parametrize("dtype", TYPES)
def test_a_table_of_states_is_merged_as_one_after_the_other_is(dtype):
    layout = layout_of(dtype)
    buffers, (left, right) = zip(*(state(dtype, seed, layout) for seed in (1, 2)), strict=True)
    both, alone = (layout.views(np.zeros(layout.nbytes, "u1"))["moments"] for _ in range(2))
    some = {"count": np.zeros(POINTS, "i4")}
    tasks = [
        task_of(left=left, right=right, target=both),
        task_of(right=right, target=alone),
        task_of(left=left, right=right, target=some),
    ]
    library.merge(np.full(3, library.TYPES[np.dtype(dtype)]), np.concatenate(tasks), threads=2)
    layout.combine(*buffers, expected := bytearray(layout.nbytes))
    for name, values in layout.views(expected)["moments"].items():
        np.testing.assert_array_equal(both[name], values, name)
        np.testing.assert_array_equal(alone[name], right[name], name)
    np.testing.assert_array_equal(some["count"], left["count"] + right["count"])


def test_large_states_are_merged_in_pieces():
    points = (1 << 19) + 8192 + 5
    left, right = np.arange(points, dtype="i4"), np.full(points, 3, "i4")
    target = np.zeros(points, "i4")
    task = task_of(left={"count": left}, right={"count": right}, target={"count": target})
    task["points"] = points
    library.merge(np.zeros(1), task, threads=2)
    np.testing.assert_array_equal(target, left + 3)


@pytest.mark.parametrize("rule", ["add", "min", "max"])
@pytest.mark.parametrize("dtype", TYPES)
def test_rows_of_some_points_merge_by_their_rule(rule, dtype):
    random = np.random.default_rng(5)
    left, right = random.integers(0, 60, (2, 3, 100)).astype(dtype)
    target = np.zeros_like(left)
    part = np.s_[:, 7:71]
    StateField("own", None, (3,), merge=rule).combine(target[part], left[part], right[part])
    function = {"add": np.add, "min": np.minimum, "max": np.maximum}[rule]
    np.testing.assert_array_equal(target[part], function(left, right)[part])
    assert not target[:, :7].any()
    assert not target[:, 71:].any()


@dataclass(frozen=True, slots=True)
class Totals(Family):
    """A family in a few lines: its fields say how states begin and merge."""

    merge_second: str | None = "max"
    name = "totals"

    def fields(self, dtype):
        return (StateField("sum", "f8", merge="add"), StateField("top", None, (2,), merge=self.merge_second))

    def fold(self, views, steps):
        for block in steps.values:
            views["sum"][...] += block
            views["top"][...] = np.maximum(views["top"], np.stack([block, -block]))


def test_a_family_whose_fields_have_rules_needs_neither_clear_nor_combine():
    values = np.random.default_rng(6).integers(-50, 50, (2, 70)).astype("i2")
    layout = StateLayout.of([Operator("total", Totals(), lambda views: views["sum"], "", "")], dtype="i2", points=70)
    states = [bytearray(layout.nbytes) for _ in values]
    for part, buffer in zip(values, states, strict=True):
        layout.clear(buffer)
        views = layout.views(buffer)["totals"]
        views["sum"][...] += part
        views["top"][...] = np.maximum(views["top"], np.stack([part, -part]))
    layout.combine(*states, states[0])
    found = layout.views(states[0])["totals"]
    np.testing.assert_array_equal(found["sum"], values.sum(0))
    np.testing.assert_array_equal(found["top"], [values.max(0), -values.min(0)])


def test_a_field_without_a_rule_needs_a_combine():
    layout = StateLayout((Totals(None),), np.dtype("f4"), 5)
    with pytest.raises(BbflowError, match="its field 'top' has no 'merge', and it has no 'combine'"):
        layout.combine(bytearray(layout.nbytes), bytearray(layout.nbytes), bytearray(layout.nbytes))


def test_a_kernel_of_other_sources_is_refused(tmp_path):
    (tmp_path / "Other.cpp").write_text('extern "C" const char *bbflow_names() { return "shift count"; }')
    subprocess.run(["g++", "-shared", "-fPIC", "-o", tmp_path / "other.so", tmp_path / "Other.cpp"], check=True)
    with pytest.raises(MissingToolError, match=r"the fold kernel .* has 'shift count', not .*install bbflow again"):
        library.load_from(tmp_path / "other.so")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="only there loops are compiled for one CPU")
def test_a_kernel_for_a_cpu_that_is_not_this_one_is_refused(tmp_path):
    source = Path(library.__file__).with_name("native") / "Cpu.cpp"
    words = ["g++", "-shared", "-fPIC", '-DBBFLOW_CPU="avx5124fmaps"', "-o", tmp_path / library.LIBRARY, source]
    subprocess.run(words, check=True)
    with pytest.raises(MissingToolError, match=r"whose CPU has avx5124fmaps; build it for all CPUs: BBFLOW_CPU=all"):
        library.load_from(tmp_path / library.LIBRARY)


def test_a_struct_that_is_laid_out_otherwise_is_refused():
    assert library.layout_of(kernel.ROW) == "16 Step@0 Index@8"
    library.load(BbflowRow=kernel.ROW)
    with pytest.raises(MissingToolError, match=r"lays BbflowRow2 out as '', not '16 Step@0 Index@8'"):
        library.load(BbflowRow2=kernel.ROW)
    swapped = np.dtype({"names": ["index", "step"], "formats": ["i8", "i8"]})
    with pytest.raises(MissingToolError, match=r"lays BbflowRow out as '16 Step@0 Index@8', not '16 Index@0 Step@8'"):
        library.load(BbflowRow=swapped)
