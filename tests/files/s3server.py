"""A server that knows S3, with one bucket, for as long as a `with` lasts."""

import re
import subprocess
import sys
import urllib.request
from contextlib import contextmanager

from testsupport.waiting import until


@contextmanager
def s3_server(log):
    words = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
    with log.open("w") as file, subprocess.Popen(words, stdout=file, stderr=file) as server:
        try:
            found = until(lambda: re.search(r"(http://127\.0\.0\.1:\d+)\s", log.read_text()), "the S3 server")
            with urllib.request.urlopen(urllib.request.Request(f"{found[1]}/bucket", method="PUT"), timeout=300):
                yield found[1]
        finally:
            server.kill()
