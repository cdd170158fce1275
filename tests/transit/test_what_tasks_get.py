"""What tasks are handed: threads share it and processes get copies, so nobody can change anything of it."""

import dataclasses
import pickle
from collections.abc import Callable
from contextlib import ExitStack
from datetime import timedelta
from enum import Enum
from functools import partial
from pathlib import Path

import msgspec
import numpy as np
import pytest
import streams

from bbflow import start_nodes
from bbflow.operators.frozen import FrozenMap, frozen
from bbflow.transit.clusters.thread_cluster import ThreadCluster, ThreadTask

STEPS = 40
PLAIN = (
    type(None),
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    Path,
    Enum,
    timedelta,
    np.dtype,
    np.generic,
    slice,
    Callable,
)
CONFIG = {
    "operators": {
        "tas": ["mean", "std", {"filter": {"above": 285.0}}, {"percentiles": {"q": [90], "error": 1, "steps": 60}}],
        "pr": ["max", {"histogram": {"bins": 5, "range": [0, 1]}}],
        "product": {"of": "tas * oro", "operators": ["mean"]},
        "global": {"of": "tas", "space": "fldmean", "operators": ["mean"]},
        "daily": {"of": "pr", "each": {"day": "max"}, "operators": ["mean"]},
    },
    "windows": ["month", "run"],
    "raw": {"variables": ["tas"]},
    "functions": {"zonal": {"call": "zones:zonal", "of": "tas", "every": 10, "arguments": {"weight": [0.5]}}},
}


class Recording(ThreadCluster):
    """Looks at all that tasks get, and at what others' results they get."""

    def __init__(self, threads):
        super().__init__(threads)
        self.changeable, self.functions = {}, set()

    def submit(self, function, *arguments, **how):
        name = (function.func if isinstance(function, partial) else function).__name__
        self.functions.add(name)
        self.look_at(arguments, f"{name}: ")
        return super().submit(function, *arguments, **how)

    def look_at(self, value, path):
        kind = type(value)
        if isinstance(value, ThreadTask):
            if value.done():
                self.look_at(value.result(), f"{path}task")
        elif isinstance(value, np.ndarray):
            self.note(path, value.flags.writeable)
        elif isinstance(value, memoryview):
            self.note(path, not value.readonly)
        elif isinstance(value, tuple | frozenset):
            for item in value:
                self.look_at(item, path)
        elif isinstance(value, FrozenMap):
            for pair in value.items():
                self.look_at(pair, path)
        elif dataclasses.is_dataclass(kind):
            self.note(f"{path}{kind.__name__}", not kind.__dataclass_params__.frozen)
            for item in dataclasses.fields(kind):
                if item.init:  # else it remembers what follows from the others
                    self.look_at(getattr(value, item.name), f"{path.split(': ')[0]}: {kind.__name__}.{item.name}")
        elif isinstance(value, msgspec.Struct):
            self.note(path, not kind.__struct_config__.frozen)
            for name in kind.__struct_fields__:
                self.look_at(getattr(value, name), f"{path.split(': ')[0]}: {kind.__name__}.{name}")
        else:
            self.note(f"{path} {kind.__name__}", not isinstance(value, PLAIN))

    def note(self, path, can_change):
        if can_change:
            self.changeable[path] = None


def test_tasks_share_nothing_that_anybody_can_change(tmp_path):
    random = np.random.default_rng(5)
    fields = {
        "tas": random.normal(280, 5, (STEPS, 6, 8)).astype("f4"),
        "pr": random.random((STEPS, 6, 8)),
        "oro": random.random((6, 8)),
        "lat": np.linspace(-75, 75, 6),
        "lon": np.arange(8) * 45.0,
    }
    attributes = {"time/units": "days since 2001-01-15", "time/calendar": "noleap"}
    attributes |= {f"{name}/_ARRAY_DIMENSIONS": ["lat", "lon"] for name in ("tas", "pr", "oro")}
    attributes |= {"lat/units": "degrees_north"}
    streams.store(tmp_path, fields, np.arange(STEPS), attributes, steady=("oro", "lat", "lon"))
    (tmp_path / "zones.py").write_text("def zonal(dataset, weight):\n    return dataset.mean('lon') * weight[0]\n")
    streams.look_in(str(tmp_path))
    config = {"stream": "fields", "output": str(tmp_path / "out")} | CONFIG
    with ExitStack() as stack:
        burst_buffer = stack.enter_context(start_nodes(2, "8MiB"))
        cluster = stack.enter_context(Recording(2))
        analysis = stack.enter_context(burst_buffer.analyse(config, cluster))
        with streams.writing(tmp_path, burst_buffer.contact, 2):
            outcome = analysis.wait(300)
    assert outcome.complete
    assert not list(cluster.changeable)
    known = {"keep_plan", "fold_lane", "make_ready", "publish_fields", "add_fields", "write_next", "call_function"}
    assert known <= cluster.functions


@pytest.mark.parametrize("change", [lambda own: own.update(b=1), lambda own: own.pop("a"), lambda own: own.clear()])
def test_a_frozen_map_stays_as_it_is_also_as_a_copy(change):
    own = frozen({"a": {"b": [1, 2]}})
    for each in (own, pickle.loads(pickle.dumps(own))):
        with pytest.raises(TypeError, match="tasks share this map"):
            change(each)
        assert each == {"a": {"b": (1, 2)}}
        assert isinstance(each["a"], FrozenMap)
