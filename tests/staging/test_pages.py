"""HTTP servers: the pages by which each common one lists a directory, and what they answer to HEAD."""

import html
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import quote, unquote, urlsplit

import pytest

from bbflow.errors import BbflowError
from bbflow.staging import File, Sources, Stager, expand
from bbflow.stores.pages import listed_names

FILES = ["a b", "c&d", "e.nc", "f#g", "50%", "h?i", "k;l", "ü", "m%20n", "[o]", "p+q", "r's", 't"u']
DIRECTORIES = ["v w"]
TABLE = (
    '<tr><td>{icon}</td><td><a href="{link}">{text}</a></td><td align=right>2026-11-27 00:00  </td><td>1.0K</td></tr>'
)
SORTED = '<a href="?C=N;O=D">Name</a> <a href="?C=M;O=A">Last modified</a> <a href="?C=S;O=A">Size</a>'
ABOVE = '<a href="/pub/">Parent Directory</a>'


def entity(name):
    """Percent-encoded as Apache does it, with entities where HTML wants them."""
    return html.escape(quote(name, safe="&+;'"))


def page(row, link=entity, head="", tail="", slash="/"):
    rows = [row.format(icon="", link=link(name), text=html.escape(name)) for name in FILES]
    rows += [row.format(icon="", link=link(name) + slash, text=html.escape(name)) for name in DIRECTORIES]
    return f"<html><head><title>Index of /pub/data</title></head><body>{head}{''.join(rows)}{tail}</body></html>"


PAGES = {
    "Apache, plain": page('<li><a href="{link}"> {text}</a></li>\n', head=f"<ul><li>{ABOVE}</li>", tail="</ul>"),
    "Apache, fancy": page(
        '<img src="/icons/unknown.gif" alt="[   ]"> <a href="{link}">{text}</a>  2026-11-27 00:00  1.0K\n',
        head=f"<h1>Index of /pub/data</h1><pre>{SORTED}<hr>{ABOVE}\n",
        tail='<hr></pre><address>Apache/2.4 at <a href="mailto:admin@example.org">example.org</a> Port 80</address>',
    ),
    "Apache, table": page(TABLE, head=f"<table><tr><th>{SORTED}</th></tr><tr><td>{ABOVE}</td></tr>", tail="</table>"),
    "nginx": page(
        '<a href="{link}">{text}</a>   27-Nov-2026 00:00   1024\n',
        quote,
        '<h1>Index</h1><hr><pre><a href="../">../</a>\n',
    ),
    "lighttpd": page(
        '<tr class="d"><td class="n"><a href="{link}">{text}</a></td><td class="t">application/octet-stream</td></tr>',
        quote,
        '<tr class="d"><td class="n"><a href="../">..</a>/</td></tr>',
        '<script type="text/javascript">var click_column = "<a href=\'no.nc\'>";</script>',
    ),
    "Caddy": page(
        '<tr class="file"><td><a href="./{link}"><svg></svg><span class="name">{text}</span></a></td></tr>',
        quote,
        '<a href="/">/</a><a href="/pub/">pub</a><a href="..">Up</a><a href="./?sort=size&amp;order=desc">Size</a>'
        "<a href=\"javascript:queryParam('layout', 'grid')\">Grid</a>",
        '<footer>Served with <a rel="noopener" href="https://caddyserver.com">Caddy</a></footer>',
    ),
    "IIS": page(
        ' 11/27/2026 12:00 AM  1024 <A HREF="/pub/data/{link}">{text}</A><br>',
        quote,
        '<pre><A HREF="/pub/">[To Parent Directory]</A><br><br>',
    ),
    "Python's http.server": page('<li><a href="{link}">{text}</a></li>\n', quote, "<h1>Directory listing</h1><hr><ul>"),
    "Tomcat": page(
        '<tr><td align="left">&nbsp;&nbsp;<a href="/pub/data/{link}"><tt>{text}</tt></a></td></tr>',
        quote,
        '<h1>Directory Listing For [/data/] - <a href="/pub/"><b>Up To [/]</b></a></h1>',
    ),
    "Jetty": page(
        '<tr><td class="name"><a href="http://example.org/pub/data/{link}">{text}&nbsp;</a></td></tr>',
        quote,
        '<th><a href="?C=N&O=D">Name&nbsp; &#8679;</a></th><tr><td><a href="http://example.org/pub/">Parent</a></td></tr>',
    ),
    "h5ai": page(
        '<tr><td class="fb-i"><img src="/_h5ai/public/images/fallback/file.png"/></td><td class="fb-n">'
        '<a href="/pub/data/{link}">{text}</a></td></tr>',
        quote,
        '<a href="https://larsjung.de/h5ai/">h5ai</a><td class="fb-n"><a href="..">Parent Directory</a></td>',
    ),
    "a page with a base, and links in upper case without quotes": page(
        "<A HREF={link}>{text}</A>", lambda name: quote(name, safe=""), '<base href="http://example.org/pub/data/">'
    ),
    "a page behind a proxy that speaks HTTPS": page('<a href="https://example.org/pub/data/{link}">x</a>', quote),
    "a page that lists everything twice, by its icon too": page(
        '<a href="{link}"><img></a> <a href="{link}">x</a>', quote
    ),
}


@pytest.mark.parametrize("server", PAGES)
def test_a_page_has_the_names_that_lie_in_its_directory_and_no_others(server):
    files, directories = listed_names(PAGES[server], "http://example.org/pub/data/")
    assert (sorted(files), directories) == (sorted(FILES), DIRECTORIES)


def test_a_catalog_of_thredds_has_no_files_that_could_be_taken_for_some():
    row = '<tr><td><a href="catalog.html?dataset=all/{link}"><code>{text}</code></a></td></tr>'
    thredds = page(row, quote, '<a href="http://www.unidata.ucar.edu/software/tds/">THREDDS</a>', slash="")
    assert listed_names(thredds, "http://example.org/thredds/catalog/") == ([], [])


@pytest.mark.parametrize(
    "link", ["http://[bad/x", "ftp://example.org/pub/data/x", "//other.org/pub/data/x", "data:,x", "#x", "", ".", "x/y"]
)
def test_links_that_lead_elsewhere_are_none(link):
    assert listed_names(f'<a href="{link}">x</a><a>y</a>', "http://example.org/pub/data/") == ([], [])


class Handler(BaseHTTPRequestHandler):
    """Serves `FILES` in a style that is the first part of the path, each file with its name as its content."""

    protocol_version = "HTTP/1.1"

    def do_HEAD(self):
        self.server.asked.append("HEAD")
        if refusal := self.server.refusal:
            self.send_response(refusal)
            self.send_header("Content-Length", "5")  # of what it would be, were it no HEAD
            self.end_headers()
        else:
            self.answer(body=False)

    def do_GET(self):
        self.server.asked.append("GET")
        self.answer(body=True)

    def answer(self, body):
        style, _, name = unquote(urlsplit(self.path).path).lstrip("/").partition("/")
        is_page = not name or name == "v w/"
        if is_page:
            content = self.server.pages[style].encode() if not name else b'<a href="deep">x</a>'
        elif name in FILES or name == "v w/deep":
            content = name.encode()
        else:
            content = None
        first = self.server.ranges and content and self.headers.get("Range")
        start, _, end = (first or "").removeprefix("bytes=").partition("-")
        part = content[int(start) : int(end) + 1] if first else content or b""
        self.send_response(404 if content is None else 206 if first else 200)
        self.send_header("Content-Type", "text/html; charset=utf-8" if is_page else "application/octet-stream")
        self.send_header("Content-Length", str(len(part)))
        if first:
            self.send_header("Content-Range", f"bytes {start}-{int(start) + len(part) - 1}/{len(content)}")
        self.end_headers()
        if body:
            self.wfile.write(part)

    def log_message(self, *_):
        pass


@pytest.fixture
def serving():
    """A server with each page; links to its own host lead to it."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        host = f"127.0.0.1:{server.server_port}"
        names = {name.replace(" ", "-").replace(",", ""): name for name in PAGES}
        server.pages = {
            short: PAGES[name]
            .replace("https://example.org/pub/data", f"http://{host}/{short}")
            .replace("http://example.org/pub/data", f"http://{host}/{short}")
            .replace("/pub/data", f"/{short}")
            for short, name in names.items()
        }
        server.asked, server.refusal, server.ranges, server.url = [], 0, True, f"http://{host}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        yield server
        server.shutdown()


def staged(url, directory):
    found = expand(url, Sources())
    with Stager(directory, 1 << 20, 1) as stager:
        places = stager.submit("all", [File(file.url) for file in found]).result(60)
        assert {places[file.url].name for file in found} == {file.name.rpartition("/")[2] for file in found}
        return {file.name: places[file.url].read_text() for file in found}


def test_a_directory_is_staged_from_each_of_them_under_its_files_own_names(serving, tmp_path):
    for number, style in enumerate(serving.pages):
        expected = {f"{style}/{name}": name for name in FILES} | {f"{style}/v w/deep": "v w/deep"}
        assert staged(f"{serving.url}/{style}/", tmp_path / str(number)) == expected


@pytest.mark.parametrize("ranges", [True, False])
@pytest.mark.parametrize("refusal", [405, 501, 403, 400])
def test_a_server_that_refuses_head_is_asked_otherwise_at_once(serving, tmp_path, refusal, ranges):
    serving.refusal, serving.ranges = refusal, ranges
    assert staged(f"{serving.url}/nginx/e*", tmp_path / "bb") == {"e.nc": "e.nc"}
    assert staged(f"{serving.url}/nginx/v%20w/deep", tmp_path / "bb1") == {"deep": "v w/deep"}
    sources = Sources()
    serving.asked.clear()
    assert [sources.facts(f"{serving.url}/nginx/e.nc").size_bytes for _ in range(3)] == [4, 4, 4]
    assert serving.asked == ["GET"] * 3 if ranges else ["GET", "HEAD", "GET", "GET"]


@pytest.mark.parametrize("name", ["none", "e.nc#x"])
def test_what_is_not_there_is_one_line(serving, name):
    serving.refusal = 405
    with pytest.raises(BbflowError, match=r"isn't there: check the URL|is seen by no server"):
        Sources().facts(f"{serving.url}/nginx/{name}")
