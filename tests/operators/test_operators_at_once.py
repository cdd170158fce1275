"""Families that the kernel folds and merges for many states in one call come to what each by itself comes to."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bbflow.operators import StateLayout, kernel, library, parse_operators
from bbflow.operators.fold import fold_steps
from bbflow.operators.kernel_family import KernelFamily

OPERATORS = {
    "percentiles": {"percentiles": {"q": [10, 50], "error": 10, "steps": 30}},
    "edges": {"histogram": {"edges": [-3, -1, 0.5, 8]}},
    "grid": {"histogram": {"range": "auto", "bins": 4}},
    "mean": "mean",
    "max": "max",
}
DTYPES = ["f4", "f8", "i2", "u1", "i8"]


class States:
    """States of some points that lie in one buffer, at some distance from its begin."""

    def __init__(self, layout, before=64):
        self.layout, self.before = layout, before
        self.memory = np.full(before + layout.nbytes, 255, "u1")

    @property
    def buffer(self):
        return memoryview(self.memory)[self.before :]

    @property
    def fields(self):
        views = self.layout.views(self.buffer).get("moments", {})
        return [views[name].ctypes.data if name in views else 0 for name in library.FIELDS]


def families_of(layout, **sides):
    """Tasks for what states have besides moments."""
    found = []
    for number in range(len(next(iter(sides.values())))):
        own = {side: states[number] for side, states in sides.items() if states[number] is not None}
        views = {side: layout.views(state.buffer) for side, state in own.items()}
        for family in layout.families:
            if isinstance(family, KernelFamily):
                _, *words = family.task(**{side: views[side][family.name] for side in own})
                found += [number, *words]
    return np.array(found, "u8").view(library.FAMILY_TASK)


def folded(layout, blocks, sources, threads, fill):
    """The states that some blocks of each of some shards come to, after those of the sources."""
    kept, targets = [], [States(layout) for _ in blocks]
    tasks = np.zeros(len(blocks), kernel.TASK)
    for task, own, source, target in zip(tasks, blocks, sources, targets, strict=True):
        addresses = np.array([block.ctypes.data for block in own], "u8")
        kept.append(addresses)
        task["source"] = 0 if source is None else source.fields
        task["target"], task["blocks"] = target.fields, addresses.ctypes.data
        task["steps"], task["points"] = len(own), layout.points
        task["fill"] = 0 if fill is None else fill.ctypes.data
    families = families_of(layout, left=sources, target=targets)
    kernel.fold(np.full(len(tasks), library.TYPES[layout.dtype]), tasks, families, threads)
    return targets


def merged(layout, lefts, rights, threads):
    """The states that pairs of states come to."""
    targets = [States(layout) for _ in lefts]
    tasks = np.zeros(len(lefts), library.MERGE_TASK)
    for task, *sides in zip(tasks, lefts, rights, targets, strict=True):
        task["left"], task["right"], task["target"] = (side.fields for side in sides)
    tasks["points"] = layout.points
    families = families_of(layout, left=lefts, right=rights, target=targets)
    library.merge(np.full(len(tasks), library.TYPES[layout.dtype]), tasks, families, threads)
    return targets


def assert_same(operators, layout, found, expected):
    for operator in operators:
        np.testing.assert_array_equal(operator.finalize(layout, found), operator.finalize(layout, expected))


@given(
    names=st.sets(st.sampled_from(sorted(OPERATORS)), min_size=1).filter(lambda own: not {"edges", "grid"} <= own),
    dtype=st.sampled_from(DTYPES),
    points=st.integers(1, 700),
    steps=st.tuples(*[st.integers(1, 9)] * 3),
    has_fill=st.booleans(),
    threads=st.integers(1, 3),
    seed=st.integers(0, 1 << 16),
)
def test_many_states_come_to_what_each_by_itself_comes_to(names, dtype, points, steps, has_fill, threads, seed):
    random, dtype = np.random.default_rng(seed), np.dtype(dtype)
    operators = parse_operators([OPERATORS[name] for name in sorted(names)])
    layout = StateLayout.of(operators, dtype=dtype, points=points)

    def blocks(count):
        values = random.normal(0, 5, (count, points)) + (10 if dtype.kind == "u" else 0)
        if dtype.kind == "f":
            for odd in (np.nan, np.inf, -np.inf):
                values[random.random(values.shape) < 0.05] = odd
            return values.astype(dtype)
        return np.clip(np.rint(values), 0 if dtype.kind == "u" else -100, 100).astype(dtype)

    fill = np.array(3, dtype) if has_fill else None
    batches = [[blocks(count) for _ in range(2)] for count in steps]
    first = folded(layout, batches[0], [None, None], threads, fill)
    second = folded(layout, batches[1], first, threads, fill)
    other = folded(layout, batches[2], [None, None], threads, fill)
    both = merged(layout, second, other, threads)
    for shard in range(2):
        expected = [None, bytearray(layout.nbytes), bytearray(layout.nbytes), bytearray(layout.nbytes)]
        for number, source in ((1, None), (2, expected[1]), (3, None)):
            fold_steps(layout, source, expected[number], list(batches[number - 1][shard]), None if fill is None else 3)
        layout.combine(expected[2], expected[3], whole := bytearray(layout.nbytes))
        for found, own in zip((first, second, other, both), (*expected[1:], whole), strict=True):
            assert_same(operators, layout, found[shard].buffer, own)


def test_large_fields_are_cut_into_pieces_and_tiles():
    points = (1 << 19) + 300
    operators = parse_operators(["mean", OPERATORS["edges"], OPERATORS["percentiles"]])
    layout = StateLayout.of(operators, dtype=np.dtype("i2"), points=points)
    blocks = np.random.default_rng(1).integers(-9, 9, (3, points)).astype("i2")
    (one,) = folded(layout, [blocks], [None], 1, None)
    (two,) = folded(layout, [blocks], [one], 2, None)
    (both,) = merged(layout, [two], [one], 2)
    expected = [bytearray(layout.nbytes) for _ in range(3)]
    fold_steps(layout, None, expected[0], list(blocks))
    fold_steps(layout, expected[0], expected[1], list(blocks))
    layout.combine(expected[1], expected[0], expected[2])
    for found, own in zip((one, two, both), expected, strict=True):
        assert_same(operators, layout, found.buffer, own)
