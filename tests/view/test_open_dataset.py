import gc
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import programs
import pytest
import xarray as xr
from bbflow_workflows import climate

from bbflow.errors import CapacityError, NodeError, StreamError
from bbflow.landing.client import NodeClient
from bbflow.landing.embedded import EmbeddedNodes
from bbflow.view import layout
from testsupport.asking import ask, ask_once
from testsupport.nodes import Nodes
from testsupport.processes import finish, finish_well, running
from testsupport.writers import clean_environment, wait_for_file, watch, watch_until, write_config, writing


def whole_run(nodes, folder, ranks=4):
    with writing(nodes.contact, programs.WHOLE_RUN, write_config(folder), ranks=ranks) as job:
        returncode, said = finish(job)
    assert returncode == 0, said


def expected_steps(count=6):
    return np.stack([100 * step + np.arange(40).reshape(8, 5) for step in range(count)]).astype("f4")


def test_steps_of_all_ranks_and_nodes_are_one_dataset_with_cf_coordinates(two_nodes, opened, tmp_path):
    whole_run(two_nodes, tmp_path)
    dataset = opened(two_nodes)
    assert dataset.tas.dims == ("time", "lat", "lon")
    assert (dataset.tas.values == expected_steps()).all()
    assert dataset.lat.values.tolist() == list(range(8))
    assert str(dataset.time.values[3]) == "2000-01-02T12:00:00.000000000"
    assert dataset.bbflow_step.values.tolist() == list(range(6))
    assert (dataset.tas.attrs, dataset.attrs["title"]) == ({"units": "K"}, "a test")
    assert (dataset.attrs["bbflow_stream"], dataset.attrs["bbflow_status"]) == ("model", "closed")


def test_any_part_can_be_taken(two_nodes, opened, tmp_path):
    whole_run(two_nodes, tmp_path)
    tas, whole = opened(two_nodes, decode_times=False).tas, expected_steps()
    assert (tas[2].values == whole[2]).all()
    assert (tas[-1, 1:7:2, ::-1].values == whole[-1, 1:7:2, ::-1]).all()
    assert (tas[::-2, 5, 1:3].values == whole[::-2, 5, 1:3]).all()
    assert (tas.isel(time=[4, 0], lat=[7, 0, 3]).values == whole[[4, 0]][:, [7, 0, 3]]).all()
    assert (tas.sel(time=0.5, lat=6.0).values == whole[1, 6]).all()
    assert tas[2:2].values.shape == (0, 8, 5)
    assert tas[0, 0, 0].item() == whole[0, 0, 0]
    picked = tas.isel(time=xr.DataArray([0, 5], dims="p"), lat=xr.DataArray([1, 6], dims="p"))
    assert (picked.values == whole[[0, 5], [1, 6]]).all()


@pytest.mark.parametrize(
    ("small_bytes", "rows"), [(0, (2,) * 4), (100, (4, 4)), (4 << 20, (8,))], ids=["none", "pairs", "all"]
)
def test_chunks_are_the_ranks_blocks_small_ones_together(two_nodes, opened, tmp_path, monkeypatch, small_bytes, rows):
    monkeypatch.setattr(layout, "SMALL_BYTES", small_bytes)
    whole_run(two_nodes, tmp_path)
    dataset = opened(two_nodes, chunks={})
    assert dataset.tas.chunks == ((1,) * 6, rows, (5,))
    assert (dataset.tas.mean("time").values == expected_steps().mean(0)).all()
    assert opened(two_nodes, chunks={"time": 3}).tas.chunks == ((3, 3), rows, (5,))
    assert (opened(two_nodes, chunks="auto").tas.values == expected_steps()).all()


def test_a_part_within_one_block_is_a_view_of_the_pool(two_nodes, opened, tmp_path):
    whole_run(two_nodes, tmp_path)
    tas = opened(two_nodes).tas
    inside, across = tas[1, 2:4].values, tas[1, 1:3].values
    assert not inside.flags.owndata
    assert not inside.flags.writeable
    assert across.flags.writeable
    assert inside.tolist() == expected_steps()[1, 2:4].tolist()


def test_two_datasets_of_one_file_never_share_dask_keys(two_nodes, opened, tmp_path):
    config = write_config(tmp_path)
    with writing(two_nodes.contact, programs.STEP_BY_STEP, config, ranks=2) as job:
        early = opened(two_nodes, chunks={}, wait=1)
        for step in range(4):
            for rank in range(2):
                (tmp_path / f"go.{step}.{rank}").touch()
        assert finish(job) == (0, "")
    late = opened(two_nodes, chunks={}, after=1)
    assert (late.tas[0] - early.tas[0]).values.tolist() == np.full((4, 5), 200).tolist()


def test_a_dataset_that_waits_sees_the_steps_that_are_written_meanwhile(two_nodes, opened, tmp_path):
    with writing(two_nodes.contact, programs.WHOLE_RUN, write_config(tmp_path), ranks=4) as job:
        dataset = opened(two_nodes, wait=True)
        assert finish(job) == (0, "")
    assert (dataset.tas.values == expected_steps()).all()


def test_the_loop_of_the_docs_follows_a_run_to_its_end(two_nodes, tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "python.md").read_text()
    loop = page.partition("open the next ones:\n\n```python\n")[2].partition("```")[0].replace('"climate"', '"model"')
    loop = loop.replace('"contact.json"', repr(str(two_nodes.contact)))
    follow = [sys.executable, "-u", "-c", f"import xarray as xr\n{loop}"]
    with (
        running(follow) as follower,
        writing(two_nodes.contact, programs.STEP_BY_STEP, write_config(tmp_path)) as job,
    ):
        for step in range(4):  # the stream is still open when the last one is seen
            assert follower.stdout.readline().endswith(f" {100 * step + 4.5}\n")
            (tmp_path / f"go.{step}.0").touch()
        assert finish(job) == (0, "")
        assert finish(follower) == (0, "stream 'model' is closed, and its nodes hold no step above 3\n")


def test_a_step_that_one_rank_has_not_committed_is_not_seen(two_nodes, opened, tmp_path):
    with writing(two_nodes.contact, programs.STEP_BY_STEP, write_config(tmp_path), ranks=2) as job:
        for name in ("go.0.0", "go.0.1", "go.1.0"):
            (tmp_path / name).touch()
        for name in ("landed.2.0", "landed.1.1"):
            wait_for_file(tmp_path / name)
        dataset = opened(two_nodes, wait=2)
        assert dataset.bbflow_step.values.tolist() == [0, 1]
        with pytest.raises(StreamError, match="the time is up: stream 'model' is open and has 2 complete steps"):
            opened(two_nodes, wait=3, timeout_s=0.3)
        for step in range(1, 4):
            for rank in range(2):
                (tmp_path / f"go.{step}.{rank}").touch()
        assert finish(job) == (0, "")
    assert dataset.bbflow_step.values.tolist() == [0, 1]
    assert opened(two_nodes, after=1).bbflow_step.values.tolist() == [2, 3]


def test_what_a_stream_lacks_is_said(two_nodes, opened, tmp_path):
    with pytest.raises(StreamError, match=r"no program has written stream 'model' yet: give wait=1"):
        opened(two_nodes)
    whole_run(two_nodes, tmp_path)
    with pytest.raises(StreamError, match=r"did you mean 'model'\?"):
        opened(two_nodes, stream="modl")
    with pytest.raises(StreamError, match="its nodes hold no step above 9"):
        opened(two_nodes, after=9)
    with pytest.raises(NodeError, match="there is no contact file"):
        xr.open_dataset(tmp_path / "none.json", engine="bbflow", stream="model")
    assert len(opened(two_nodes, stream=None).bbflow_step) == 6


def test_every_kind_of_variable_has_its_place(two_nodes, opened, tmp_path):
    with writing(two_nodes.contact, programs.KINDS, write_config(tmp_path), ranks=2) as job:
        assert finish(job) == (0, "")
    dataset = opened(two_nodes)
    nan = np.nan
    same = np.testing.assert_array_equal
    assert dataset.local.dims == ("bbflow_step", "local_block", "local_dim0")
    same(dataset.local[2], [[20, 20, nan], [21, 21, 21]])
    same(dataset["mask"][0], [7, 7, nan, nan, 8, 8, nan, nan])
    same(dataset.packed[1], [3, 3, nan, nan, 3, 3, nan, nan])
    same(opened(two_nodes, mask_and_scale=False).packed[1], [3, 3, -1, -1, 3, 3, -1, -1])
    same(dataset.rare, [[nan] * 4, [1, 2, 2, 3], [nan] * 4])
    same(dataset.wave[1], [1, 1, 1 + 1j, 1 + 1j])
    same(dataset.grown, [[0, 1, nan, nan, nan, nan], [0, 0, 1, 1, nan, nan], [0, 0, 0, 1, 1, 1]])
    assert dataset.label.values.tolist() == ["step 0", "step 1", "step 2"]
    same(dataset["count"], [0, nan, 2])
    assert "wave" not in opened(two_nodes, drop_variables=["wave", "rare"])


@pytest.fixture
def many(tiny_node, tmp_path):
    """A stream of four steps that fill its node, whose writer has further ones; and an analysis."""
    with writing(tiny_node.contact, "STEPS = 8" + programs.BULK, write_config(tmp_path)) as job:
        wait_for_file(tmp_path / "landed.3")
        with NodeClient(tiny_node.nodes[0]) as analysis:
            epoch = ask(analysis, "attach", stream="model", consumers=["fold"])["epoch"]

            def fold(step):
                ask(analysis, "done", stream="model", consumer="fold", epoch=epoch, step=step, checkpoint=b"")

            yield fold
            fold(7)
        assert finish(job) == (0, "")


def test_what_a_dataset_shows_stays_until_it_is_closed(many, tiny_node, opened):
    dataset = opened(tiny_node, after=1)
    many(3)
    watch_until(tiny_node, lambda shown: shown["last"] == 5)
    assert [step["step"] for step in watch(tiny_node)["steps"]] == [2, 3, 4, 5]
    assert dataset.field.mean("field_dim0").values.tolist() == [2.0, 3.0]
    dataset.close()
    watch_until(tiny_node, lambda shown: shown["last"] == 7)
    late = opened(tiny_node)
    late.close()
    with pytest.raises(StreamError, match="was closed: open it again"):
        late.field[0].values.sum()


def test_an_array_outlives_its_dataset_and_keeps_its_steps(many, tiny_node, opened):
    dataset = opened(tiny_node, after=1)
    values = dataset.field[0].values
    dataset.close()
    del dataset
    many(3)
    watch_until(tiny_node, lambda shown: shown["last"] == 5)
    assert (values == 2.0).all()
    del values
    gc.collect()
    watch_until(tiny_node, lambda shown: shown["last"] == 7)


def test_waiting_for_more_steps_than_a_node_can_hold_is_refused(tiny_node, opened, tmp_path):
    with writing(tiny_node.contact, "STEPS = 8" + programs.BULK, write_config(tmp_path)):
        with pytest.raises(CapacityError, match=r"the 4 steps that this dataset would hold fill BB node bb0 .*wait=N"):
            opened(tiny_node, wait=True)
        assert len(opened(tiny_node, wait=4).bbflow_step) == 4


def test_steps_that_are_looked_at_outlive_their_dropped_stream(two_nodes, opened, tmp_path):
    whole_run(two_nodes, tmp_path)
    dataset = opened(two_nodes)
    before = dataset.tas.copy(deep=True).values
    free = [ask_once(node, "status")["free"] for node in two_nodes.nodes]
    for node in two_nodes.nodes:
        ask_once(node, "drop", stream="model")
    assert [ask_once(node, "status")["free"] for node in two_nodes.nodes] == free
    whole_run(two_nodes, tmp_path)
    np.testing.assert_array_equal(dataset.tas.values, before)
    dataset.close()


def test_steps_that_were_discarded_are_left_out_and_counted(tiny_node, opened, tmp_path):
    code = "STEPS = 6" + programs.BULK.replace("!= StepStatus.OK", "== StepStatus.NotReady").replace(
        "    tell(", "    step == 4 and (tell('full'), wait_for('free'))\n    tell("
    )
    with writing(tiny_node.contact, code, write_config(tmp_path, QueueFullPolicy="Discard")) as job:
        wait_for_file(tmp_path / "full")
        with NodeClient(tiny_node.nodes[0]) as analysis:
            epoch = ask(analysis, "attach", stream="model", consumers=["fold"])["epoch"]
            ask(analysis, "done", stream="model", consumer="fold", epoch=epoch, step=0, checkpoint=b"")
        (tmp_path / "free").touch()
        assert finish(job)[0] == 0
    dataset = opened(tiny_node)
    assert dataset.bbflow_step.values.tolist() == [1, 2, 3, 5]
    assert dataset.attrs["bbflow_discarded_steps"] == 1
    assert dataset.field[-1, 0].item() == 5.0


def test_the_climate_model_s_stream_is_read_as_its_results_are_named(program, opened, tmp_path):
    with EmbeddedNodes(2, 8 << 20) as nodes:
        command = climate.command(program, 2, config=climate.DEFAULT_CONFIG, steps=8, nlat=24, nlon=48, levels=3)
        with running(command, clean_environment(nodes.contact), tmp_path) as model:
            dataset = opened(nodes, stream="climate", wait=True, chunks={})
            finish_well(model)
        assert dict(dataset.ta.sizes) == {"time": 8, "plev": 3, "lat": 24, "lon": 48}
        assert dataset.tas.attrs["units"] == "K"
        assert 200 < float(dataset.tas.mean()) < 320
        assert np.isfinite(dataset.tas.values).all()


def test_opening_needs_no_dask_and_leaves_no_thread_or_socket_behind(two_nodes, tmp_path):
    whole_run(two_nodes, tmp_path)
    code = (
        "import os, sys, threading, xarray as xr\n"
        f"with xr.open_dataset({str(two_nodes.contact)!r}, engine='bbflow', stream='model') as dataset:\n"
        "    dataset.tas.mean().item()\n"
        "del dataset\n"
        "for thread in threading.enumerate():\n"
        "    thread is threading.main_thread() or thread.join(60)\n"
        "sockets = [f for f in os.listdir('/proc/self/fd') if 'socket' in os.path.realpath(f'/proc/self/fd/{f}')]\n"
        "print(len(sockets), 'bbflow.transit' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=300)
    assert (done.stdout, done.stderr) == ("0 False\n", "")


def test_a_dataset_outlives_an_agent_that_is_killed_and_started_again(opened, tmp_path):
    with closing(Nodes(1, 1 << 20)) as nodes:
        whole_run(nodes, tmp_path, ranks=2)
        dataset = opened(nodes)
        nodes.kill("bb0")
        with pytest.raises(NodeError, match="bb0"):
            dataset.tas[0].values.sum()
        nodes.start("bb0")
        assert (dataset.tas.values == expected_steps()[:, :4]).all()
        assert ask_once(nodes.nodes[0], "status")["streams"]["model"]["readers"] == 1
