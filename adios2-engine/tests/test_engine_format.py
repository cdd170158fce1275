import struct
import subprocess
from pathlib import Path

from bbflow.landing.requests import parse_request
from bbflow.net.frames import FrameReader, encode
from bbflow.stream.layouts import Layouts
from bbflow.stream.records import Step

GOLDEN = Path(__file__).parent / "golden" / "commit.bin"
INDEX = GOLDEN.with_name("index.bin")

COMMIT = {
    "op": "commit",
    "step": 300,
    "layout": 2,
    "forms": [
        ["tas", "float", "GlobalArray", [180, 360], [90, 0], [90, 360], 7, 0, 64, 129600, False],
        ["points", "int8_t", "JoinedArray", [2**64 - 2, 3], [], [2, 3], 7, 0, 64, 6, True],
        *(
            [name, kind, "GlobalValue", [], [], [], 7, 0, 0, 0, False]
            for name, kind in (("time", "double"), ("label", "string"), ("phase", "double complex"))
        ),
    ],
    "sources": struct.pack("<q", 1 << 33),
    "files": ["/pfs/climate.300.7.spill"],
    "values": [0.125, "n" * 40 + " Größe", [1.0, -2.0]],
    "extremes": struct.pack("<2d2q6d", 203.5, 317.25, -128, 127, *(1.0, 0.0) * 3),
    "attributes": [
        {"name": "tas/units", "type": "string", "value": "K"},
        {
            "name": "numbers",
            "type": "int64_t",
            "value": [0, 127, 128, -1, -32, -33, -128, -129, 65536, -(1 << 63), (1 << 64) - 1],
        },
        {"name": "latin", "type": "string", "value": "grün"},
    ],
    "open_s": 0.25,
    "waited_s": 1.5,
}


def test_the_engine_s_frame_is_the_golden_file(programs):
    assert subprocess.run([programs / "golden"], stdout=subprocess.PIPE, check=True).stdout == GOLDEN.read_bytes()


def test_the_node_reads_the_golden_file():
    assert list(FrameReader().feed(GOLDEN.read_bytes())) == [COMMIT]


def test_python_s_frame_is_the_golden_file():
    assert encode(COMMIT) == GOLDEN.read_bytes()


def test_the_engine_reads_the_golden_files(programs):
    for file in (GOLDEN, INDEX):
        copied = subprocess.run([programs / "golden", "copy"], input=file.read_bytes(), capture_output=True, check=True)
        assert copied.stdout == file.read_bytes()


def test_the_golden_commit_is_a_step_of_the_blocks_that_it_names():
    asked = next(FrameReader(decode=parse_request).feed(GOLDEN.read_bytes()))
    step = Step.of(asked.step, Layouts().find(asked.layout, asked.forms), asked)
    tas, points, time, label, phase = step.blocks
    assert (tas.offset, tas.bytes, tas.min, tas.max, tas.file) == ((1 << 33) + 64, 129600, 203.5, 317.25, None)
    assert (points.offset, points.min, points.max, points.file) == (64, -128, 127, "/pfs/climate.300.7.spill")
    assert [time.value, label.value, phase.value] == COMMIT["values"]
    assert {block.rank for block in step.blocks} == {7}
