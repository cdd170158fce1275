import os
import signal
from pathlib import Path

import numpy as np
import pytest
from readers import read, read_wrongly, reading, shown

from bbflow.landing.embedded import EmbeddedNodes, spawn_node, wait_until_ready
from testsupport.processes import finish
from testsupport.writers import wait_for_file, write, write_config, writing

ONE_BAND = """
part = field(3)
engine = io.open("out", Mode.Write)
engine.begin_step()
engine.put(part, np.ones(3), Mode.Sync)
engine.end_step()
engine.close()
"""
RANKS = 4
# Each rank writes a band of three rows of a field of 12 by 10, in two blocks; the last rank leaves its last row out.
WRITE_BANDS = """
import os
from adios2 import JoinedDim, LocalValueDim

rank = int(os.environ["PMI_RANK"])
band = io.define_variable("field", np.empty(0), [12, 10], [0, 0], [12, 10])
here = io.define_variable("here", np.empty(0, np.int64), [LocalValueDim])
local = io.define_variable("local", np.empty(0), [], [], [1])
joined = io.define_variable("joined", np.empty(0), [JoinedDim, 2], [], [1, 2])
engine = io.open("out", Mode.Write)
for step in range(3):
    whole = np.arange(120.0).reshape(12, 10) + 1000 * step
    engine.begin_step()
    for first, last in ((0, 1), (1, 3 if rank < 3 else 2)):
        rows = slice(3 * rank + first, 3 * rank + last)
        band.set_selection([[rows.start, 0], [last - first, 10]])
        engine.put(band, np.ascontiguousarray(whole[rows]), Mode.Sync)
    engine.put(here, np.array(rank * 10 + step))
    local.set_selection([[], [rank + 1]])
    engine.put(local, np.full(rank + 1, float(rank)), Mode.Sync)
    joined.set_selection([[], [rank + 1, 2]])
    engine.put(joined, np.full((rank + 1, 2), float(rank)), Mode.Sync)
    engine.end_step()
engine.close()
"""


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Two nodes that each hold the parts of two ranks."""
    folder = tmp_path_factory.mktemp("written")
    with EmbeddedNodes(2, 16 << 20) as nodes:
        with writing(nodes.contact, WRITE_BANDS, write_config(folder), ranks=RANKS) as process:
            returncode, said = finish(process)
            assert returncode == 0, said
        yield nodes


def whole_field(step):
    field = np.arange(120.0).reshape(12, 10) + 1000 * step
    field[11] = -1.0
    return field


@pytest.fixture(params=["shm", "tcp"])
def config(request, tmp_path):
    return write_config(tmp_path, Transport=request.param)


def test_a_field_is_read_across_ranks_blocks_and_nodes(written, config):
    code = """
while begin() == "OK":
    show(get("field").tolist(), holes())
    engine.end_step()
"""
    steps = read(written.contact, code, config)
    assert steps == [[whole_field(step).tolist(), 10] for step in range(3)]


def test_any_box_of_a_field_is_what_numpy_cuts_out(written, config):
    code = """
random = np.random.default_rng(5)
begin()
for _ in range(200):
    start = [int(random.integers(n)) for n in (12, 10)]
    count = [int(random.integers(1, n - s + 1)) for n, s in zip((12, 10), start)]
    before = holes()
    show(start, count, get("field", start, count, mode=Mode.Sync).tolist(), holes() - before)
"""
    boxes = read(written.contact, code, config)
    assert len(boxes) == 200
    for start, count, values, holes in boxes:
        expected = whole_field(0)[tuple(slice(s, s + n) for s, n in zip(start, count, strict=True))]
        assert values == expected.tolist()
        assert holes == np.count_nonzero(expected == -1.0)


def test_local_values_local_and_joined_arrays_are_read_by_rank(written, config):
    code = """
begin()
blocks = engine.blocks_info("local", 0)
local = io.inquire_variable("local")
for number, block in enumerate(blocks):
    values = np.empty(int(block["Count"]))
    local.set_block_selection(number)
    engine.get(local, values); engine.perform_gets()
    show(int(block["WriterID"]), values.tolist())
show(get("here").tolist(), get("here", [1], [2]).tolist(), [block["Start"] for block in engine.blocks_info("here", 0)])
show(get("joined").tolist())
"""
    *locals_, here, joined = read(written.contact, code, config)
    assert locals_ == [[rank, [float(rank)] * (rank + 1)] for rank in range(RANKS)]
    assert here == [[0, 10, 20, 30], [10, 20], ["0", "1", "2", "3"]]
    assert joined == [[[float(rank)] * 2 for rank in range(RANKS) for _ in range(rank + 1)]]


def test_deferred_gets_are_served_at_perform_gets_and_at_end_step(written, config):
    code = """
begin()
first, second = get("field", [0, 0], [1, 10], mode=Mode.Deferred), get("field", [5, 3], [2, 2], mode=Mode.Deferred)
show(first.max(), second.max())
engine.perform_gets()
show(first.max(), second.max())
third = get("field", [8, 9], [1, 1], mode=Mode.Deferred)
engine.end_step()
show(third.item())
"""
    assert read(written.contact, code, config) == [[-1.0, -1.0], [9.0, 64.0], [89.0]]


WRITE_SPILLING = """
x, small = field(32768), io.define_variable("small", np.empty(0), [5], [0], [5], True)
engine = io.open("out", Mode.Write)
for step in range(6):
    engine.begin_step()
    engine.put(x, np.arange(32768.0) + step, Mode.Sync)
    engine.put(small, np.full(5, -float(step)))
    engine.end_step()
engine.close()
"""


def write_spilling(node, folder):
    (folder / "pfs").mkdir()
    config = write_config(folder, QueueFullPolicy="Spill", SpillDirectory=str(folder / "pfs"))
    write(node.contact, WRITE_SPILLING, config)
    assert any((folder / "pfs").iterdir())


def test_spilled_steps_are_read_like_the_others(small_node, tmp_path, config):
    code = """
while begin() == "OK":
    values = get("field")
    show(bool((values == np.arange(32768.0) + engine.current_step()).all()), get("small", [1], [2]).tolist())
    engine.end_step()
"""
    write_spilling(small_node, tmp_path)
    assert read(small_node.contact, code, config) == [[True, [-step, -step]] for step in range(6)]
    spilled = tmp_path / "pfs" / "model.5.0.spill"
    for harmed in (spilled.read_bytes().replace(b"\0", b"?", 1), b""):
        spilled.write_bytes(harmed)
        said = read_wrongly(small_node.contact, code, config)
        assert f"{spilled} isn't as a rank has spilled it: it was cut, changed or replaced" in said


HARMED_WHILE_MAPPED = """
import os
while begin() == "OK":
    if engine.current_step() == 5:
        get("field")
        whole = os.path.getsize(here / "pfs" / "model.5.0.spill")
        for size in SIZES:
            os.truncate(here / "pfs" / "model.5.0.spill", size)
        tell("harmed")
    get("field")
    engine.end_step()
"""


@pytest.mark.parametrize("sizes", ["[0]", "[100000]", "[0, whole]"], ids=["emptied", "cut", "filled"])
def test_a_spill_file_that_is_cut_while_it_is_mapped_is_refused(small_node, tmp_path, config, sizes):
    write_spilling(small_node, tmp_path)
    said = read_wrongly(small_node.contact, HARMED_WHILE_MAPPED.replace("SIZES", sizes), config)
    assert (tmp_path / "harmed").exists()
    assert f"{tmp_path}/pfs/model.5.0.spill isn't as a rank has spilled it: it was cut, changed or replaced" in said


WRITE_LARGE = """
x = field(1 << 20)
engine = io.open("out", Mode.Write)
engine.begin_step()
engine.put(x, np.arange(float(1 << 20)), Mode.Sync)
engine.end_step()
engine.close()
"""
READ_LARGE = """
begin()
show(*((get("field") == np.arange(float(1 << 20))).all().item() for _ in range(4)))
"""


@pytest.mark.parametrize("fault", ["damage", "cut"])
def test_bytes_that_are_damaged_or_cut_off_are_got_again(node, bad_network, tmp_path, fault):
    write(node.contact, WRITE_LARGE, write_config(tmp_path))
    setattr(bad_network, fault, lambda number: number in (1, 4))
    config = write_config(tmp_path, Transport="tcp")
    assert read(bad_network.contact, READ_LARGE, config) == [[True] * 4]
    assert bad_network.flipped + bad_network.cuts == 2


def test_bytes_that_always_arrive_damaged_are_an_error(node, bad_network, tmp_path):
    write(node.contact, WRITE_LARGE, write_config(tmp_path))
    bad_network.damage = lambda number: True
    said = read_wrongly(bad_network.contact, READ_LARGE, write_config(tmp_path, Transport="tcp"))
    assert "arrived damaged" in said


WRITE_ON = """
x = io.define_variable("x", np.empty(0), [4096], [0], [4096])
engine = io.open("out", Mode.Write)
for step in range(4):
    engine.begin_step()
    engine.put(x, np.full(4096, float(step)), Mode.Sync)
    engine.end_step()
    wait_for(f"go{step}")
engine.close()
"""
READ_ON = """
for step in range(4):
    show(begin(), get("x", [1], [2]).tolist())
    tell(f"read{step}")
    wait_for(f"go{step}")
    show(get("x", [4094], [2]).tolist())
    engine.end_step()
show(begin())
"""


@pytest.mark.parametrize("way", ["shm", "tcp"])
def test_a_reader_survives_its_node_s_restart(tmp_path, way):
    contact = tmp_path / "contact.json"

    def start():
        node = spawn_node("bb0", tmp_path, 1 << 20, contact)
        wait_until_ready("bb0", contact, node, tmp_path / "bb0.log")
        return node

    node = start()
    try:
        config = write_config(tmp_path, Transport=way, NodeLossTimeoutSecs="120")
        with writing(contact, WRITE_ON, config) as writer, reading(contact, READ_ON, config) as reader:
            (tmp_path / "go0").touch()
            wait_for_file(tmp_path / "read1")
            node.kill()
            node.wait()
            node = start()
            for step in range(4):
                (tmp_path / f"go{step}").touch()
            assert finish(writer)[0] == 0
            expected = [[["OK", [step] * 2], [[step] * 2]] for step in range(4)]
            assert shown(reader) == [line for step in expected for line in step] + [["EndOfStream"]]
    finally:
        node.send_signal(signal.SIGKILL)
        node.wait()


def test_a_reader_without_its_node_says_so_after_the_timeout(tmp_path):
    code = """
begin(); engine.end_step()
tell("read")
show(begin())
"""
    config = write_config(tmp_path, NodeLossTimeoutSecs="0.3")
    with (
        EmbeddedNodes(1, 1 << 20) as nodes,
        writing(nodes.contact, WRITE_ON, config),
        reading(nodes.contact, code, config) as reader,
    ):
        wait_for_file(tmp_path / "read")
        nodes.close()
        assert shown(reader) == [["OtherError"]]


def replace(pool):
    size = os.stat(pool).st_size
    os.unlink(pool)
    Path(pool).write_bytes(bytes(size))


def empty(pool):
    size = os.stat(pool).st_size
    os.truncate(pool, 0)
    os.truncate(pool, size)


@pytest.mark.parametrize("harm", [replace, empty])
def test_zeros_of_a_pool_that_was_taken_away_are_no_values(tmp_path, harm):
    """As `bbflow.store.pool` has it for readers in Python."""
    with EmbeddedNodes(1, 1 << 20, Path("/dev/shm")) as nodes:
        write(nodes.contact, ONE_BAND, write_config(tmp_path))
        pool = nodes.nodes[0].pool
        harm(pool)
        said = read_wrongly(nodes.contact, 'begin(); show(get("field").tolist())', write_config(tmp_path))
    assert f"{pool} was removed, cut or replaced: what the BB node held is lost" in said
