"""What another user of the host, and another host, get from the programs of a run without its key: nothing."""

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import bbflow_adios2
import pytest
import yaml

from bbflow.net.certificate import certificate_of
from bbflow.net.frames import FrameReader
from testsupport.hosts import hosts_with
from testsupport.processes import finish_well, running
from testsupport.waiting import until
from testsupport.weather import weather

ADDRESSES = {"host": "10.77.0.1", "other": "10.77.0.2"}
NOBODY = 65534
INTRUDER = Path(__file__).with_name("intruder.py")
LISTENS = "0A"
"""A socket's state in /proc/net/tcp."""
PORTS = 11
"""Two nodes, a master, an IOnode, the dashboard; scheduler, nanny and worker, twice."""
SERVERS = 4
"""Those of them that speak the nodes' protocol."""

HOLD = "while not Path(sys.argv[2]).exists(): time.sleep(0.05)"


pytestmark = pytest.mark.xdist_group("network namespaces")
hosts = hosts_with(ADDRESSES)


def bbflow(hosts, *words):
    command = hosts.inside("host", sys.executable, "-m", "bbflow", *map(str, words))
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


def listening(hosts):
    """List all TCP sockets of the host that listen: they are all ours, the host has no others."""
    shown = subprocess.run(hosts.inside("host", "cat", "/proc/net/tcp"), capture_output=True, text=True, check=True)
    places = [line.split()[1] for line in shown.stdout.splitlines()[1:] if line.split()[3] == LISTENS]
    addresses = [(bytes.fromhex(place[:8])[::-1], int(place[9:], 16)) for place in places]
    return [(".".join(map(str, address)), port) for address, port in addresses]


@pytest.fixture(scope="module")
def run(hosts, tmp_path_factory):
    """All that listens, in the middle of a run.

    BB nodes, Dask and the files' servers for other hosts; an analysis with Dask of its own, and the dashboard.
    """
    folder = tmp_path_factory.mktemp("run")
    contact, scheduler = folder / "contact.json", folder / "scheduler.json"
    config, xml, writer, end = (folder / name for name in ("analysis.yml", "weather.xml", "writer.py", "end"))
    content = {"stream": "weather", "output": str(folder / "out"), "operators": {"tas": ["mean"]}}
    config.write_text(yaml.safe_dump(content | {"workers": {"processes": 1}}))
    xml.write_text(bbflow_adios2.engine_xml("weather"))
    writer.write_text(weather(4, at_end=HOLD))
    shared = ["--contact", contact, "--scheduler-file", scheduler]
    bbflow(hosts, "up", *shared, "--nodes", 2, "--capacity", "4MiB", "--listen", ADDRESSES["host"])
    words = ["run", config, "--contact", contact, "--no-report", "--", sys.executable, writer, xml, end]
    with ExitStack() as stack:
        process = stack.enter_context(beside(hosts, *words))
        for kind, more in (("master", []), ("ionode", ["--name", "io", "--capacity", "4MiB"])):
            place = ["--contact", contact, "--directory", f"/dev/shm/{kind}", "--listen", ADDRESSES["host"]]
            stack.enter_context(beside(hosts, "files", kind, *place, *more))
        until(lambda: (folder / "out" / "results.zarr").exists() or process.poll() is not None)
        dashboard = stack.enter_context(beside(hosts, "dashboard", folder / "out"))
        assert "http://" in dashboard.stdout.readline()
        until(lambda: len(listening(hosts)) >= PORTS)
        yield contact, listening(hosts)
        end.touch()
        finish_well(process)
        bbflow(hosts, "down", *shared)


def beside(hosts, *words):
    return running(hosts.inside("host", sys.executable, "-m", "bbflow", *map(str, words)))


def tries(hosts, host, uid, certificate, addresses):
    """Try everything as an intruder; return what it got."""
    words = [sys.executable, str(INTRUDER), str(uid), str(certificate), *(f"{ip}:{port}" for ip, port in addresses)]
    done = subprocess.run(hosts.inside(host, *words), capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def is_refusal(text):
    """Whether it is a server's answer to one who can't prove that it knows the key."""
    hello, *rest = FrameReader().feed(text.encode("latin-1"))
    return hello.keys() == {"ok", "version", "nonce", "proof"} and [message["ok"] for message in rest] == [False]


def assert_refused(given):
    """Only the servers have said anything at all, and that was no; so has the dashboard, which knows no such page."""
    pages = [text for _, _, text in given if text.startswith("HTTP/1.1 4")]
    others = [one for one in given if one[2] not in pages]
    assert all(len(text) < 1000 and "bbflow" not in text for text in pages), given
    assert [attempt for _, attempt, text in others if is_refusal(text)] == ["node: a wrong proof"] * SERVERS, given
    assert len(others) == SERVERS, given


def test_another_user_of_the_host_gets_nothing(hosts, run):
    _, ports = run
    assert len(ports) >= PORTS
    assert_refused(tries(hosts, "host", NOBODY, "-", ports))


def test_another_host_gets_nothing(hosts, run):
    _, ports = run
    reached = [(ip, port) for ip, port in ports if ip != "127.0.0.1"]
    assert len(reached) >= 7
    assert_refused(tries(hosts, "other", NOBODY, "-", reached))


@pytest.mark.slow
def test_who_has_the_certificate_gets_an_answer_at_the_same_ports(hosts, run):
    contact, ports = run
    reached = [(ip, port) for ip, port in ports if ip != "127.0.0.1"]
    given = tries(hosts, "other", os.getuid(), certificate_of(contact), reached)
    answers = {address for address, attempt, text in given if attempt == "dask with TLS" and "'type'" in text}
    assert len(answers) == 3, given  # scheduler, nanny and worker


@pytest.mark.slow
def test_nothing_of_a_run_is_a_file_that_others_can_read(run):
    contact, _ = run
    assert certificate_of(contact).stat().st_mode & 0o777 == contact.stat().st_mode & 0o777 == 0o600
