"""Where a site lets transfers for users go, and how its programs end together."""

import pytest
from bbflow_slurm.children import printable
from bbflow_slurm.reach import SCHEMES, Reach

from bbflow.errors import SourceError


@pytest.mark.parametrize("url", ["/a/b", "file:///a", "http://host/a", "https://h:1/a::b", "s3://b/k", "bytes=0-9::/a"])
def test_paths_and_urls_of_the_usual_protocols_may_be_used(url):
    Reach(SCHEMES, ()).check(url)


@pytest.mark.parametrize("url", ["reference::/a", "zip://a::file:///b", "sftp://h/a", "data:,a", "SFTP://h/a", "a::/b"])
def test_other_protocols_may_not(url):
    with pytest.raises(SourceError, match="the site's transfers use"):
        Reach(SCHEMES, ()).check(url)


@pytest.mark.parametrize("host", ["data.example.org", "DATA.example.org.", "10.1.2.3", "[fd00::1]", "u@10.1.2.3:80"])
def test_a_host_that_is_listed_by_name_or_network_may_be_used(host):
    Reach(SCHEMES, ["*.example.org", "10.1.0.0/16", "fd00::/8"]).check(f"https://{host}/a")


@pytest.mark.parametrize(
    "host", ["example.org", "a.example.org.evil.net", "10.2.0.1", "[::1]", "a.example.org@evil.net"]
)
def test_one_that_is_not_may_not(host):
    with pytest.raises(SourceError, match="don't go to"):
        Reach(SCHEMES, ["*.example.org", "10.1.0.0/16"]).check(f"https://{host}/a")


def test_what_is_said_moves_no_cursor_and_begins_no_line():
    assert printable(b"bbflow-slurm: a\x1b[31m\nbbflow-slurm: b\r\xff") == "a\\x1b[31m; b; \ufffd"
