import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from readers import read
from test_engine_tcp import LARGE_BLOCKS, TCP, check_large_blocks

from bbflow.errors import ConfigError, NodeError
from bbflow.landing.client import NodeClient
from bbflow.net import connection
from bbflow.net.tls import Certificate
from bbflow.view.returning import Returning
from testsupport.processes import finish
from testsupport.waiting import PATIENCE_S
from testsupport.writers import run_writer, wait_for_file, write, write_config, writing

LARGE = """
x = field(1 << 20)
engine = io.open("out", Mode.Write)
engine.begin_step()
engine.put(x, np.arange(float(1 << 20)), Mode.Sync)
engine.end_step()
engine.close()
"""


def run(*words):
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)


def make(*words):
    run("req", "-x509", "-nodes", "-days", "2", "-newkey", "rsa:2048", *words)


@pytest.fixture
def certificates(tmp_path):
    """An authority, another one, and certificates that the first signed: for 127.0.0.1, and for a host elsewhere."""
    if subprocess.run(["which", "openssl"], capture_output=True, check=False).returncode:
        pytest.skip("openssl is not installed: apt install openssl")
    file = {name: tmp_path / f"{name}.pem" for name in ("ca", "ca_key", "other", "node", "node_key", "far", "far_key")}
    make("-subj", "/CN=authority", "-keyout", file["ca_key"], "-out", file["ca"])
    make("-subj", "/CN=another", "-keyout", tmp_path / "unused.pem", "-out", file["other"])
    signed = ["-addext", "basicConstraints=critical,CA:FALSE", "-CA", file["ca"], "-CAkey", file["ca_key"]]
    for name, address in (("node", "127.0.0.1"), ("far", "10.9.8.7")):
        own = ["-subj", f"/CN={name}", "-addext", f"subjectAltName=IP:{address}"]
        make(*own, *signed, "-keyout", file[f"{name}_key"], "-out", file[name])
    return file


def tls_options(certificates, name):
    files = {"certificate": name, "key": f"{name}_key", "authority": "ca"}
    return [str(word) for option, key in files.items() for word in (f"--tls-{option}", certificates[key])]


def test_blocks_land_through_tls(faulty_nodes, certificates, tmp_path):
    nodes = faulty_nodes(1, 64 << 20, tls_options(certificates, "node"))
    write(nodes.contact, LARGE_BLOCKS, write_config(tmp_path, **TCP))
    check_large_blocks(nodes)


def test_a_stream_is_read_through_tls(faulty_nodes, certificates, tmp_path):
    nodes = faulty_nodes(1, 64 << 20, tls_options(certificates, "node"))
    config = write_config(tmp_path, **TCP)
    write(nodes.contact, LARGE, config)
    code = 'begin(); show((get("field") == np.arange(float(1 << 20))).all().item(), get("field", [7], [2]).tolist())'
    assert read(nodes.contact, code, config) == [[True, [7.0, 8.0]]]


@contextmanager
def writer_of_a_restarted_node(nodes, folder):
    """Yield a writer in the middle of a step whose node was killed and started again; it waits for the file 'go'."""
    code = LARGE_BLOCKS.replace(
        "    engine.end_step()", '    tell(f"put-{step}")\n    wait_for("go")\n    engine.end_step()'
    )
    with writing(nodes.contact, code, write_config(folder, **TCP)) as process:
        wait_for_file(folder / "put-0")
        nodes.kill("bb0")
        nodes.start("bb0")
        yield process


def test_a_writer_comes_back_through_tls(faulty_nodes, certificates, tmp_path):
    nodes = faulty_nodes(1, 64 << 20, tls_options(certificates, "node"))
    with writer_of_a_restarted_node(nodes, tmp_path) as process:
        (tmp_path / "go").touch()
        assert finish(process) == (0, "")
    check_large_blocks(nodes)


@contextmanager
def unreadable(certificates):
    """Take the authority's file away for a while, as who renews it may."""
    hidden = certificates["ca"].rename(certificates["ca"].with_suffix(".hidden"))
    yield
    hidden.rename(certificates["ca"])


def test_a_writer_outlasts_an_authority_that_cannot_be_read_for_a_while(faulty_nodes, certificates, tmp_path):
    nodes = faulty_nodes(1, 64 << 20, tls_options(certificates, "node"))
    with writer_of_a_restarted_node(nodes, tmp_path) as process:
        with unreadable(certificates):
            (tmp_path / "go").touch()
            time.sleep(1)  # it tries meanwhile; if it is slower than that, this proves less
        assert finish(process) == (0, "")
    check_large_blocks(nodes)


def test_a_node_is_waited_for_while_its_authority_cannot_be_read(faulty_nodes, certificates, monkeypatch):
    monkeypatch.setattr(connection, "is_loopback", lambda _: False)
    monkeypatch.setattr(connection, "_is_here", lambda _: False)
    nodes = faulty_nodes(1, 1 << 20, tls_options(certificates, "node"))
    (node,) = nodes.nodes
    returning, missed = Returning(nodes.contact, PATIENCE_S, is_silent=True), NodeError("it was missed")
    with ThreadPoolExecutor() as pool:
        with unreadable(certificates):
            with pytest.raises(NodeError, match=r"authority's certificate .*ca\.pem can't be read"):
                NodeClient(node)
            back = pool.submit(returning.client, node, missed, returning.until_s())
            time.sleep(0.2)
            assert not back.done()
        back.result().close()


@pytest.mark.parametrize(
    ("written", "instead", "reason"),
    [("ca.pem", "other.pem", "unable to get local issuer"), ("127.0.0.1:", "localhost:", "ostname mismatch")],
)
def test_a_certificate_that_is_not_the_node_s_is_refused(
    faulty_nodes, certificates, tmp_path, written, instead, reason
):
    nodes = faulty_nodes(1, 1 << 20, tls_options(certificates, "node"))
    contact = tmp_path / "contact.json"
    contact.write_text(nodes.contact.read_text().replace(written, instead))
    returncode, said = run_writer(contact, 'io.open("out", Mode.Write)', write_config(tmp_path, **TCP))
    assert returncode != 0
    assert "isn't accepted" in said
    assert reason in said


@pytest.mark.parametrize(
    ("chain", "key", "authority", "reason"),
    [
        ("far", "far_key", "ca", "isn't one that peers accept at 127.0.0.1 .* IP address mismatch"),
        ("node", "node_key", "other", "isn't one that peers accept .* unable to get local issuer"),
        ("node", "far_key", "ca", "can't be used: KEY_VALUES_MISMATCH"),
        ("node", "node", "ca", "can't be used: they are no PEM files"),
        ("node", "locked_key", "ca", "has a passphrase"),
        ("node", "gone", "ca", "can't read .*gone.pem, .* No such file"),
        ("node", "node_key", "gone", "authority's certificate .*gone.pem can't be read"),
    ],
)
def test_a_node_does_not_begin_with_what_its_peers_would_refuse(certificates, tmp_path, chain, key, authority, reason):
    run("pkey", "-aes128", "-passout", "pass:x", "-in", certificates["node_key"], "-out", tmp_path / "locked_key.pem")
    files = [tmp_path / f"{name}.pem" for name in (chain, key, authority)]
    with pytest.raises(ConfigError, match=reason):
        Certificate(*files).context("127.0.0.1")


def test_a_node_with_tls_takes_nobody_without(faulty_nodes, certificates, tmp_path):
    nodes = faulty_nodes(1, 1 << 20, tls_options(certificates, "node"))
    contact = tmp_path / "contact.json"
    contact.write_text(nodes.contact.read_text().replace(str(certificates["ca"]), ""))
    config = write_config(tmp_path, OpenTimeoutSecs="0.5", **TCP)
    returncode, said = run_writer(contact, 'io.open("out", Mode.Write)', config)
    assert returncode != 0
    assert "waited OpenTimeoutSecs=0.5" in said
