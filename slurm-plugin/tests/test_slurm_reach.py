"""Where a site lets transfers for users go, and how its programs end together."""

import subprocess
import sys

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


CONNECT = """
import socket, sys
from bbflow_slurm.reach import SCHEMES, Reach

address, *hosts = sys.argv[1:]
with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM) as found:
    if address == "own":
        try:
            found.connect(("8.8.8.8", 9))  # sends nothing
        except OSError:
            sys.exit(77)
        address = found.getsockname()[0]
Reach(SCHEMES, [address] if hosts else []).enforce()
with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as connection:
    connection.settimeout(0.5)
    connection.connect((address, 9))
"""


def connecting(*words):
    done = subprocess.run([sys.executable, "-c", CONNECT, *words], capture_output=True, text=True, timeout=30)
    if done.returncode == 77:
        pytest.skip("this host has no address that others reach")
    return done.stderr


@pytest.mark.parametrize("address", ["own", "127.0.0.1", "169.254.169.254", "fd00:ec2::254", "100.100.100.200"])
def test_no_address_of_this_host_or_of_a_clouds_keys_is_connected_to(address):
    assert "the site's transfers don't go to" in connecting(address)


@pytest.mark.parametrize("words", [("198.51.100.1",), ("own", "listed")])
def test_others_are_and_one_of_this_host_that_is_listed(words):
    assert "SourceError" not in connecting(*words)


def test_what_is_said_moves_no_cursor_and_begins_no_line():
    assert printable(b"bbflow-slurm: a\x1b[31m\nbbflow-slurm: b\r\xff") == "a\\x1b[31m; b; \ufffd"
