import bbflow_adios2
import numpy as np
import pytest
import xarray as xr

from testsupport.processes import finish
from testsupport.writers import write_config

STEPS, ROWS, COLUMNS = 3, 13, 7
BP5 = '<adios-config><io name="model"><engine type="BP5"/></io></adios-config>'


def written():
    """What `bands` writes."""
    first = 1000.0 * np.arange(STEPS)[:, np.newaxis, np.newaxis]
    return first + np.arange(ROWS * COLUMNS).reshape(ROWS, COLUMNS)


def all_read(readers):
    """What `bands` says that has read everything with this many ranks."""
    return f"{STEPS * readers} steps, {STEPS * ROWS * COLUMNS} values, 0 wrong\n"


def landed(nodes, stream="model"):
    """The stream as the nodes have it."""
    with xr.open_dataset(nodes.contact, engine="bbflow", stream=stream) as dataset:
        assert dataset.attrs["bbflow_status"] == "closed"
        return dataset.load()


def test_the_program_reads_with_bp5_what_another_number_of_ranks_wrote(bands, tmp_path):
    config = tmp_path / "bp5.xml"
    config.write_text(BP5)
    assert bands.run("write", config, ranks=4) == ""
    assert bands.run("read", config, ranks=2) == all_read(2)


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_the_bands_of_all_ranks_land_as_one_array(bands, nodes, tmp_path, ranks):
    assert bands.run("write", write_config(tmp_path), ranks) == ""
    dataset = landed(nodes)
    assert (dataset.field.values == written()).all()
    assert dataset.field.attrs == {"units": "K"}
    assert dataset.writer.values.tolist() == [list(range(ranks))] * STEPS


@pytest.mark.parametrize(("writers", "readers"), [(1, 4), (2, 1), (4, 2)])
def test_another_number_of_ranks_reads_them(bands, tmp_path, writers, readers):
    config = write_config(tmp_path)
    bands.run("write", config, writers)
    assert bands.run("read", config, readers) == all_read(readers)


def test_readers_that_were_there_first_see_every_step(bands, tmp_path):
    config = write_config(tmp_path)
    with bands.running("read", config, ranks=2) as reading:
        bands.run("write", config, ranks=4)
        assert finish(reading) == (0, all_read(2))


def test_each_rank_can_have_a_stream_of_its_own(bands, nodes, tmp_path):
    config = write_config(tmp_path, stream="of-{rank}")
    bands.run("write", config, ranks=4)
    for rank in range(4):
        dataset, expected = landed(nodes, f"of-{rank}"), np.full((STEPS, ROWS, COLUMNS), np.nan)
        own = slice(ROWS * rank // 4, ROWS * (rank + 1) // 4)
        expected[:, own] = written()[:, own]
        np.testing.assert_array_equal(dataset.field.values, expected)
        assert dataset.writer.values.ravel().tolist() == [rank] * STEPS
    assert bands.run("read", config, ranks=4) == all_read(4)


def test_communicators_that_were_split_write_streams_of_their_own(bands, nodes, tmp_path):
    bands.run("write-in-halves", write_config(tmp_path), ranks=4)
    for half in range(2):
        dataset = landed(nodes, f"half-{half}")
        assert (dataset.field.values == written()).all()
        assert dataset.writer.values.tolist() == [[0, 1]] * STEPS
    assert bands.run("read", write_config(tmp_path, stream="half-1"), ranks=1) == all_read(1)


def test_the_engine_that_was_built_without_mpi_serves_an_mpi_program_too(bands, nodes, tmp_path):
    bands.load_engine(bbflow_adios2.library_path().parent)
    config = write_config(tmp_path)
    bands.run("write", config, ranks=4)
    assert (landed(nodes).field.values == written()).all()
    assert bands.run("read", config, ranks=2) == all_read(2)
