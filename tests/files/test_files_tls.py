"""Files between hosts that trust each other by certificates only."""

import os
import shutil
import ssl
import subprocess

import pytest

from bbflow.net import connection

SUBJECT = ("-nodes", "-days", "2", "-newkey", "rsa:2048", "-subj")


@pytest.fixture
def certificates(tmp_path):
    """Options with a certificate for 127.0.0.1 that an authority of the test's own has signed."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed: apt install openssl")
    files = {name: str(tmp_path / f"{name}.pem") for name in ("ca", "ca_key", "node", "node_key")}
    own = ["openssl", "req", "-x509", *SUBJECT, "/CN=authority", "-keyout", files["ca_key"], "-out", files["ca"]]
    signed = ["openssl", "req", "-x509", *SUBJECT, "/CN=node", "-addext", "subjectAltName=IP:127.0.0.1"]
    signed += ["-addext", "basicConstraints=critical,CA:FALSE", "-CA", files["ca"], "-CAkey", files["ca_key"]]
    for command in (own, [*signed, "-keyout", files["node_key"], "-out", files["node"]]):
        subprocess.run(command, check=True, capture_output=True)
    return ("--tls-certificate", files["node"], "--tls-key", files["node_key"], "--tls-authority", files["ca"])


def test_master_and_ionodes_are_reached_by_tls_from_other_hosts(servers, certificates, monkeypatch):
    monkeypatch.setattr(connection, "is_loopback", lambda _: False)
    monkeypatch.setattr(connection, "_is_here", lambda _: False)
    monkeypatch.setattr("bbflow.files.client.own_pieces.is_here", lambda _: False)
    client = servers.start(storage=False, master=certificates, node=certificates)
    content = os.urandom(2_000_000)
    client.write("/f", content)
    assert client.read("/f") == content
    (session,) = client.masters()
    assert session.on_node("master-io0", lambda caller: isinstance(caller._socket, ssl.SSLSocket))
