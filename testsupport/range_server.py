"""An HTTP server that gives ranges of files, as many as it may; a program of its own, or a thread of a test."""

import math
import re
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from email.utils import formatdate
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def __init__(self, directory, ranges, enter, *rest):
        self.directory, self.ranges, self.enter = directory, ranges, enter
        super().__init__(*rest)

    def do_HEAD(self):
        self.answer(body=False)

    def do_GET(self):
        self.answer(body=True)

    def answer(self, body):
        path = self.directory / unquote(self.path.lstrip("/").partition("?")[0])
        if "forbidden" in self.path or not path.is_file():
            self.send_response(403 if "forbidden" in self.path else 404)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        size = path.stat().st_size
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", "")) if self.ranges else None
        start, end = (int(wanted[1]), min(int(wanted[2]) + 1, size)) if wanted else (0, size)
        self.enter(self.command, start, end - start)
        self.send_response(206 if wanted else 200)
        if wanted:
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{size}")
        if self.ranges:
            self.send_header("Accept-Ranges", "bytes")
        told = path.with_name(path.name + ".etag")
        self.send_header("ETag", told.read_text() if told.exists() else f'"{path.stat().st_mtime_ns:x}-{size}"')
        self.send_header("Last-Modified", formatdate(path.stat().st_mtime, usegmt=True))
        self.send_header("Content-Length", str(end - start))
        self.end_headers()
        if body:
            with path.open("rb") as file:
                file.seek(start)
                with suppress(ConnectionError):
                    self.wfile.write(file.read(end - start))

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64


class RangeServer:
    """A server in a thread; `requests` is a list of (method, start, length) in the order in which they came.

    It answers the first `allowed` GETs, and lets the others wait until `allow` raises that number.
    """

    def __init__(self, directory, ranges=True, port=0, allowed=math.inf):
        self.requests, self.allowed, self._changed = [], allowed, threading.Condition()
        self.server = Server(("127.0.0.1", port), partial(Handler, directory, ranges, self._enter))
        self.port = self.server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def _enter(self, method, start, length):
        with self._changed:
            self.requests.append((method, start, length))
            number = len(self.gets)
            self._changed.wait_for(lambda: method != "GET" or number <= self.allowed)

    def allow(self, allowed=math.inf):
        """Answer this many GETs, counted from the first."""
        with self._changed:
            self.allowed = allowed
            self._changed.notify_all()

    @property
    def gets(self):
        return [request for request in self.requests if request[0] == "GET"]


@contextmanager
def serving(directory, port, allowed):
    """Serve in a process of its own, which is killed in the end."""
    words = [sys.executable, __file__, str(directory), str(port), str(allowed)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout.readline() == f"{port}\n"
            yield
        finally:
            server.kill()


if __name__ == "__main__":
    program = RangeServer(Path(sys.argv[1]), port=int(sys.argv[2]), allowed=float(sys.argv[3]))
    print(program.port, flush=True)
    program.server.serve_forever()
