"""Send over a connection whose other end has vanished, or reads nothing; say whether its host is silent.

It runs in a network of its own.
"""

import socket
import subprocess
import sys
import time
from contextlib import suppress

from bbflow.net.listen import is_silent, tune

SILENCE_S = 1.0
PATIENCE_S = 60.0


def main(what):
    """Do it."""
    link = lambda state: subprocess.run(["ip", "link", "set", "lo", state], check=True)  # noqa: E731
    link("up")
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as own:
        other, _ = listener.accept()
        tune(own)
        own.setblocking(False)
        if what == "vanished":
            link("down")
            own.send(b"?")
        else:
            with suppress(BlockingIOError):
                while True:
                    own.send(bytes(1 << 20))
        end_s = time.monotonic() + (PATIENCE_S if what == "vanished" else 4 * SILENCE_S)
        while not (found := is_silent(own, SILENCE_S)) and time.monotonic() < end_s:
            time.sleep(0.05)
        other.close()
    print("silent" if found else "not silent")


if __name__ == "__main__":
    main(*sys.argv[1:])
