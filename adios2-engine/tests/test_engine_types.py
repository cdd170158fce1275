from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

from bbflow.landing.embedded import EmbeddedNodes
from bbflow.stream.dtypes import DTYPES
from testsupport.writers import arrays_of, attributes_of, run_program, steps_of, watch, write_config

TYPES = sorted(DTYPES)


def value_at(dtype, i):
    """Value number i; program/writer.cpp has the same formula."""
    base = i * 7 % 100
    match dtype.kind:
        case "u":
            return dtype.type(base + 150)
        case "i":
            return dtype.type(base - 50)
        case "f":
            return dtype.type(base - 50) / 4
        case _:
            return dtype.type((base - 50) / 4 - 1j * base / 2)


def values(dtype, n, first, limits=False):
    made = np.array([value_at(dtype, first + i) for i in range(n)], dtype)
    if limits and dtype.kind != "c":
        info = np.iinfo(dtype) if dtype.kind in "iu" else np.finfo(dtype)
        made[:2] = info.min, info.max
    return made


def on_wire(value):
    """A single value as FORMAT.md has it in a message."""
    if np.iscomplexobj(value):
        return [float(value.real), float(value.imag)]
    return value.item() if value.dtype.kind in "iu" else float(value)


@pytest.fixture(scope="module")
def landed(programs, tmp_path_factory):
    """What the node holds after the program wrote every kind of every type."""
    with EmbeddedNodes(1, 16 << 20) as nodes:
        done = run_program(nodes, programs, "types", write_config(tmp_path_factory.mktemp("types")))
        assert done.returncode == 0, done.stderr
        shown = watch(nodes)
        steps = steps_of(shown)
        yield SimpleNamespace(
            attributes=attributes_of(shown),
            status=shown["status"],
            steps=steps,
            arrays=arrays_of(nodes, steps[0]),
        )


def arrays(landed, name):
    return [array for other, array in landed.arrays if other == name]


def blocks(landed, name, step=0):
    return [block for block in landed.steps[step].blocks if block.name == name]


def same_values(array, expected):
    if array.dtype == np.longdouble:  # six of its sixteen bytes hold nothing
        return np.array_equal(array, expected)
    return array.dtype == expected.dtype and array.tobytes() == expected.tobytes()


@pytest.mark.parametrize("name", TYPES)
def test_a_sync_put_lands_what_the_memory_held_at_the_put(landed, name):
    (array,) = arrays(landed, f"{name}/sync")
    assert same_values(array, values(DTYPES[name], 24, 0, limits=True).reshape(4, 6))


@pytest.mark.parametrize("name", TYPES)
def test_small_deferred_puts_land_what_the_memory_holds_at_the_put(landed, name):
    upper, lower = arrays(landed, f"{name}/deferred")
    expected = values(DTYPES[name], 24, 10).reshape(4, 6)
    assert same_values(upper, expected[:1])
    assert same_values(lower, expected[1:])
    placed = [(block.kind, block.shape, block.start) for block in blocks(landed, f"{name}/deferred")]
    assert placed == [("GlobalArray", (4, 6), (0, 0)), ("GlobalArray", (4, 6), (1, 0))]


@pytest.mark.parametrize("name", TYPES)
def test_local_and_joined_arrays_land(landed, name):
    (local,) = arrays(landed, f"{name}/local")
    (joined,) = arrays(landed, f"{name}/joined")
    assert same_values(local, values(DTYPES[name], 5, 40))
    assert same_values(joined, values(DTYPES[name], 6, 40).reshape(2, 3))
    assert blocks(landed, f"{name}/local")[0].kind == "LocalArray"
    assert blocks(landed, f"{name}/joined")[0].kind == "JoinedArray"


@pytest.mark.parametrize("name", TYPES)
def test_single_values_land_in_the_record(landed, name):
    (value,), (here,) = blocks(landed, f"{name}/value"), blocks(landed, f"{name}/here")
    assert (value.kind, value.value) == ("GlobalValue", on_wire(value_at(DTYPES[name], 1)))
    assert (here.kind, here.value) == ("LocalValue", on_wire(value_at(DTYPES[name], 2)))


@pytest.mark.parametrize("name", TYPES)
def test_an_empty_block_leaves_no_trace(landed, name):
    assert blocks(landed, f"{name}/empty") == []


@pytest.mark.parametrize("name", TYPES)
def test_attributes_of_every_type_land(landed, name):
    dtype = DTYPES[name]
    assert landed.attributes[f"{name}/one"] == on_wire(value_at(dtype, 3))
    assert landed.attributes[f"{name}/many"] == [on_wire(item) for item in values(dtype, 3, 4)]


@pytest.mark.parametrize("name", TYPES)
def test_the_record_s_range_is_numpy_s(landed, name):
    (block,) = blocks(landed, f"{name}/sync")
    (array,) = arrays(landed, f"{name}/sync")
    if DTYPES[name].kind == "c" or name == "long double":
        assert (block.min, block.max) == (None, None)
    else:
        assert (block.min, block.max) == (array.min().item(), array.max().item())


def test_blocks_are_aligned_and_apart(landed):
    placed = sorted((block.offset, block.bytes) for block in landed.steps[0].blocks if block.bytes)
    assert all(offset % 64 == 0 for offset, _ in placed)
    assert all(a + size <= b for (a, size), (b, _) in pairwise(placed))


def test_strings_land_as_values(landed):
    assert blocks(landed, "string/value")[0].value == "Größe in µm"
    assert blocks(landed, "string/here")[0].value == "x" * 300
    assert blocks(landed, "string/value", step=1)[0].value == ""


def test_close_closes_the_stream(landed):
    assert (landed.status, [step.number for step in landed.steps]) == ("closed", [0, 1])
