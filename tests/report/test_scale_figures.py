"""The figures of docs/scale.md follow the tables of the documentation."""

from benchmarks.scale_figures import against_blocks, against_nodes, draw

NODES = """
## A thousand nodes

| | 10 nodes, 1,000 ranks | 1,000 nodes, 2,000 ranks |
| --- | ---: | ---: |
| driver, a batch | 42 ms (threads: 30) | 4.1 s |
| memory | 71 MiB | 285 MiB |

| | 7 nodes |
"""


def test_times_are_read_and_what_is_no_time_is_left_out():
    assert against_nodes(NODES) == {"driver, a batch": [(10, 0.042), (1000, 4.1)]}


def test_rows_of_one_node_stand_at_their_blocks_of_a_step():
    heading = "## Scale: what does a step cost with many variables, ranks and nodes?"
    rows = ["| | agent |", "| --- | ---: |", "| *goal* | |", "| 10 variables, 256 ranks, 7 steps | 7 us |"]
    page = "\n".join(["", heading, "", *rows, "| 10 variables, 16 ranks, 8 nodes | 18 us |", ""])
    assert against_blocks(page) == {"agent": [(2560, 7e-6)]}


def test_the_figures_are_drawn_from_the_pages_as_they_are(tmp_path):
    draw(tmp_path / "scale.svg")
    said = (tmp_path / "scale.svg").read_text()
    assert all(f">{title}<" in said for title in ("driver, per step", "agent, per block", "publication of a day"))
