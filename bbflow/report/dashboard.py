"""The report as a page that keeps up with a run: on loopback, at an address that only who has it can open."""

import asyncio
import hmac
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application, HTTPError, RequestHandler

LOOPBACK = "127.0.0.1"
REFRESH = """
<script>
  setInterval(async () => {
    const answer = await fetch(location.href, {cache: "no-store"});
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    document.title = page.title;
    document.body.replaceChildren(...page.body.childNodes);
  }, %d);
</script>
"""
"""Takes in the newest page without moving what is looked at."""


class Dashboard:
    """Serves a page that is drawn again when it is asked for and has become old.

    Parameters
    ----------
    draw
        Gives the page (HTML); called in a thread, one call at a time.
    secret
        Part of the address; without it nothing is shown.
    port
        Of the loopback interface; 0 takes a free one.
    every_s
        How old a page may be (seconds).
    """

    def __init__(self, draw: Callable[[], str], secret: str, port: int = 0, every_s: float = 10.0) -> None:
        self._draw, self._every_s = draw, every_s
        self._sockets = bind_sockets(port, LOOPBACK)
        self._port = self._sockets[0].getsockname()[1]
        self._secret = secret
        self._page, self._drawn_s = "", float("-inf")
        self._thread = ThreadPoolExecutor(1, "dashboard")
        self._lock = asyncio.Lock()

    @property
    def address(self) -> str:
        """Where a browser finds it."""
        return f"http://{LOOPBACK}:{self._port}/{self._secret}/"

    def serve(self) -> None:
        """Answer until interrupted."""
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        names = [LOOPBACK, "localhost"]
        shared = {"page": self.page, "secret": self._secret, "hosts": {f"{name}:{self._port}" for name in names}}
        HTTPServer(Application([(r"/(.*)", _Handler, shared)])).add_sockets(self._sockets)
        await asyncio.Event().wait()

    async def page(self) -> str:
        """Return a page that is no older than it may be."""
        # Several browsers get one drawing.
        async with self._lock:
            if time.monotonic() - self._drawn_s > self._every_s:
                drawn = await asyncio.get_running_loop().run_in_executor(self._thread, self._draw)
                refresh = REFRESH % round(1000 * self._every_s)
                self._page = drawn.replace("</head>", f"{refresh}</head>", 1)
                self._drawn_s = time.monotonic()
            return self._page


class _Handler(RequestHandler):
    """One page, for who knows its address."""

    def initialize(self, page: Callable[[], Any], secret: str, hosts: set[str]) -> None:
        self._page, self._secret, self._hosts = page, secret, hosts

    def prepare(self) -> None:
        # Another name in Host: a foreign page lets its own name point to us (DNS rebinding).
        if self.request.host not in self._hosts:
            raise HTTPError(403)

    async def get(self, path: str) -> None:
        # As bytes: of texts it takes none but ASCII. It takes as long however much of the secret was right.
        if not hmac.compare_digest(path.strip("/").encode(), self._secret.encode()):
            raise HTTPError(404)
        self.set_header("Cache-Control", "no-store")
        # Who has the address has the page: a link that is followed must not tell it.
        self.set_header("Referrer-Policy", "no-referrer")
        self.write(await self._page())
