"""Ranks whose process has closed its connection and isn't gone: a GPU may still write what it was told to copy."""

import socket
import subprocess
import sys

from bbflow.host.dying import dying_process
from bbflow.landing.embedded import EmbeddedNodes
from testsupport.asking import ask_once
from testsupport.peers import OPEN, PAGE
from testsupport.waiting import until

# The kernel ends a process thread by thread, and lets it go with the last one. Here the first one ends, another closes
# the connection as the end of a process does, and goes on as a device's driver that is slow to let go.
DYING = f"""
import ctypes, os, platform, sys, threading
from pathlib import Path
from bbflow.landing.client import NodeClient
from bbflow.net.contact import read_contact
from testsupport.asking import ask
(node,) = read_contact(Path(sys.argv[1]))
client = NodeClient(node)
ask(client, "open", **{OPEN | {"stream": "weather", "rank": 0, "writers": 1, "local_writers": 1, "policy": "Block"}})
ask(client, "begin", step=0, bytes={PAGE})

def go_on():
    while Path(f"/proc/{{os.getpid()}}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
        pass
    client.close()
    print("closed", flush=True)
    sys.stdin.read()
    os._exit(0)

threading.Thread(target=go_on).start()
exit_thread = {{"x86_64": 60, "aarch64": 93}}[platform.machine()]
ctypes.CDLL(None).syscall(exit_thread, 0)
"""


def test_a_dying_rank_s_room_is_its_own_until_its_process_is_gone():
    with EmbeddedNodes(1, 64 * PAGE) as nodes:
        (node,) = nodes.nodes
        words = [sys.executable, "-c", DYING, nodes.contact]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout.readline() == "closed\n"
                told = ask_once(node, "status")  # the node takes in what has come before
                assert told["streams"]["weather"]["status"] == "open"
                assert told["free"] == 63 * PAGE
            finally:
                process.stdin.close()
            process.wait()
        until(lambda: ask_once(node, "status")["streams"]["weather"]["status"] == "aborted")
        assert ask_once(node, "status")["free"] == 64 * PAGE


def test_nobody_waits_for_a_process_that_lives_on_or_is_gone(tmp_path):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "it"))
        listener.listen()
        with socket.create_server(("127.0.0.1", 0)) as elsewhere:
            assert dying_process(elsewhere) is None
        with socket.socket(socket.AF_UNIX) as own:
            own.connect(str(tmp_path / "it"))
            accepted, _ = listener.accept()
        with accepted:
            assert dying_process(accepted) is None
        code = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])"
        subprocess.run([sys.executable, "-c", code, tmp_path / "it"], check=True)
        accepted, _ = listener.accept()
        with accepted:
            assert dying_process(accepted) is None
