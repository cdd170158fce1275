import subprocess
from pathlib import Path

from bbflow.store.frames import FrameReader, encode

GOLDEN = Path(__file__).parent / "golden" / "commit.bin"

COMMIT = {
    "op": "commit",
    "step": 300,
    "blocks": [
        {
            "name": "tas",
            "type": "float",
            "kind": "GlobalArray",
            "shape": [180, 360],
            "start": [90, 0],
            "count": [90, 360],
            "offset": 1 << 33,
            "bytes": 129600,
            "min": 203.5,
            "max": 317.25,
        },
        *(
            {"name": name, "type": kind, "kind": "GlobalValue"}
            | {"shape": [], "start": [], "count": [], "value": value}
            for name, kind, value in (
                ("time", "double", 0.125),
                ("label", "string", "n" * 40 + " Größe"),
                ("phase", "double complex", [1.0, -2.0]),
            )
        ),
    ],
    "attributes": [
        {"name": "tas/units", "type": "string", "value": "K"},
        {
            "name": "numbers",
            "type": "int64_t",
            "value": [0, 127, 128, -1, -32, -33, -128, -129, 65536, -(1 << 63), (1 << 64) - 1],
        },
        {"name": "latin", "type": "string", "value": "grün"},
    ],
    "waited_s": 1.5,
}


def test_the_engine_s_frame_is_the_golden_file(programs):
    assert subprocess.run([programs / "golden"], stdout=subprocess.PIPE, check=True).stdout == GOLDEN.read_bytes()


def test_the_node_reads_the_golden_file():
    assert list(FrameReader().feed(GOLDEN.read_bytes())) == [COMMIT]


def test_python_s_frame_is_the_golden_file():
    assert encode(COMMIT) == GOLDEN.read_bytes()
