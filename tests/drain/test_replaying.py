"""What a raw.zarr has is written again as the simulation did, and what it lacks is not."""

import subprocess
import sys

import numpy as np
import pytest

from bbflow.configuring.settings import RawConfig
from bbflow.drain.raw import RawStore
from bbflow.drain.replaying import replay
from bbflow.errors import ConfigError
from bbflow.landing.embedded import EmbeddedNodes
from bbflow.stream.cf import StreamAttributes
from bbflow.stream.records import BlockForm
from testsupport.writers import attributes_of, clean_environment, steps_of, watch

VALUES = {"always": ("int32_t", [7, 8, 9]), "often": ("int64_t", [1, None, 3]), "real": ("double", [None, 2.5, None])}
VALUES |= {"named": ("int32_t", [4, 5, None]), "complex": ("double complex", [None, 1 + 2j, 3j])}
VALUES |= {"a/b": ("double", [1.0, None, 2.0])}
ATTRIBUTES = {"named/missing_value": [1e20, -1, -2], "named/long_name": "a name", "named/flag_values": [4, 5]}
ATTRIBUTES |= {"a/b/units": "K"}


def test_what_a_step_lacked_it_lacks_again(tmp_path):
    store = RawStore(tmp_path / "raw.zarr", RawConfig(), StreamAttributes(ATTRIBUTES), None)
    for name, (dtype, _) in VALUES.items():
        store.admit(BlockForm(name, dtype, "GlobalValue", (), (), (), 0))
    whole = [name for name, (_, values) in VALUES.items() if None not in values]
    store.commit(0, range(3), [np.nan] * 3, {name: values for name, (_, values) in VALUES.items()}, whole)
    with EmbeddedNodes(1, 1 << 18) as nodes:
        command = [sys.executable, "-m", "bbflow", "replay", tmp_path / "raw.zarr", "--stream", "model"]
        subprocess.run(command, env=clean_environment(nodes.contact), check=True)
        steps = steps_of(shown := watch(nodes))
    described = attributes_of(shown)
    assert {name: described[name] for name in ATTRIBUTES} == ATTRIBUTES | {"named/missing_value": [-1, -2]}
    for number, step in enumerate(steps):
        there = {block.name: block.value for block in step.blocks}
        expected = {name: values[number] for name, (_, values) in VALUES.items() if values[number] is not None}
        assert there == expected | ({"complex": [expected["complex"].real, expected["complex"].imag]} if number else {})


def test_a_store_without_a_step_that_is_wanted_is_an_error(tmp_path):
    store = RawStore(tmp_path / "raw.zarr", RawConfig(), StreamAttributes({}), None)
    store.admit(BlockForm("always", "int32_t", "GlobalValue", (), (), (), 0))
    store.commit(0, range(3), [np.nan] * 3, {"always": [1, 2, 3]}, ["always"])
    with pytest.raises(ConfigError, match=r"^no step of .*raw.zarr is above 2: there is nothing to write again$"):
        replay(tmp_path / "raw.zarr", "model", after=2)


@pytest.mark.parametrize("told", ['{"zarr_format": 3, "node_type": "group"}', "[1]", "{}", "no JSON"])
def test_what_isnt_a_raw_store_is_an_error(tmp_path, told):
    (tmp_path / "zarr.json").write_text(told)
    with pytest.raises(ConfigError, match=r"isn't a raw\.zarr: it has no bbflow_step that can be read"):
        replay(tmp_path, "model", after=-1)
