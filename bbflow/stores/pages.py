"""Pages by which HTTP servers list a directory: what they link to directly below it. Pure, whatever the server."""

from html.parser import HTMLParser
from urllib.parse import SplitResult, urljoin, urlsplit

from bbflow.stores.urls import decode


def listed_names(page: str, url: str) -> tuple[list[str], list[str]]:
    """Read a page.

    What sorts it, leads above it, to another server, or to no server at all, as ``mailto:`` does, isn't a part of it.

    Parameters
    ----------
    page
        HTML.
    url
        Where it was read, in the end: links are relative to it.

    Returns
    -------
    list of str, list of str
        Names of files and of directories, each once, in the order of the page; decoded, so they may be no names at all.
    """
    links = _Links()
    links.feed(page)
    links.close()
    base = urljoin(url, links.base)
    directory = _split(urljoin(url, "."))
    files, directories = dict[str, None](), dict[str, None]()
    for link in links.found:
        place = _split(_joined(base, link))
        if place is None or directory is None or place.query or _server(place) != _server(directory):
            continue
        above, names = directory.path.split("/")[:-1], place.path.split("/")
        if list(map(decode, names[: len(above)])) != list(map(decode, above)):
            continue
        match names[len(above) :]:
            case [name] if name:
                files[decode(name)] = None
            case [name, ""] if name:
                directories[decode(name)] = None
    return list(files), list(directories)


class _Links(HTMLParser):
    """Collects what anchors refer to; the parser has decoded their entities."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.base = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        link = dict(attrs).get("href")
        if link is None:
            return
        if tag == "a":
            self.found.append(link.strip())
        elif tag == "base":
            self.base = self.base or link.strip()


def _joined(base: str, link: str) -> str:
    try:
        return urljoin(base, link)
    except ValueError:  # an IPv6 address that is none, for instance
        return ""


def _split(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url)
        return parts if parts.scheme in ("http", "https") and parts.port != 0 else None
    except ValueError:
        return None


def _server(place: SplitResult) -> tuple[str | None, int | None]:
    """Return the host, whichever of the two protocols a proxy before it speaks."""
    return place.hostname, place.port
