import numpy as np
import pytest

from testsupport.writers import arrays_of, steps_of, watch, write, write_config

LENGTHS = (1, 31, 33, 4095, 4097, 100_003)

WRITE_RANGES = """
random = np.random.default_rng(1)
with adios2.Stream(io, "out", "w") as stream:
    for _ in stream.steps(1):
        for dtype in ("f4", "f8", "i1", "u8"):
            for n in LENGTHS:
                values = (random.standard_normal(n) * 50).astype(dtype if dtype != "u8" else "i8").astype(dtype)
                if dtype[0] == "f":
                    values[random.random(n) < 0.1] = np.nan
                    values[n // 2] = n
                stream.write(f"{dtype}_{n}", values, [n], [0], [n])
        stream.write("nothing", np.full(100, np.nan), [100], [0], [100])
        stream.write("infinite", np.array([np.nan, -np.inf, 1.0, np.inf]), [4], [0], [4])
        stream.write("up", np.array([np.inf, np.inf]), [2], [0], [2])
"""


@pytest.fixture
def landed(node, tmp_path):
    write(node.contact, f"LENGTHS = {LENGTHS}\n{WRITE_RANGES}", write_config(tmp_path))
    (step,) = steps_of(watch(node))
    return {block.name: (block, array) for block, (_, array) in zip(step.blocks, arrays_of(node, step), strict=True)}


def test_a_range_is_numpy_s_and_skips_nan(landed):
    for name in (f"{dtype}_{n}" for dtype in ("f4", "f8", "i1", "u8") for n in LENGTHS):
        block, array = landed[name]
        assert (name, block.min, block.max) == (name, np.nanmin(array).item(), np.nanmax(array).item())


def test_only_nan_has_no_range_and_infinity_counts(landed):
    ranges = {name: (landed[name][0].min, landed[name][0].max) for name in ("nothing", "infinite", "up")}
    assert ranges == {"nothing": (None, None), "infinite": (-np.inf, np.inf), "up": (np.inf, np.inf)}
