"""Decoders that threads ask for at the same time."""

import subprocess
import sys

THREADS_THAT_MEET_A_STRUCT_FIRST = """
import sys
import threading
import msgspec
from bbflow.net.decoders import json_decoder, msgpack_decoder
from bbflow.net.frames import parser

sys.setswitchinterval(1e-6)
for _ in range(60):
    inner = msgspec.defstruct("Inner", [("number", int), ("numbers", tuple[int, ...]), ("word", str | int | None)])
    outer = msgspec.defstruct("Outer", [("listed", tuple[inner, ...]), ("named", dict[str, inner])])
    value = outer((inner(1, (2,), "a"),), {"b": inner(3, (4, 5), None)})
    packed, text = msgspec.msgpack.encode(value), msgspec.json.encode(value)
    found, barrier = [], threading.Barrier(6)

    def meet(decode):
        barrier.wait()
        found.append(decode() == value)

    asked = [
        lambda: parser(outer, "a reply")(packed),
        lambda: msgpack_decoder(outer).decode(packed),
        lambda: json_decoder(outer).decode(text),
    ]
    threads = [threading.Thread(target=meet, args=(decode,)) for decode in asked * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 6
"""


def test_threads_that_meet_a_struct_for_the_first_time_at_once_decode_it():
    # In a process of its own: what went wrong was a crash.
    command = [sys.executable, "-c", THREADS_THAT_MEET_A_STRUCT_FIRST]
    assert subprocess.run(command, timeout=100).returncode == 0
