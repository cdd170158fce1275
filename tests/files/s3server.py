"""A server that knows S3, with one bucket, for as long as a `with` lasts."""

import re
import subprocess
import sys
import urllib.request
from contextlib import contextmanager

from servers import wait_for


@contextmanager
def s3_server(log):
    words = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
    with log.open("w") as file, subprocess.Popen(words, stdout=file, stderr=file) as server:
        try:
            found = wait_for(lambda: re.search(r"(http://127\.0\.0\.1:\d+)\s", log.read_text()), "the S3 server", 300)
            with urllib.request.urlopen(urllib.request.Request(f"{found[1]}/bucket", method="PUT"), timeout=300):
                yield found[1]
        finally:
            server.kill()
