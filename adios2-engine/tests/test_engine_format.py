import subprocess
from pathlib import Path

from bbflow.store.frames import FrameReader, encode

GOLDEN = Path(__file__).parent / "golden" / "commit.bin"
INDEX = GOLDEN.with_name("index.bin")

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
        {
            "name": "points",
            "type": "int8_t",
            "kind": "JoinedArray",
            "shape": [2**64 - 2, 3],
            "start": [],
            "count": [2, 3],
            "offset": 64,
            "bytes": 6,
            "min": -128,
            "max": 127,
            "file": "/pfs/climate.300.7.spill",
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


def test_the_engine_reads_the_golden_files(programs):
    copied = [
        subprocess.run([programs / "golden", "copy"], input=file.read_bytes(), capture_output=True, check=True).stdout
        for file in (GOLDEN, INDEX)
    ]
    assert copied[0] == GOLDEN.read_bytes()
    # MessagePack's binary is text to the engine, which reads no checkpoint.
    expected = [as_text(message) for message in FrameReader().feed(INDEX.read_bytes())]
    assert list(FrameReader().feed(copied[1])) == expected


def as_text(message):
    """Give a message with its binary as text."""
    return {key: value.decode() if isinstance(value, bytes) else value for key, value in message.items()}
