"""Numbers as OpenMetrics, of real nodes, masters and stagers; read by the strict parser of prometheus_client."""

import json
import os
import threading
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import bbflow_catalogs
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from bbflow.cli import main
from bbflow.events import EVENTS_FILE, EventLog
from bbflow.metrics import HELP, MetricsServer, NotedEvents, ask, exposition, secret_of
from bbflow.net.contact import contact_key
from bbflow.staging import File, Stager
from testsupport.files_servers import Servers
from testsupport.writers import write, write_config

THREE_STEPS = """
var = field(256)
engine = io.open("model", Mode.Write)
for step in range(3):
    engine.begin_step()
    engine.put(var, np.full(256, step, dtype=np.float64))
    engine.end_step()
engine.close()
"""


def parsed(text):
    families = text_string_to_metric_families(text.decode())
    return {(one.name, tuple(one.labels.values())): one.value for family in families for one in family.samples}


def told(contact=None, *events):
    return parsed(exposition(ask(contact, [NotedEvents(directory) for directory in events])))


def test_a_node_tells_its_room_and_its_streams(node, tmp_path):
    write(node.contact, THREE_STEPS, write_config(tmp_path))
    found = told(node.contact)
    name = node.nodes[0].name
    assert found["bbflow_node_up", (name,)] == 1
    assert found["bbflow_node_capacity_bytes", (name,)] == 16 << 20
    assert found["bbflow_stream_landed_steps_total", (name, "model")] == 3
    assert found["bbflow_stream_landed_bytes_total", (name, "model")] == 3 * 256 * 8
    assert found["bbflow_stream_held_steps", (name, "model")] == 3
    assert found["bbflow_stream_info", (name, "closed", "model")] == 1


def test_a_node_that_is_gone_is_down_and_the_others_are_told(faulty_nodes):
    nodes = faulty_nodes(2, 1 << 20)
    nodes.kill("bb0")
    found = told(nodes.contact)
    assert found["bbflow_node_up", ("bb0",)] == 0
    assert found["bbflow_node_up", ("bb1",)] == 1
    assert ("bbflow_node_free_bytes", ("bb0",)) not in found


def test_masters_tell_their_ionodes_and_files(short_path):
    with Servers(short_path) as servers:
        client = servers.start(nodes=2, storage=False)
        client.write("/file", b"x" * 1000)
        found = told(servers.contact)
        assert found["bbflow_master_up", ("/",)] == 1
        assert found["bbflow_ionode_up", ("master-io1", "/")] == 1
        assert found["bbflow_ionode_capacity_bytes", ("master-io0", "/")] == 64 << 20
        assert sum(value for (name, _), value in found.items() if name == "bbflow_files_bytes") == 1000
        servers.kill("master")
        assert told(servers.contact)["bbflow_master_up", ("/",)] == 0


def test_stagers_tell_what_they_copied_and_only_what_is_new_is_read(tmp_path):
    events = EventLog(tmp_path)
    (tmp_path / "source").write_bytes(b"x" * 1000)
    noted = NotedEvents(tmp_path)
    with Stager(tmp_path / "bb", 1 << 20, 1, events=events) as stager:
        stager.submit("task", [File(str(tmp_path / "source"))]).result(60)
        stager.final("task")
    found = parsed(exposition(noted.samples()))
    assert found["bbflow_stager_transferred_bytes_total", (str(tmp_path),)] == 1000
    assert found["bbflow_stager_tasks_total", (str(tmp_path),)] == 1
    with (tmp_path / EVENTS_FILE).open("a") as file:  # as a full file system leaves it, and something else
        file.write('{"event": "fold", "fir\n{"kind": 3}\n[1]\n')
    events.add("hold", kind="pace", reason="", started_s=1.0, ended_s=3.5)
    events.add("fold", first_step=0, last_step=4, started_s=1.0, ended_s=1.5, bytes=10)
    events.close()
    with (tmp_path / "events.jsonl").open("a") as file:
        file.write('{"event": "transf')  # which is being written
    for _ in range(2):
        found = parsed(exposition(noted.samples()))
        assert found["bbflow_stager_transfers_total", (str(tmp_path),)] == 1
        assert found["bbflow_stager_held_seconds_total", (str(tmp_path), "pace")] == 2.5
        assert found["bbflow_analysis_seconds_total", (str(tmp_path), "fold")] == 0.5
    (tmp_path / "events.jsonl").unlink()
    assert noted.directory == tmp_path
    assert [sample.value for sample in NotedEvents(tmp_path / "later").samples()] == []


@contextmanager
def serving(contact):
    secret = secret_of(contact_key(contact))
    with MetricsServer(("127.0.0.1", 0), secret, lambda: exposition(ask(contact, []))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", secret
        finally:
            server.shutdown()
            thread.join()


def get(url, token=None):
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=60) as reply:
        return reply.headers["Content-Type"], reply.read()


def test_a_scrape_needs_the_token_of_the_contact(node):
    with serving(node.contact) as (url, secret):
        kind, text = get(f"{url}/metrics", secret)
        assert kind.startswith("application/openmetrics-text; version=1.0.0")
        assert ("bbflow_node_up", (node.nodes[0].name,)) in parsed(text)
        for token in (None, "", secret[:-1], contact_key(node.contact)):
            with pytest.raises(urllib.error.HTTPError, match="401") as refused:
                get(f"{url}/metrics", token)
            refused.value.close()
        with pytest.raises(urllib.error.HTTPError, match="404") as refused:
            get(f"{url}/other", secret)
        refused.value.close()


def test_the_command_prints_numbers_and_writes_a_token_that_only_its_user_reads(node, tmp_path, capsys):
    token = tmp_path / "token"
    assert main(["metrics", "--contact", str(node.contact), "--token", str(token)]) == 0
    assert ("bbflow_node_up", (node.nodes[0].name,)) in parsed(capsys.readouterr().out.encode())
    assert token.stat().st_mode & 0o777 == 0o600
    assert token.read_text() == secret_of(contact_key(node.contact))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "there is nothing else to ask"),
        (["--contact", "/nowhere.json"], "/nowhere.json isn't there"),
        (["--events", "/tmp", "--listen", "127.0.0.1:0"], "need --contact"),
    ],
)
def test_what_cannot_be_asked_is_one_line(capsys, words, said):
    assert main(["metrics", *words]) == os.EX_USAGE
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("where", ["127.0.0.1", ":9465", "127.0.0.1:http", "127.0.0.1:70000"])
def test_an_address_has_a_host_and_a_port(node, capsys, where):
    assert main(["metrics", "--contact", str(node.contact), "--listen", where]) == os.EX_USAGE
    assert "write it like 127.0.0.1:9465" in capsys.readouterr().err


def test_the_dashboard_asks_for_numbers_that_there_are():
    board = json.loads((Path(bbflow_catalogs.__file__).parent / "grafana" / "bbflow.json").read_text())
    asked = {
        word
        for panel in board["panels"]
        for target in panel.get("targets", ())
        for word in target["expr"].replace("(", " ").replace("[", " ").replace("{", " ").replace(")", " ").split()
        if word.startswith("bbflow_")
    }
    assert len(asked) > 10
    assert asked <= HELP.keys()
